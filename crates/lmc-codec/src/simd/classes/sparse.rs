//! Segments of which few values differ from their base: these are taken out and coded as a segment
//! of their own, and flags say where they were. For words of 16 bits, with AVX-512.

use super::avx512::{load_at, store_at};
use super::bits::word_at;
use super::fused::{Contexts, NextSegment, Writer, prefetch_ahead, store_group, upper_words};
use super::{BitString, ContextRule, DIFFERING_SHARE, Differing, GROUP, Layout};
use crate::simd::chain::Hints;
use std::arch::x86_64::*;

/// Bytes of a group.
const GROUP_BYTES: usize = 2 * GROUP;

/// Runs a function for at least as many contexts as a rule has: for as many as the masks of
/// [`super::mask_fast`] are, whatever the layout.
macro_rules! for_contexts {
    ($rule:expr, $layout:expr, $run:ident($($arg:expr),*)) => {
        match ($rule.bounds.len(), $layout.has_sign) {
            (0..4, false) => $run::<4>($($arg),*),
            (4..6, false) => $run::<6>($($arg),*),
            _ => $run::<16>($($arg),*),
        }
    };
}

/// [`super::take_differing`], whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn take(
    layout: Layout,
    rule: ContextRule,
    has_flags: &[bool],
    values: &[u8],
    base: &[u8],
    taken: &mut Differing,
) -> bool {
    // SAFETY: the caller's.
    unsafe { for_contexts!(rule, layout, take_for(rule, has_flags, values, base, taken)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
unsafe fn take_for<const K: usize>(
    rule: ContextRule,
    has_flags: &[bool],
    values: &[u8],
    base: &[u8],
    taken: &mut Differing,
) -> bool {
    let groups = values.len() / GROUP_BYTES;
    let contexts = Contexts::<K>::new(rule);
    let Differing { values: out_values, base: out_base, flags, places, masks } = taken;
    let room = room(groups);
    out_values.resize(room, 0);
    out_base.resize(room, 0);
    places.resize(groups, 0);
    masks.resize(groups * K, 0);
    let masks = masks.as_chunks_mut::<K>().0;
    let without = without_flags::<K>(has_flags);
    let mut end = 0;
    let pairs = values.chunks_exact(GROUP_BYTES).zip(base.chunks_exact(GROUP_BYTES));
    for ((values, base), (places, masks)) in pairs.zip(places.iter_mut().zip(&mut *masks)) {
        if end + GROUP_BYTES > room {
            return false;
        }
        prefetch_ahead(values);
        prefetch_ahead(base);
        let (own, from) = (upper_words(values, false), upper_words(base, false));
        let differ = |i: usize| u64::from(_mm512_cmpneq_epi16_mask(own[i], from[i]));
        *places = differ(0) | differ(1) << 32;
        *masks = contexts.masks(contexts.exponents(from));
        let others = masks.iter().zip(without).fold(0, |all, (mask, without)| all | mask & without);
        for i in 0..2 {
            let mask = ((*places | others) >> (32 * i)) as u32;
            store_at(out_values, end, _mm512_maskz_compress_epi16(mask, own[i]));
            store_at(out_base, end, _mm512_maskz_compress_epi16(mask, from[i]));
            end += 2 * mask.count_ones() as usize;
        }
    }
    out_values.truncate(end);
    out_base.truncate(end);
    flags.resize_with(has_flags.len(), BitString::default);
    for (k, flags) in flags.iter_mut().enumerate().filter(|(k, _)| has_flags[*k]) {
        flags.clear(groups * GROUP);
        let mut writer = Writer::new(flags, groups * GROUP / 8);
        for (&places, masks) in places.iter().zip(&*masks) {
            // SAFETY: there is room for a bit of each value, and a word more.
            unsafe { writer.push(places, masks[k]) };
        }
        writer.finish(flags);
    }
    true
}

/// Bytes that there may be taken out of so many groups, and room for one more.
fn room(groups: usize) -> usize {
    groups * GROUP_BYTES / DIFFERING_SHARE + GROUP_BYTES
}

/// All bits for contexts that have no flags.
fn without_flags<const K: usize>(has_flags: &[bool]) -> [u64; K] {
    std::array::from_fn(|k| if has_flags.get(k) == Some(&false) { u64::MAX } else { 0 })
}

/// [`super::find_differing`]: whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn find(
    layout: Layout,
    rule: ContextRule,
    masks: &[u64],
    flags: &[Option<&[u8]>],
    base: &[u8],
    taken: &mut Differing,
) -> bool {
    // SAFETY: the caller's.
    unsafe { for_contexts!(rule, layout, find_for(masks, flags, base, taken)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
unsafe fn find_for<const K: usize>(
    masks: &[u64],
    flags: &[Option<&[u8]>],
    base: &[u8],
    taken: &mut Differing,
) -> bool {
    let Differing { base: out_base, places, .. } = taken;
    let groups = base.len() / GROUP_BYTES;
    let masks = masks.as_chunks::<K>().0;
    assert_eq!(masks.len(), groups, "there are masks for each group");
    let has_flags: Vec<_> = flags.iter().map(Option::is_some).collect();
    let without = without_flags::<K>(&has_flags);
    places.clear();
    places.extend(masks.iter().map(|masks| {
        masks.iter().zip(without).fold(0, |all, (mask, without)| all | mask & without)
    }));
    for (k, flags) in flags.iter().enumerate() {
        let Some(flags) = flags else { continue };
        let mut at = 0;
        for (places, masks) in places.iter_mut().zip(masks) {
            *places |= _pdep_u64(word_at(flags, at), masks[k]);
            at += masks[k].count_ones() as usize;
        }
    }
    let room = room(groups);
    out_base.resize(room, 0);
    let mut end = 0;
    for (base, &places) in base.chunks_exact(GROUP_BYTES).zip(&*places) {
        if end + GROUP_BYTES > room {
            return false;
        }
        for i in 0..2 {
            let mask = (places >> (32 * i)) as u32;
            store_at(out_base, end, _mm512_maskz_compress_epi16(mask, load_at(base, 64 * i)));
            end += 2 * mask.count_ones() as usize;
        }
    }
    out_base.truncate(end);
    true
}

/// [`super::put_differing`]: whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn put(taken: &mut Differing, base: &[u8], dst: &mut [u8], hints: Hints) {
    let streaming = hints.streaming && dst.as_ptr().addr().is_multiple_of(64);
    let Differing { values, places, .. } = taken;
    let count: usize = places.iter().map(|places| places.count_ones() as usize).sum();
    // There is room behind the last value for reads of whole vectors.
    values.resize(2 * count + GROUP_BYTES, 0);
    let mut place = 0;
    let next_segment = NextSegment::new(base, places.len(), hints);
    let pairs = base.chunks_exact(GROUP_BYTES).zip(dst.chunks_exact_mut(GROUP_BYTES));
    for (group, ((base, dst), &taken)) in pairs.zip(&*places).enumerate() {
        next_segment.prefetch(group, base);
        for i in 0..2 {
            let mask = (taken >> (32 * i)) as u32;
            let own = load_at(values, place);
            let all = _mm512_mask_expand_epi16(load_at(base, 64 * i), mask, own);
            store_group(dst, 64 * i, all, streaming);
            place += 2 * mask.count_ones() as usize;
        }
    }
}
