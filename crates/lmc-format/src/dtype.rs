//! Element types, all in one table. Everything that depends on an element type is a column here or
//! is derived from one.
//!
//! A file stores the id of a type only for people to read (`docs/format.md`, section 7.3). A
//! decoder needs only the recipes, so an id that is not in this table is shown as a number.

use std::fmt;

/// The element type of a tensor.
///
/// Any unknown type is [`Dtype::Bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below says what each one is")]
pub enum Dtype {
    Bytes,
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
    Complex32,
    Complex64,
    Complex128,
    F4E2M1,
    F6E2M3,
    F6E3M2,
}

/// The structure of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtypeKind {
    /// A sign, an exponent and a mantissa, from the top bit down.
    Float(FloatFields),
    /// Two floats with these fields, the real part first.
    Complex(FloatFields),
    /// A signed integer.
    Signed,
    /// An unsigned integer, a truth value, or bytes that nothing is known about.
    Unsigned,
    /// Values of less than a byte, packed without gaps.
    Packed,
}

/// The fields of a float below its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFields {
    /// Bits of the exponent.
    pub exponent_bits: u8,
    /// Bits of the mantissa.
    pub mantissa_bits: u8,
    /// The bias, which is subtracted from the exponent.
    pub bias: i32,
}

/// The name of a type in numpy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumpyName {
    /// A built-in type of numpy.
    Own(&'static str),
    /// A type that numpy knows once the package `ml_dtypes` is imported.
    MlDtypes(&'static str),
}

/// A row of the table.
struct Row {
    dtype: Dtype,
    name: &'static str,
    bits: u8,
    kind: DtypeKind,
    safetensors: Option<&'static str>,
    torch: Option<&'static str>,
    numpy: Option<NumpyName>,
}

const fn row(dtype: Dtype, name: &'static str, bits: u8, kind: DtypeKind) -> Row {
    Row { dtype, name, bits, kind, safetensors: None, torch: None, numpy: None }
}

impl Row {
    const fn safetensors(self, name: &'static str) -> Self {
        Self { safetensors: Some(name), ..self }
    }

    const fn torch(self, name: &'static str) -> Self {
        Self { torch: Some(name), ..self }
    }

    const fn numpy(self, name: &'static str) -> Self {
        Self { numpy: Some(NumpyName::Own(name)), ..self }
    }

    const fn ml_dtypes(self, name: &'static str) -> Self {
        Self { numpy: Some(NumpyName::MlDtypes(name)), ..self }
    }

    /// For a type that has the same name in torch and numpy.
    const fn both(self, name: &'static str) -> Self {
        self.torch(name).numpy(name)
    }
}

const fn fields(exponent_bits: u8, mantissa_bits: u8, bias: i32) -> FloatFields {
    FloatFields { exponent_bits, mantissa_bits, bias }
}

const fn float(exponent_bits: u8, mantissa_bits: u8, bias: i32) -> DtypeKind {
    DtypeKind::Float(fields(exponent_bits, mantissa_bits, bias))
}

const fn complex(exponent_bits: u8, mantissa_bits: u8, bias: i32) -> DtypeKind {
    DtypeKind::Complex(fields(exponent_bits, mantissa_bits, bias))
}

/// Every type, by id: the type, its name, its bits, its structure, and its names elsewhere. Ids are
/// places in this list, and files contain them: add a row at the end, never between others.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(Dtype::Bytes,      "bytes",       8,   DtypeKind::Unsigned),
    row(Dtype::Bf16,       "bf16",        16,  float(8, 7, 127)).safetensors("BF16").torch("bfloat16").ml_dtypes("bfloat16"),
    row(Dtype::F16,        "f16",         16,  float(5, 10, 15)).safetensors("F16").both("float16"),
    row(Dtype::F32,        "f32",         32,  float(8, 23, 127)).safetensors("F32").both("float32"),
    row(Dtype::F64,        "f64",         64,  float(11, 52, 1023)).safetensors("F64").both("float64"),
    row(Dtype::F8E4M3,     "f8_e4m3",     8,   float(4, 3, 7)).safetensors("F8_E4M3").torch("float8_e4m3fn").ml_dtypes("float8_e4m3fn"),
    row(Dtype::F8E5M2,     "f8_e5m2",     8,   float(5, 2, 15)).safetensors("F8_E5M2").torch("float8_e5m2").ml_dtypes("float8_e5m2"),
    row(Dtype::F8E4M3Fnuz, "f8_e4m3fnuz", 8,   float(4, 3, 8)).safetensors("F8_E4M3FNUZ").torch("float8_e4m3fnuz").ml_dtypes("float8_e4m3fnuz"),
    row(Dtype::F8E5M2Fnuz, "f8_e5m2fnuz", 8,   float(5, 2, 16)).safetensors("F8_E5M2FNUZ").torch("float8_e5m2fnuz").ml_dtypes("float8_e5m2fnuz"),
    row(Dtype::F8E8M0,     "f8_e8m0",     8,   DtypeKind::Unsigned).safetensors("F8_E8M0").torch("float8_e8m0fnu").ml_dtypes("float8_e8m0fnu"),
    row(Dtype::I8,         "i8",          8,   DtypeKind::Signed).safetensors("I8").both("int8"),
    row(Dtype::I16,        "i16",         16,  DtypeKind::Signed).safetensors("I16").both("int16"),
    row(Dtype::I32,        "i32",         32,  DtypeKind::Signed).safetensors("I32").both("int32"),
    row(Dtype::I64,        "i64",         64,  DtypeKind::Signed).safetensors("I64").both("int64"),
    row(Dtype::U8,         "u8",          8,   DtypeKind::Unsigned).safetensors("U8").both("uint8"),
    row(Dtype::U16,        "u16",         16,  DtypeKind::Unsigned).safetensors("U16").both("uint16"),
    row(Dtype::U32,        "u32",         32,  DtypeKind::Unsigned).safetensors("U32").both("uint32"),
    row(Dtype::U64,        "u64",         64,  DtypeKind::Unsigned).safetensors("U64").both("uint64"),
    row(Dtype::Bool,       "bool",        8,   DtypeKind::Unsigned).safetensors("BOOL").both("bool"),
    row(Dtype::Complex32,  "c32",         32,  complex(5, 10, 15)).torch("complex32"),
    row(Dtype::Complex64,  "c64",         64,  complex(8, 23, 127)).safetensors("C64").both("complex64"),
    row(Dtype::Complex128, "c128",        128, complex(11, 52, 1023)).both("complex128"),
    row(Dtype::F4E2M1,     "f4_e2m1",     4,   DtypeKind::Packed).safetensors("F4").torch("float4_e2m1fn_x2"),
    row(Dtype::F6E2M3,     "f6_e2m3",     6,   DtypeKind::Packed).safetensors("F6_E2M3"),
    row(Dtype::F6E3M2,     "f6_e3m2",     6,   DtypeKind::Packed).safetensors("F6_E3M2"),
];

