//! The caller's description of a tensor: its element type, its rows, its bytes and their base, and
//! how hard to try.

use lmc_format::Dtype;

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Never the bottleneck: the chain code alone.
    Fast,
    /// The best trade-off: the chain code with row and column offsets, and the tree code where it
    /// gains.
    Default,
    /// Smallest: joint symbols of exponent and top mantissa bits, rANS, exact statistics.
    Max,
    /// The published algorithm: byte grouping and Huffman coding in blocks of 64 KiB.
    Paper,
}

/// The facts that a caller knows about a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Type of its elements.
    pub dtype: Dtype,
    /// Values in its last dimension (two for each complex number); 0 if unknown.
    pub row_len: u64,
}

/// Bytes of a tensor or of part of it, and the base that they may be coded against.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The bytes at the same place in the base, of the same length; None if there is no base.
    pub base: Option<&'a [u8]>,
}

impl<'a> Block<'a> {
    /// Bytes without a base.
    pub fn alone(bytes: &'a [u8]) -> Self {
        Self { bytes, base: None }
    }

    /// Bytes that may be coded against `base`.
    pub fn against(bytes: &'a [u8], base: &'a [u8]) -> Self {
        Self { bytes, base: Some(base) }
    }

    /// Panics if the base has a different length.
    pub(crate) fn check(&self) {
        let base_len = self.base.map_or(self.bytes.len(), <[u8]>::len);
        assert_eq!(self.bytes.len(), base_len, "a base has as many bytes as what is coded");
    }
}
