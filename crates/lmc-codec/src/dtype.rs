//! Element types: width, and where a float has its exponent.

use lmc_format::WordMap;

/// The element type of a tensor.
///
/// Packed types of less than a byte (fp4, fp6) and everything unknown are [`Dtype::Bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Dtype {
    Bf16,
    F16,
    F32,
    F64,
    F8E4M3,
    F8E5M2,
    F8E4M3Fnuz,
    F8E5M2Fnuz,
    F8E8M0,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
    /// Pairs of f16.
    Complex32,
    /// Pairs of f32.
    Complex64,
    /// Pairs of f64.
    Complex128,
    Bytes,
}

/// How the words of a type are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub width_log2: u8,
    pub map: WordMap,
    /// Bits of the exponent at the top of the mapped word; 0 when the type has none.
    pub exponent_bits: u8,
}

impl Layout {
    /// For floats that are never negative: the sign stays on top and counts as part of the
    /// exponent, so that no plane has to store it. Other layouts stay as they are.
    pub fn with_sign_on_top(self) -> Self {
        match self.map {
            WordMap::Rotate => {
                Self { map: WordMap::None, exponent_bits: self.exponent_bits + 1, ..self }
            }
            _ => self,
        }
    }
}

impl Dtype {
    /// Every type.
    pub const ALL: [Self; 22] = [
        Self::Bf16,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::F8E4M3Fnuz,
        Self::F8E5M2Fnuz,
        Self::F8E8M0,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
        Self::Complex32,
        Self::Complex64,
        Self::Complex128,
        Self::Bytes,
    ];

    /// Bytes of one word; a complex number is two words.
    pub fn width(self) -> usize {
        1 << self.layout().width_log2
    }

    pub(crate) fn layout(self) -> Layout {
        let float =
            |width_log2, exponent_bits| Layout { width_log2, map: WordMap::Rotate, exponent_bits };
        let plain = |width_log2, map| Layout { width_log2, map, exponent_bits: 0 };
        match self {
            Self::Bf16 => float(1, 8),
            Self::F16 | Self::Complex32 => float(1, 5),
            Self::F32 | Self::Complex64 => float(2, 8),
            Self::F64 | Self::Complex128 => float(3, 11),
            Self::F8E4M3 | Self::F8E4M3Fnuz => float(0, 4),
            Self::F8E5M2 | Self::F8E5M2Fnuz => float(0, 5),
            Self::F8E8M0 | Self::I8 | Self::U8 | Self::Bool | Self::Bytes => {
                plain(0, WordMap::None)
            }
            Self::I16 => plain(1, WordMap::Zigzag),
            Self::I32 => plain(2, WordMap::Zigzag),
            Self::I64 => plain(3, WordMap::Zigzag),
            Self::U16 => plain(1, WordMap::None),
            Self::U32 => plain(2, WordMap::None),
            Self::U64 => plain(3, WordMap::None),
        }
    }
}

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
