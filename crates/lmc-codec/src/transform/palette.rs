//! Values to their positions in a list of words, and back.

use lmc_format::{Error, Result};

/// log2 of the slots of a table of positions.
const SLOTS_LOG2: u32 = 16;
/// Number of factors to try for telling words apart: three in five work for 256 words.
const FACTORS: u32 = 64;

/// The words of a palette, by position.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    width_log2: u8,
    count: usize,
    /// Zeros after the last one.
    words: Box<[u64; 256]>,
}

impl Words {
    /// At most 256 words, all of them different.
    pub(crate) fn new(width_log2: u8, words: &[u64]) -> Self {
        let mut table = Box::new([0; 256]);
        table.iter_mut().zip(words).for_each(|(own, &word)| *own = word);
        Self { width_log2, count: words.len(), words: table }
    }

    /// Width of a value in bytes.
    pub(crate) fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// Writes the words at the positions in `plane` into all of `dst`. Fails if a position has no
    /// word.
    pub(crate) fn inverse(&self, plane: &[u8], dst: &mut [u8]) -> Result<()> {
        let last = usize::from(plane.iter().fold(0, |last, &place| last.max(place)));
        if last >= self.count {
            return Err(Error::corrupt(format!("word {last} of a palette of {}", self.count)));
        }
        match self.width_log2 {
            1 => self.put::<2>(plane, dst),
            2 => self.put::<4>(plane, dst),
            _ => self.put::<8>(plane, dst),
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "the table has 256 words of 8 bytes")]
    fn put<const W: usize>(&self, plane: &[u8], dst: &mut [u8]) {
        for (value, &place) in dst.as_chunks_mut::<W>().0.iter_mut().zip(plane) {
            value.copy_from_slice(&self.words[usize::from(place)].to_le_bytes()[..W]);
        }
    }
}

/// The positions of a palette's words, by the top bits of their product with a factor. These bits
/// are different for all words.
#[derive(Debug)]
pub(crate) struct Places {
    words: Words,
    factor: u64,
    slots: Box<[u8; 1 << SLOTS_LOG2]>,
}

impl Places {
    /// For `words`; None if no factor tells them apart.
    #[expect(
        clippy::indexing_slicing,
        reason = "the table has 256 words, and a slot is below the number of slots"
    )]
    pub(crate) fn new(words: Words) -> Option<Self> {
        let own = &words.words[..words.count];
        let factor = match words.width_log2 {
            // Words of two bytes are slots themselves.
            1 => 1 << (u64::BITS - SLOTS_LOG2),
            _ => factors().find(|&factor| tells_apart(factor, own))?,
        };
        let mut slots = Box::new([0; 1 << SLOTS_LOG2]);
        for (place, &word) in own.iter().enumerate() {
            slots[slot(factor, word)] = place as u8;
        }
        Some(Self { words, factor, slots })
    }

    /// The words themselves.
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// Writes the positions of `values` into all of `plane`; false if a value is not in the
    /// palette.
    pub(crate) fn forward(&self, values: &[u8], plane: &mut [u8]) -> bool {
        match self.words.width_log2 {
            1 => self.find::<2>(values, plane),
            2 => self.find::<4>(values, plane),
            _ => self.find::<8>(values, plane),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn find<const W: usize>(&self, values: &[u8], plane: &mut [u8]) -> bool {
        let mut differing = 0;
        for (&value, place) in values.as_chunks().0.iter().zip(plane) {
            let word = load::<W>(value);
            *place = self.slots[slot(self.factor, word)];
            differing |= self.words.words[usize::from(*place)] ^ word;
        }
        differing == 0
    }
}

/// The word of a value.
#[expect(clippy::indexing_slicing, reason = "a value has 8 bytes at most")]
pub(crate) fn load<const W: usize>(value: [u8; W]) -> u64 {
    let mut word = [0; 8];
    word[..W].copy_from_slice(&value);
    u64::from_le_bytes(word)
}

fn slot(factor: u64, word: u64) -> usize {
    (word.wrapping_mul(factor) >> (u64::BITS - SLOTS_LOG2)) as usize
}

/// Odd numbers without a pattern.
fn factors() -> impl Iterator<Item = u64> {
    (1..=u64::from(FACTORS)).map(|i| {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
    })
}

/// Whether no two words share a slot.
#[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
fn tells_apart(factor: u64, words: &[u64]) -> bool {
    let mut taken = vec![0_u64; (1 << SLOTS_LOG2) / 64];
    words.iter().all(|&word| {
        let slot = slot(factor, word);
        let bit = 1 << (slot % 64);
        let is_free = taken[slot / 64] & bit == 0;
        taken[slot / 64] |= bit;
        is_free
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number of words in each width: evenly spaced, close together, only low bits, and
    /// only high bits. All come back, and any other word is noticed.
    #[test]
    fn every_word_has_its_place() {
        for width_log2 in 1..4 {
            let width = 1 << width_log2;
            let all = u64::MAX >> (64 - 8 * width);
            let spread = |step: u64| (0..256).map(|i| (i * step) & all).collect::<Vec<u64>>();
            for words in [spread(1), spread(all / 255), spread(all / 511), spread(0x0101)] {
                let places = Places::new(Words::new(width_log2, &words)).expect("a factor");
                let values: Vec<u8> = words
                    .iter()
                    .rev()
                    .flat_map(|word| word.to_le_bytes()[..width].to_vec())
                    .collect();
                let mut plane = vec![0; 256];
                assert!(places.forward(&values, &mut plane));
                assert!(plane.iter().copied().eq((0..=255).rev()));
                let mut back = vec![0x55; values.len()];
                places.words().inverse(&plane, &mut back).expect("places with words");
                assert!(back == values, "width {width}");
                let other = (0..).find(|word| !words.contains(word)).expect("another word");
                let mut wrong = values.clone();
                wrong[7 * width..8 * width].copy_from_slice(&u64::to_le_bytes(other)[..width]);
                assert!(!places.forward(&wrong, &mut plane), "width {width}");
            }
        }
    }

    /// A position after the last word is always refused.
    #[test]
    fn places_without_words_are_refused() {
        let words = Words::new(2, &[1, 5, 9]);
        for n in [1, 15, 16, 17, 64, 1000] {
            for at in [0, n / 2, n - 1] {
                let mut plane = vec![2; n];
                let mut dst = vec![0; 4 * n];
                assert!(words.inverse(&plane, &mut dst).is_ok());
                plane[at] = 3;
                assert!(words.inverse(&plane, &mut dst).is_err(), "{at} of {n}");
            }
        }
    }
}
