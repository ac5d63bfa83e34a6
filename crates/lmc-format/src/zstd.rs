//! The body of a block of kind zstd (`docs/format.md`, section 2): its flags and one frame of
//! Zstandard.
//!
//! The frame's header and the headers of its blocks are checked here. So a decoder of frames is
//! given exactly one frame of a known length, which asks for no dictionary and no window of its
//! own.

use crate::error::{Error, ErrorKind, Result};
use crate::limits::ZSTD_BLOCK_LEN_MAX;
use crate::reader::Reader;

/// The first bytes of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The bit of the flags that says that the base is the content of a dictionary.
const WITH_BASE: u8 = 1;
/// The bit of the frame's descriptor that says that the window is as long as the content.
const SINGLE_SEGMENT: u8 = 1 << 5;
/// The bits of the descriptor that say how long the content size is.
const SIZE_BITS: u8 = 0b1100_0000;
/// Most bytes of a block of a frame.
const FRAME_BLOCK_LEN_MAX: usize = 1 << 17;

/// The body of a block of kind zstd, with a frame whose headers are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdBody<'a> {
    /// Whether the base is the content of a dictionary.
    pub needs_base: bool,
    /// The frame, from its magic number to its last byte.
    pub frame: &'a [u8],
    /// How many of the frame's blocks are compressed.
    pub compressed: usize,
}

impl<'a> ZstdBody<'a> {
    /// Appends what comes before the frame.
    pub fn write_flags(needs_base: bool, out: &mut Vec<u8>) {
        out.push(if needs_base { WITH_BASE } else { 0 });
    }

    /// Whether a block needs its base; its body is next in `input`.
    pub fn read_flags(input: &mut Reader) -> Result<bool> {
        match input.u8("zstd flags")? {
            flags if flags & !WITH_BASE != 0 => {
                Err(Error::corrupt(format!("zstd flags are {flags:#x}, 0 or 1 expected")))
            }
            flags => Ok(flags == WITH_BASE),
        }
    }

    /// Reads the body of a block of `raw_len` bytes: all that is left of `input`.
    pub fn read(raw_len: usize, input: &mut Reader<'a>) -> Result<Self> {
        let needs_base = Self::read_flags(input)?;
        if raw_len > ZSTD_BLOCK_LEN_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("zstd block of {raw_len} bytes, at most {ZSTD_BLOCK_LEN_MAX} expected"),
            ));
        }
        let frame = input.rest();
        read_header(raw_len, input)?;
        let mut compressed = 0_usize;
        loop {
            let block = FrameBlock::read(raw_len, input)?;
            compressed = compressed.saturating_add(usize::from(block.is_compressed));
            if block.is_last {
                break;
            }
        }
        input.finish("the zstd frame")?;
        Ok(Self { needs_base, frame, compressed })
    }

    /// How many blocks of the frame are compressed, as far as `input` goes, where the body is next.
    pub fn count_compressed(raw_len: usize, mut input: Reader) -> usize {
        let mut count = || {
            Self::read_flags(&mut input)?;
            read_header(raw_len, &mut input)
        };
        if count().is_err() {
            return 0;
        }
        let mut compressed = 0_usize;
        while let Ok(block) = FrameBlock::read(raw_len, &mut input) {
            compressed = compressed.saturating_add(usize::from(block.is_compressed));
            if block.is_last {
                break;
            }
        }
        compressed
    }
}

/// Reads the header of a frame with `raw_len` bytes of content.
fn read_header(raw_len: usize, input: &mut Reader) -> Result<()> {
    let magic: [u8; 4] = input.array("zstd frame")?;
    if magic != MAGIC {
        return Err(Error::corrupt("zstd frame has a wrong magic number"));
    }
    let descriptor = input.u8("zstd frame header")?;
    if descriptor & !SIZE_BITS != SINGLE_SEGMENT {
        return Err(Error::corrupt(format!(
            "zstd frame descriptor {descriptor:#x} is not that of a single segment without \
             dictionary id and checksum"
        )));
    }
    let what = "zstd content size";
    let size = match descriptor >> 6 {
        0 => u64::from(input.u8(what)?),
        1 => u64::from(input.u16(what)?).saturating_add(256),
        2 => u64::from(u32::from_le_bytes(input.array(what)?)),
        _ => u64::from_le_bytes(input.array(what)?),
    };
    if usize::try_from(size) != Ok(raw_len) {
        return Err(Error::corrupt(format!("zstd frame holds {size} bytes, {raw_len} expected")));
    }
    Ok(())
}

/// The header of a block of a frame.
struct FrameBlock {
    is_last: bool,
    is_compressed: bool,
}

impl FrameBlock {
    /// Reads the header of a block and skips its content.
    fn read(raw_len: usize, input: &mut Reader) -> Result<Self> {
        let [a, b, c] = input.array("zstd block header")?;
        let header = u32::from_le_bytes([a, b, c, 0]);
        let size = usize::try_from(header >> 3).unwrap_or(usize::MAX);
        let most = FRAME_BLOCK_LEN_MAX.min(raw_len);
        if size > most {
            return Err(Error::corrupt(format!(
                "block of {size} bytes in a zstd frame, at most {most} expected"
            )));
        }
        let kind = header >> 1 & 3;
        let len = match kind {
            0 | 2 => size,
            1 => 1,
            _ => return Err(Error::corrupt("block of a reserved type in a zstd frame")),
        };
        input.take(len, "zstd block")?;
        Ok(Self { is_last: header & 1 == 1, is_compressed: kind == 2 })
    }
}
