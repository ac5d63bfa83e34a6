//! Payloads of 512 values in one go, on their way from vectors of 64 bytes to a string of bits.
//! They go through memory, because moving each word of eight bytes between the two kinds of
//! registers takes longer. (With vectors of 32 bytes it does not, and neither does the way back.)

use super::GROUP;
use crate::simd::classes::Writer;
use std::arch::x86_64::__m512i;

/// Values that are worked on together.
pub(super) const STAGE: usize = 512;

/// 8-byte words for this many values.
const WORDS: usize = STAGE / 8;

/// Masks and payloads of some values: a byte for each.
#[repr(align(64))]
pub(super) struct Stage {
    /// The bits of a byte that are payload.
    masks: [u64; WORDS],
    /// The payload, in these bits.
    rests: [u64; WORDS],
}

impl Stage {
    pub(super) fn new() -> Self {
        Self { masks: [0; WORDS], rests: [0; WORDS] }
    }

    /// Where the masks and the payloads of a group go; both are aligned.
    pub(super) fn group_mut(&mut self, group: usize) -> (*mut __m512i, *mut __m512i) {
        let words = GROUP / 8 * group..GROUP / 8 * (group + 1);
        (self.masks[words.clone()].as_mut_ptr().cast(), self.rests[words].as_mut_ptr().cast())
    }

    /// Appends the payloads of the first `groups`.
    ///
    /// # Safety
    /// The CPU has BMI2, and there is room for a byte for each value and a word.
    #[inline]
    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) unsafe fn put(&self, groups: usize, writer: &mut Writer) {
        let words = GROUP / 8 * groups;
        for (&rest, &mask) in self.rests[..words].iter().zip(&self.masks) {
            // SAFETY: guaranteed by the caller.
            unsafe { writer.push(rest, mask) };
        }
    }
}
