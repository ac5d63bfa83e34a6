//! What a caller says about a tensor: its element type, its rows, and how hard to try.

use lmc_format::Dtype;

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Never the bottleneck: the chain code alone.
    Fast,
    /// The best trade: the chain code with row and column offsets, the tree code where it gains.
    Default,
    /// Smallest: joint symbols of exponent and top mantissa bits, rANS, exact statistics.
    Max,
    /// The published algorithm: byte grouping and Huffman coding in blocks of 64 KiB.
    Paper,
}

/// What a caller knows of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Type of its elements.
    pub dtype: Dtype,
    /// Values in its last dimension (two for each complex number); 0 if unknown.
    pub row_len: u64,
}
