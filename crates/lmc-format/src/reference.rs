//! The bases of a file, and the references of spans to them (`docs/format.md`, section 7.5).

use crate::error::{Error, Result};
use crate::hash::Hash;
use crate::limits::BASE_NAME_LEN_MAX;
use crate::reader::Reader;
use crate::varint;

/// Another file whose original this one is coded against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseId {
    /// Content hash of its original.
    pub hash: Hash,
    /// Bytes of its original.
    pub len: u64,
    /// The name that it had; [`BaseId::is_name`] accepts it.
    pub name: String,
}

impl BaseId {
    /// Whether this can be the name of a file anywhere: one component of a path, and printable.
    pub fn is_name(name: &str) -> bool {
        (1..=BASE_NAME_LEN_MAX).contains(&name.len())
            && name != "."
            && name != ".."
            && !name.contains(|c: char| c == '/' || c.is_control())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.hash.to_le_bytes());
        varint::write(out, self.len);
        varint::write(out, self.name.len() as u64);
        out.extend_from_slice(self.name.as_bytes());
    }

    pub(crate) fn read(input: &mut Reader) -> Result<Self> {
        let hash = Hash::from_le_bytes(input.array("content hash")?);
        let len = input.varint("length")?;
        let name_len = usize::try_from(input.varint("length of name")?).unwrap_or(usize::MAX);
        if name_len > BASE_NAME_LEN_MAX {
            let most = BASE_NAME_LEN_MAX;
            return Err(Error::corrupt(format!(
                "name of {name_len} bytes, at most {most} expected"
            )));
        }
        let name = str::from_utf8(input.take(name_len, "name")?).ok();
        match name.filter(|name| Self::is_name(name)) {
            Some(name) => Ok(Self { hash, len, name: name.to_string() }),
            None => Err(Error::corrupt("a name that no file can have")),
        }
    }
}

/// The conversion of a source's bytes before they are used as a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conversion {
    /// Nothing.
    None = 0,
    /// f32 to bf16, to nearest.
    Bf16Nearest = 1,
    /// f32 to bf16, truncated.
    Bf16Cut = 2,
    /// f32 to f16, to nearest.
    F16Nearest = 3,
    /// f32 to f16, truncated.
    F16Cut = 4,
    /// bf16 to f32.
    Bf16Widened = 5,
    /// f16 to f32.
    F16Widened = 6,
}

impl Conversion {
    /// Every conversion, by its id.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Bf16Nearest,
        Self::Bf16Cut,
        Self::F16Nearest,
        Self::F16Cut,
        Self::Bf16Widened,
        Self::F16Widened,
    ];

    /// What it does, in words; empty for [`Conversion::None`].
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bf16Nearest => "f32 to bf16",
            Self::Bf16Cut => "f32 to bf16, cut off",
            Self::F16Nearest => "f32 to f16",
            Self::F16Cut => "f32 to f16, cut off",
            Self::Bf16Widened => "bf16 to f32",
            Self::F16Widened => "f16 to f32",
        }
    }

    /// Bytes of a word that it gives; 1 if it does not convert words.
    pub fn word_len(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Bf16Nearest | Self::Bf16Cut | Self::F16Nearest | Self::F16Cut => 2,
            Self::Bf16Widened | Self::F16Widened => 4,
        }
    }

    /// Bytes of the source for `len` bytes of the base, which are whole words; the largest 64-bit
    /// number on overflow.
    pub fn source_len(self, len: u64) -> u64 {
        match self.word_len() {
            1 => len,
            2 => len.saturating_mul(2),
            _ => len / 2,
        }
    }
}

/// Where the base of a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// 0: this file's own original; `i`: base `i`, counted from 1.
    pub source: u64,
    /// First byte in the source.
    pub start: u64,
    /// The conversion of the bytes.
    pub conversion: Conversion,
}

impl Reference {
    /// Whether it refers to this file's own original.
    pub fn is_own(&self) -> bool {
        self.source == 0
    }

    /// The end of the bytes in the source that a span of `raw_len` bytes refers to.
    pub fn end(&self, raw_len: u64) -> u64 {
        self.start.saturating_add(self.conversion.source_len(raw_len))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        varint::write(out, self.source);
        varint::write(out, self.start);
        out.push(self.conversion as u8);
    }

    pub(crate) fn read(input: &mut Reader) -> Result<Self> {
        let source = input.varint("source")?;
        let start = input.varint("start in the source")?;
        let id = input.u8("conversion")?;
        let conversion = Conversion::ALL.into_iter().find(|known| *known as u8 == id);
        let conversion =
            conversion.ok_or_else(|| Error::corrupt(format!("unknown conversion {id}")))?;
        Ok(Self { source, start, conversion })
    }
}
