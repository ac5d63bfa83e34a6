//! The element types of safetensors, version 0.8.

use lmc_codec::Dtype;

/// An element type of the format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileDtype {
    /// Its name in the header.
    pub name: &'static str,
    /// Bits of a value.
    pub bits: u64,
    /// What its bytes are coded as.
    pub codec: Dtype,
}

const fn dtype(name: &'static str, bits: u64, codec: Dtype) -> FileDtype {
    FileDtype { name, bits, codec }
}

/// All of them; those with values of less than a byte are coded as bytes.
static DTYPES: [FileDtype; 22] = [
    dtype("BF16", 16, Dtype::Bf16),
    dtype("F32", 32, Dtype::F32),
    dtype("F16", 16, Dtype::F16),
    dtype("F64", 64, Dtype::F64),
    dtype("F8_E4M3", 8, Dtype::F8E4M3),
    dtype("F8_E5M2", 8, Dtype::F8E5M2),
    dtype("F8_E4M3FNUZ", 8, Dtype::F8E4M3Fnuz),
    dtype("F8_E5M2FNUZ", 8, Dtype::F8E5M2Fnuz),
    dtype("F8_E8M0", 8, Dtype::F8E8M0),
    dtype("I8", 8, Dtype::I8),
    dtype("I16", 16, Dtype::I16),
    dtype("I32", 32, Dtype::I32),
    dtype("I64", 64, Dtype::I64),
    dtype("U8", 8, Dtype::U8),
    dtype("U16", 16, Dtype::U16),
    dtype("U32", 32, Dtype::U32),
    dtype("U64", 64, Dtype::U64),
    dtype("BOOL", 8, Dtype::Bool),
    dtype("C64", 64, Dtype::Complex64),
    dtype("F4", 4, Dtype::Bytes),
    dtype("F6_E2M3", 6, Dtype::Bytes),
    dtype("F6_E3M2", 6, Dtype::Bytes),
];

impl FileDtype {
    /// The type of this name.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        DTYPES.iter().find(|dtype| dtype.name == name)
    }

    /// Bytes of `count` values, if that is a whole number of them.
    pub(crate) fn byte_len(&self, count: u64) -> Option<u64> {
        let bits = count.checked_mul(self.bits)?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }
}
