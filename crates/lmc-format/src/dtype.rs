//! Element types as an index names them (`docs/format.md`, section 7.3). They tell a reader of
//! `lmc inspect` how a span was looked at; a decoder needs only the recipes.

/// The names, by id.
const NAMES: [&str; 22] = [
    "bytes",
    "bf16",
    "f16",
    "f32",
    "f64",
    "f8_e4m3",
    "f8_e5m2",
    "f8_e4m3fnuz",
    "f8_e5m2fnuz",
    "f8_e8m0",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "bool",
    "c32",
    "c64",
    "c128",
];

/// The name of an element type; None for an unknown id.
pub fn name(id: u8) -> Option<&'static str> {
    NAMES.get(usize::from(id)).copied()
}

/// The id of an element type.
pub fn id(name: &str) -> Option<u8> {
    NAMES.iter().position(|known| *known == name).and_then(|id| u8::try_from(id).ok())
}