impl Dtype {
    /// The number of types.
    const COUNT: usize = ROWS.len();

    /// Every type, in the order of ids.
    #[expect(clippy::indexing_slicing, reason = "the compiler checks constants")]
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::Bytes; Self::COUNT];
        let mut i = 0;
        while i < Self::COUNT {
            all[i] = ROWS[i].dtype;
            i += 1;
        }
        all
    };

    #[expect(clippy::indexing_slicing, reason = "there is a row for each type")]
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its id in a file.
    pub fn id(self) -> DtypeId {
        DtypeId(self as u8)
    }

    /// Our name for it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Bits of a value; of both parts together, if it is complex.
    pub fn bits(self) -> u64 {
        u64::from(self.row().bits)
    }

    /// Its structure.
    pub fn kind(self) -> DtypeKind {
        self.row().kind
    }

    /// Bytes of one word: a value, or one part of a complex value. 1 if values are packed.
    pub fn width(self) -> usize {
        let bits = match self.kind() {
            DtypeKind::Complex(_) => self.bits() / 2,
            DtypeKind::Packed => 8,
            _ => self.bits(),
        };
        (bits / 8) as usize
    }

    /// The fields of its words, if they are floats.
    pub fn float_fields(self) -> Option<FloatFields> {
        match self.kind() {
            DtypeKind::Float(fields) | DtypeKind::Complex(fields) => Some(fields),
            _ => None,
        }
    }

    /// Bytes of `count` values, if that is a whole number of bytes.
    pub fn byte_len(self, count: u64) -> Option<u64> {
        let bits = count.checked_mul(self.bits())?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Its name in safetensors.
    pub fn in_safetensors(self) -> Option<&'static str> {
        self.row().safetensors
    }

    /// The name that users know: that in safetensors, or ours if there is none.
    pub fn label(self) -> &'static str {
        self.in_safetensors().unwrap_or(self.name())
    }

    /// Its name in torch.
    pub fn in_torch(self) -> Option<&'static str> {
        self.row().torch
    }

    /// Its name in numpy.
    pub fn in_numpy(self) -> Option<NumpyName> {
        self.row().numpy
    }

    /// The type with this name in safetensors.
    pub fn from_safetensors(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.safetensors == Some(name)).map(|row| row.dtype)
    }
}

