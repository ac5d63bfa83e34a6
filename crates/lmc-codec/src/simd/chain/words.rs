//! The chain code fused with the split of words into top byte and records.
//!
//! The results are those of `words::split_top` with [`super::encode`], and of [`super::decode`]
//! with `words::merge_top`. In one pass over the words, memory is read and written while the code
//! is computed; two passes would do these one after the other.

use super::{Level, Scratch, Tables, Walk, encode, portable, walk};
#[cfg(target_arch = "x86_64")]
use super::{SLACK, avx2_words, avx512_words};
use crate::simd::words::{TopMerge, split_top};
use crate::simd::{Isa, IsaKind, prefetch_all};
use lmc_format::{Reader, Result};

/// Hints about the memory around a call; they affect only time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// Whether output may bypass the caches.
    pub streaming: bool,
    /// Input that will be read next.
    pub ahead: &'a [u8],
}

/// Appends the records and then the chain stream of the top bytes of rotated words of `width`
/// bytes, 2 or 4.
///
/// `top` is working memory of at least one byte for each word.
#[expect(clippy::too_many_arguments, reason = "a kernel takes one buffer for each kind of byte")]
pub(crate) fn encode_words(
    isa: Isa,
    width: usize,
    tables: &Tables,
    src: &[u8],
    top: &mut [u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
    streaming: bool,
) {
    let n = src.len() / width;
    #[cfg(target_arch = "x86_64")]
    if is_fused(isa, n) {
        assert!((width == 2 || width == 4) && src.len() == n * width);
        scratch.grow(n);
        out.reserve(n * (width - 1) + tables.stream_len_max(n) + SLACK);
        let near = scratch.near.as_mut_ptr();
        // SAFETY: the isa proves AVX-512 VBMI2, and there are whole groups of 64 words, or it
        // proves AVX2, BMI2 and POPCNT. `near` has a byte for each word and the slack, and `out`
        // room for all records, the longest stream and the slack.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            let written = match (isa.kind(), width) {
                (IsaKind::Avx512, 2) => {
                    avx512_words::encode::<2>(tables, src, near, end, streaming)
                }
                (IsaKind::Avx512, _) => {
                    avx512_words::encode::<4>(tables, src, near, end, streaming)
                }
                (_, 2) => avx2_words::encode::<2>(tables, src, near, end, streaming),
                _ => avx2_words::encode::<4>(tables, src, near, end, streaming),
            };
            out.set_len(out.len() + written);
        }
        return;
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streaming;
    let top = &mut top[..n];
    split_top(isa, width, src, top, out);
    encode(isa, tables, top, scratch, out);
}

/// Whether there is a kernel for `n` words in one pass.
#[cfg(target_arch = "x86_64")]
fn is_fused(isa: Isa, n: usize) -> bool {
    match isa.kind() {
        IsaKind::Portable => false,
        IsaKind::Avx2 => true,
        IsaKind::Avx512 => n > 0 && n.is_multiple_of(64),
    }
}

/// Reads the chain stream of the top bytes from `input` and merges them with `records` into all of
/// `dst`.
///
/// `top` is working memory of at least one byte for each word. On an error the contents of `dst`
/// mean nothing.
#[expect(clippy::too_many_arguments, reason = "a kernel takes one buffer for each kind of byte")]
pub(crate) fn decode_words(
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
    let walk = walk(isa, tables, input, n)?;
    scratch.grow(n);
    let merge = TopMerge::new(isa, width, records, dst, hints.streaming);
    merge.prefetch();
    let ahead = hints.ahead.get(records.len()..).unwrap_or(&[]);
    match isa.kind() {
        IsaKind::Portable => decode_portable(tables, &walk, top, scratch, merge, ahead),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX2, BMI2 and POPCNT; the walk covers `n` bytes, which `top` has
        // room for, and `scratch` too, with the slack.
        IsaKind::Avx2 => unsafe {
            avx2_words::decode(tables, &walk, top, scratch, merge, ahead);
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, with AVX-512 VBMI2.
        IsaKind::Avx512 => unsafe {
            avx512_words::decode(tables, &walk, top, scratch, merge, ahead);
        },
        #[cfg(not(target_arch = "x86_64"))]
        _ => decode_portable(tables, &walk, top, scratch, merge, ahead),
    }
    Ok(())
}

/// Decodes the stream of `walk` into `top`, and merges along the way. `ahead` is where the next
/// segment's digits are expected.
fn decode_portable(
    tables: &Tables,
    walk: &Walk,
    top: &mut [u8],
    scratch: &mut Scratch,
    merge: TopMerge,
    ahead: &[u8],
) {
    let level = tables.levels[0];
    let mut next = portable::decode_lower(tables, walk, scratch);
    merge_in_steps(level, walk.streams[0], top, merge, ahead, |stream, top| {
        next = &next[portable::decode_level(level, stream, next, top)..];
    });
}

/// Top bytes that are found before their words are stored: few enough that the stores of one step
/// drain during the next.
const STEP: usize = 512;

/// Finds all of `top` by calls of `decode_step`, and merges along the way. `decode_step` gets the
/// digits of a step and the place for its top bytes. `ahead` is where the next segment's digits are
/// expected.
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
        decode_step(&stream[i * step_len..][..level.stream_len(end - at)], &mut top[at..end]);
        let ahead = ahead.get(i * step_len..).unwrap_or(&[]);
        prefetch_all(&ahead[..step_len.min(ahead.len())]);
        merge.advance(&top[..end]);
    }
    merge.finish(top);
}
