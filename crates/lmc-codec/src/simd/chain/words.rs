//! The chain code fused with the split of words into top byte and records.
//!
//! The results are those of `words::split_top` with [`super::encode`], and of [`super::decode`]
//! with `words::merge_top`. One pass over the words lets memory be read and written while the code
//! is computed, which two passes do one after the other.

use super::{Level, SLACK, Scratch, Tables, decode, encode};
use crate::simd::words::{TopMerge, merge_top, split_top};
use crate::simd::{Isa, IsaKind, prefetch_all};
use lmc_format::{Reader, Result};

/// What is known of the memory around a call; changes nothing but time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// Whether output may go past the caches.
    pub streaming: bool,
    /// Input that will be read next.
    pub ahead: &'a [u8],
}

/// Appends the records and then the chain stream of the top bytes of rotated words of `width`
/// bytes, 2 or 4.
///
/// `top` is working memory of at least one byte for each word.
#[allow(clippy::too_many_arguments)]
pub fn encode_words(
    isa: Isa,
    width: usize,
    tables: &Tables,
    src: &[u8],
    top: &mut [u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
    hints: Hints,
) {
    let n = src.len() / width;
    #[cfg(target_arch = "x86_64")]
    if let (IsaKind::Avx512, Some(low), 0, true) = (isa.kind(), tables.window, n % 64, n > 0) {
        assert!((width == 2 || width == 4) && src.len() == n * width);
        scratch.grow(n);
        out.reserve(n * (width - 1) + tables.stream_len_max(n) + SLACK);
        // SAFETY: the isa proves AVX-512 VBMI2; `src` is whole groups of 64 words; the scratch
        // buffers have a byte for each and the slack, and `out` room for all records, the
        // longest stream and the slack.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            let written = match width {
                2 => super::avx512_words::encode::<2>(
                    tables,
                    low,
                    src,
                    scratch,
                    end,
                    hints.streaming,
                ),
                _ => super::avx512_words::encode::<4>(
                    tables,
                    low,
                    src,
                    scratch,
                    end,
                    hints.streaming,
                ),
            };
            out.set_len(out.len() + written);
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx2 {
        assert!((width == 2 || width == 4) && src.len() == n * width);
        scratch.grow(n);
        out.reserve(n * (width - 1) + tables.stream_len_max(n) + SLACK);
        let near = scratch.near.as_mut_ptr();
        // SAFETY: the isa proves AVX2, BMI2 and POPCNT; the rest as above.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            let written = match width {
                2 => super::avx2_words::encode::<2>(tables, src, near, end, hints.streaming),
                _ => super::avx2_words::encode::<4>(tables, src, near, end, hints.streaming),
            };
            out.set_len(out.len() + written);
        }
        return;
    }
    let top = &mut top[..n];
    split_top(isa, width, src, top, out);
    encode(isa, tables, top, scratch, out);
}

/// Reads the chain stream of the top bytes from `input` and merges them with `records` into all of
/// `dst`.
///
/// `top` is working memory of at least one byte for each word. On an error the contents of `dst`
/// mean nothing.
#[allow(clippy::too_many_arguments)]
pub fn decode_words(
    isa: Isa,
    width: usize,
    tables: &Tables,
    input: &mut Reader,
    records: &[u8],
    top: &mut [u8],
    scratch: &mut Scratch,
    dst: &mut [u8],
    hints: Hints,
) -> Result<()> {
    let n = dst.len() / width;
    let top = &mut top[..n];
    #[cfg(target_arch = "x86_64")]
    if isa.kind() != IsaKind::Portable {
        let walk = super::walk(isa, tables, input, n)?;
        scratch.grow(n);
        let merge = TopMerge::new(isa, width, records, dst, hints.streaming);
        let ahead = hints.ahead.get(records.len()..).unwrap_or(&[]);
        // SAFETY: the isa proves AVX-512 VBMI2, or AVX2, BMI2 and POPCNT; the walk is of `n` bytes,
        // which `top` has room for, and `scratch` too, with the slack.
        unsafe {
            if isa.kind() == IsaKind::Avx512 {
                super::avx512_words::decode(tables, &walk, top, scratch, merge, ahead);
            } else {
                super::avx2_words::decode(tables, &walk, top, scratch, merge, ahead);
            }
        }
        return Ok(());
    }
    decode(isa, tables, input, top, scratch)?;
    merge_top(isa, width, top, records, dst, hints.streaming);
    Ok(())
}

/// Top bytes that are found before their words are stored: little enough that the stores of one
/// step drain during the next.
const STEP: usize = 512;

/// Finds all of `top` by calls of `decode_step`, which gets the digits of a step and where its top
/// bytes go, and merges as it goes. `ahead` is where the next segment's digits are expected.
pub(super) fn merge_in_steps(
    level: Level,
    stream: &[u8],
    top: &mut [u8],
    mut merge: TopMerge,
    ahead: &[u8],
    mut decode_step: impl FnMut(&[u8], &mut [u8]),
) {
    let step_len = level.stream_len(STEP);
    for (i, at) in (0..top.len()).step_by(STEP).enumerate() {
        let end = top.len().min(at + STEP);
        decode_step(&stream[i * step_len..], &mut top[at..end]);
        let ahead = ahead.get(i * step_len..).unwrap_or(&[]);
        prefetch_all(&ahead[..step_len.min(ahead.len())]);
        merge.advance(&top[..end]);
    }
    merge.finish(top);
}
