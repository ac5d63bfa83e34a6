//! The start of a block: its kind and original length (`docs/format.md`, section 2).

use crate::error::{Error, ErrorKind, Result};
use crate::limits::BLOCK_LEN_MAX;
use crate::reader::Reader;
use crate::varint;

/// How a block's body is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The original bytes.
    Stored,
    /// One element, repeated.
    Constant,
    /// A recipe and the bytes that it coded.
    Coded,
    /// Coded bytes; the recipe is elsewhere.
    Shared,
    /// Nothing: the original bytes are those of the base.
    Same,
    /// Flags and a frame of Zstandard.
    Zstd,
}

/// Kind and original length: the first bytes of every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPrefix {
    /// How to read the body.
    pub kind: BlockKind,
    /// Number of original bytes, at most [`BLOCK_LEN_MAX`].
    pub raw_len: usize,
}

impl BlockPrefix {
    /// Appends the prefix.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(match self.kind {
            BlockKind::Stored => 0,
            BlockKind::Constant => 1,
            BlockKind::Coded => 2,
            BlockKind::Shared => 3,
            BlockKind::Same => 4,
            BlockKind::Zstd => 5,
        });
        varint::write(out, self.raw_len as u64);
    }

    /// Reads a prefix; `raw_len` is bounded when this returns `Ok`.
    pub fn read(input: &mut Reader) -> Result<Self> {
        let kind = match input.u8("block kind")? {
            0 => BlockKind::Stored,
            1 => BlockKind::Constant,
            2 => BlockKind::Coded,
            3 => BlockKind::Shared,
            4 => BlockKind::Same,
            5 => BlockKind::Zstd,
            k => return Err(Error::corrupt(format!("block kind {k} is unknown"))),
        };
        let raw_len = input.varint("block length")?;
        match usize::try_from(raw_len) {
            Ok(len) if raw_len <= BLOCK_LEN_MAX => Ok(Self { kind, raw_len: len }),
            _ => Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("block of {raw_len} bytes, at most {BLOCK_LEN_MAX} expected"),
            )),
        }
    }
}