/// The id of a type in a file; a later writer may use one that this table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DtypeId(u8);

impl DtypeId {
    /// The largest id: the last bit of its byte in a file is another flag.
    const MAX: u8 = 127;

    /// An id from a file; None if it is out of range.
    pub fn new(id: u8) -> Option<Self> {
        (id <= Self::MAX).then_some(Self(id))
    }

    /// The number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The type, if it is known.
    pub fn dtype(self) -> Option<Dtype> {
        ROWS.get(usize::from(self.0)).map(|row| row.dtype)
    }
}

impl fmt::Display for DtypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype() {
            Some(dtype) => f.pad(dtype.name()),
            None => f.pad(&format!("unknown ({})", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Every row is at the position of its type's id, and no name is used twice.
    #[test]
    fn rows_are_in_their_places() {
        for (i, row) in ROWS.iter().enumerate() {
            assert_eq!(row.dtype as usize, i, "{}", row.name);
            assert_eq!(row.dtype.id().dtype(), Some(row.dtype));
        }
        let unique = |names: Vec<&str>| names.iter().collect::<HashSet<_>>().len() == names.len();
        assert!(unique(ROWS.iter().map(|row| row.name).collect()));
        assert!(unique(ROWS.iter().filter_map(|row| row.safetensors).collect()));
        assert!(unique(ROWS.iter().filter_map(|row| row.torch).collect()));
    }

    /// The fields of a float and the sign fill its word.
    #[test]
    fn fields_fill_words() {
        for dtype in Dtype::ALL {
            if let Some(fields) = dtype.float_fields() {
                let bits = 1 + fields.exponent_bits + fields.mantissa_bits;
                assert_eq!(usize::from(bits), 8 * dtype.width(), "{}", dtype.name());
            }
        }
    }

    /// Packed values fill whole bytes only for some counts.
    #[test]
    fn packed_values_are_counted_in_bits() {
        assert_eq!(Dtype::F4E2M1.byte_len(6), Some(3));
        assert_eq!(Dtype::F4E2M1.byte_len(5), None);
        assert_eq!(Dtype::F6E2M3.byte_len(4), Some(3));
        assert_eq!(Dtype::Complex64.byte_len(2), Some(16));
        assert_eq!(Dtype::F64.byte_len(u64::MAX), None);
    }

    /// An id that is not in the table is shown as a number.
    #[test]
    fn unknown_ids_are_numbers() {
        let unknown = DtypeId::new(99);
        assert_eq!(unknown.and_then(DtypeId::dtype), None);
        assert_eq!(unknown.map(|id| id.to_string()), Some("unknown (99)".into()));
        assert_eq!(Dtype::Bf16.id().to_string(), "bf16");
        assert_eq!(DtypeId::new(128), None);
    }
}
