//! The two ends of a file (`docs/format.md`, section 6): a header that names the format, and a
//! footer that says where the index is.

use crate::advice::Advice;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{HASH_LEN, Hash, hash};
use crate::limits::INDEX_LEN_MAX;
use crate::reader::Reader;

/// The first bytes of every file.
pub const MAGIC: [u8; 8] = *b"\x89LMC\r\n\x1a\n";
/// The last bytes of every file.
pub const END_MAGIC: [u8; 8] = *b"\nLMC-END";
/// The version that is written, and the only one that can be read.
pub const VERSION: u16 = 1;
/// Bytes of the header.
pub const HEADER_LEN: usize = 16;
/// Bytes of the footer.
pub const FOOTER_LEN: usize = 64;

/// Bytes of the footer's fields, before its checksum and the end magic.
const FIELDS_LEN: usize = FOOTER_LEN - HASH_LEN - END_MAGIC.len();

/// The header of this version.
pub fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let fields = MAGIC.into_iter().chain(VERSION.to_le_bytes());
    header.iter_mut().zip(fields).for_each(|(to, byte)| *to = byte);
    header
}

/// The contents of the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Bytes between the header and the index.
    pub body_len: u64,
    /// Bytes of the index.
    pub index_len: u64,
    /// Checksum of the index.
    pub index_hash: Hash,
    /// Bytes of the original.
    pub original_len: u64,
}

impl Footer {
    /// The footer as bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        out.extend_from_slice(&self.body_len.to_le_bytes());
        out.extend_from_slice(&self.index_len.to_le_bytes());
        out.extend_from_slice(&self.index_hash.to_le_bytes());
        out.extend_from_slice(&self.original_len.to_le_bytes());
        out.extend_from_slice(&own_hash(&header(), &out).to_le_bytes());
        out.extend_from_slice(&END_MAGIC);
        out
    }

    /// Reads the footer of a file of `file_len` bytes that starts with `start` and ends with `end`.
    /// Each has its full length, or that of the file if the file is shorter.
    pub fn read(start: &[u8], end: &[u8], file_len: u64) -> Result<Self> {
        if !MAGIC.starts_with(start) && !start.starts_with(&MAGIC) {
            return Err(Error::corrupt("this is not a .lmc file: it starts with other bytes"));
        }
        if start.len() != HEADER_LEN || end.len() != FOOTER_LEN || !end.ends_with(&END_MAGIC) {
            return Err(Error::truncated(
                "the file does not end as it should: it was cut off, not finished, or extended; \
                 get a complete copy of it",
            ));
        }
        let mut input = Reader::new(end);
        let fields = input.take(FIELDS_LEN, "footer")?;
        let footer_hash = input.array("footer checksum")?;
        if u128::from_le_bytes(footer_hash) != own_hash(start, fields) {
            return Err(Error::corrupt("checksum of header and footer is wrong"));
        }
        check_version(start)?;
        Self::parse(fields, file_len)
    }

    fn parse(fields: &[u8], file_len: u64) -> Result<Self> {
        let mut input = Reader::new(fields);
        let footer = Self {
            body_len: u64::from_le_bytes(input.array("body length")?),
            index_len: u64::from_le_bytes(input.array("index length")?),
            index_hash: u128::from_le_bytes(input.array("index checksum")?),
            original_len: u64::from_le_bytes(input.array("original length")?),
        };
        let ends = (HEADER_LEN as u64).checked_add(FOOTER_LEN as u64);
        let whole = ends
            .and_then(|len| len.checked_add(footer.body_len))
            .and_then(|len| len.checked_add(footer.index_len));
        if whole != Some(file_len) {
            return Err(Error::corrupt(format!(
                "body of {} and index of {} bytes do not add up to a file of {file_len}",
                footer.body_len, footer.index_len
            )));
        }
        if footer.index_len > INDEX_LEN_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("index of {} bytes, at most {INDEX_LEN_MAX} expected", footer.index_len),
            ));
        }
        Ok(footer)
    }
}

/// Checksum of the header and the footer's fields.
fn own_hash(header: &[u8], fields: &[u8]) -> Hash {
    hash(&[header, fields].concat())
}

/// Fails unless the header has this version.
fn check_version(header: &[u8]) -> Result<()> {
    let mut input = Reader::new(header);
    input.take(MAGIC.len(), "magic")?;
    let version = input.u16("version")?;
    if version != VERSION {
        return Err(too_new(format!("format version {version}, this reader knows {VERSION}")));
    }
    if input.rest().iter().any(|&byte| byte != 0) {
        return Err(too_new("the header has flags that this reader does not know"));
    }
    Ok(())
}

fn too_new(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message).with_advice(Advice::Upgrade)
}
