//! Blocks of kind zstd, for bytes that are not numbers: text, pickles, logs.
//!
//! Bytes and their base go in, the body of a block comes out, and back. What is written depends on
//! the bytes, the base and the level alone.

use crate::decode::{BasePart, no_base};
use crate::express::{CannotExpress, Encoded};
use lmc_format::limits::ZSTD_BLOCK_LEN_MAX;
use lmc_format::{Error, ErrorKind, Reader, Result, ZstdBody};
use std::ops::Range;
use zstd_safe::{CCtx, CParameter, DCtx, compress_bound, get_error_name};

/// Contexts for longer blocks are not kept: they have tens of megabytes.
const KEPT_LEN: usize = 1 << 18;
/// Levels from the first to the last use tables by row. How these are filled depends on what a
/// context has coded before, so they get a new one.
const BY_ROW: std::ops::RangeInclusive<i32> = 5..=12;
/// Smallest window, as its log2.
const WINDOW_LOG_MIN: u32 = 10;

/// Codes frames. It holds working memory.
#[derive(Default)]
pub(crate) struct ZstdEncoder {
    context: Option<CCtx<'static>>,
    frame: Vec<u8>,
}

impl std::fmt::Debug for ZstdEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("ZstdEncoder").finish_non_exhaustive()
    }
}

impl ZstdEncoder {
    /// Appends the body of a block with these bytes. If there is a base, it is used as a
    /// dictionary. If it cannot be coded, this fails and leaves `out` as it was.
    pub(crate) fn write(
        &mut self,
        level: i32,
        bytes: &[u8],
        base: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let frame = self.compress(level, bytes, base)?;
        ZstdBody::write_flags(base.is_some(), out);
        out.extend_from_slice(frame);
        Ok(())
    }

    /// The frame of these bytes.
    pub(crate) fn compress(
        &mut self,
        level: i32,
        bytes: &[u8],
        base: Option<&[u8]>,
    ) -> std::result::Result<&[u8], CannotExpress> {
        if bytes.len() > ZSTD_BLOCK_LEN_MAX {
            return Err(CannotExpress);
        }
        let wanted = compress_bound(bytes.len());
        if self.frame.len() < wanted {
            self.frame.resize(wanted, 0);
        }
        let len = match base {
            // Bytes that happen to follow their base in memory would be coded otherwise.
            Some(base) if base.as_ptr_range().end == bytes.as_ptr() => {
                let apart = base.to_vec();
                on_base(level, bytes, &apart, &mut self.frame)
            }
            Some(base) => on_base(level, bytes, base, &mut self.frame),
            None if bytes.len() > KEPT_LEN || BY_ROW.contains(&level) => CCtx::try_create()
                .and_then(|mut own| frame(&mut own, level, bytes, &mut self.frame)),
            None => {
                let mut kept = self.context.take().or_else(CCtx::try_create);
                let len = kept.as_mut().and_then(|own| frame(own, level, bytes, &mut self.frame));
                // A context that failed is in an unknown state.
                self.context = len.and(kept);
                len
            }
        };
        if self.frame.len() > compress_bound(KEPT_LEN) && bytes.len() <= KEPT_LEN {
            self.frame.truncate(compress_bound(KEPT_LEN));
            self.frame.shrink_to_fit();
        }
        self.frame.get(..len.ok_or(CannotExpress)?).ok_or(CannotExpress)
    }
}

/// Writes a frame on a base; its length.
fn on_base(level: i32, bytes: &[u8], base: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut context = CCtx::try_create()?;
    set(&mut context, level, bytes.len())?;
    context.ref_prefix(base).ok()?;
    context.compress2(out, bytes).ok()
}

/// Writes a frame without a base; its length.
fn frame(context: &mut CCtx, level: i32, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    set(context, level, bytes.len())?;
    context.compress2(out, bytes).ok()
}

/// Sets what the format wants: a window of all bytes, and no checksum.
fn set(context: &mut CCtx, level: i32, len: usize) -> Option<()> {
    let window_log = len.next_power_of_two().trailing_zeros().max(WINDOW_LOG_MIN);
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::WindowLog(window_log),
        CParameter::ContentSizeFlag(true),
        CParameter::ChecksumFlag(false),
        CParameter::DictIdFlag(false),
    ] {
        context.set_parameter(parameter).ok()?;
    }
    Some(())
}

/// Decodes frames. It holds working memory.
#[derive(Default)]
pub(crate) struct ZstdDecoder {
    context: Option<DCtx<'static>>,
}

impl std::fmt::Debug for ZstdDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("ZstdDecoder").finish_non_exhaustive()
    }
}

impl ZstdDecoder {
    /// Decodes the original bytes `range` of a block of `raw_len` bytes, whose body is `input`.
    pub(crate) fn decode_part(
        &mut self,
        raw_len: usize,
        mut input: Reader,
        base: Option<BasePart>,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let body = ZstdBody::read(raw_len, &mut input)?;
        let base = match body.needs_base {
            true => Some(base.ok_or_else(no_base)?.get(0..raw_len)?),
            false => None,
        };
        if range.len() == raw_len {
            return self.decode(body.frame, base, out);
        }
        let mut whole = vec![0; raw_len];
        self.decode(body.frame, base, &mut whole)?;
        let part = whole.get(range).filter(|part| part.len() == out.len());
        out.copy_from_slice(part.ok_or_else(|| Error::invalid("the range is not in the block"))?);
        Ok(())
    }

    /// Decodes a frame into all of `out`, which has as many bytes as the frame says it holds.
    /// `base` is the content of a dictionary.
    fn decode(&mut self, frame: &[u8], base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        let done = match base {
            Some(base) => {
                let mut context = DCtx::try_create().ok_or_else(no_memory)?;
                let done = context.ref_prefix(base);
                done.and_then(|_| context.decompress(out, frame))
            }
            None => {
                let mut context =
                    self.context.take().or_else(DCtx::try_create).ok_or_else(no_memory)?;
                let done = context.decompress(out, frame);
                self.context = done.is_ok().then_some(context);
                done
            }
        };
        match done {
            Ok(len) if len == out.len() => Ok(()),
            Ok(len) => Err(Error::corrupt(format!(
                "zstd frame decodes to {len} bytes, {} expected",
                out.len()
            ))),
            Err(code) => {
                let reason = get_error_name(code).to_lowercase();
                if reason.contains("not enough memory") {
                    return Err(no_memory());
                }
                Err(Error::corrupt(format!("zstd frame cannot be decoded: {reason}")))
            }
        }
    }
}

fn no_memory() -> Error {
    Error::new(ErrorKind::Io, "no memory to decode a zstd frame")
}
