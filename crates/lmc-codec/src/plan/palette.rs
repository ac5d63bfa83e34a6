//! Plans palettes, for values with few different words, such as weights that were quantized and
//! then scaled back. Checks whether there are few words, and chooses how their positions in the
//! list are coded.

use super::choose::{Planner, Scope, segment_log2};
use super::coder::{self, PlaneStats};
use super::cost::entropy_bits;
use super::{PaletteRecipeEncoder, Target};
use crate::transform::palette::{Places, Words, load};
use lmc_format::PaletteRecipe;

/// The largest number of words in a palette.
const WORDS_MAX: usize = 256;
/// log2 of the slots for finding words: few, so that they are cleared fast.
const SLOTS_LOG2: u32 = 10;
/// Spreads words over slots.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Values whose words are counted together.
const CHUNK: usize = 1 << 11;

/// Different words, in the order in which they were found.
struct Found {
    words: [u64; WORDS_MAX],
    len: usize,
    /// The number of the word in each slot, counted from 1.
    slots: [u16; 1 << SLOTS_LOG2],
}

impl Found {
    fn new() -> Self {
        Self { words: [0; WORDS_MAX], len: 0, slots: [0; 1 << SLOTS_LOG2] }
    }

    fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }

    /// The position of a word, which is added if it is new; None if there are too many.
    fn place(&mut self, word: u64) -> Option<u8> {
        let mut slot = (word.wrapping_mul(FACTOR) >> (u64::BITS - SLOTS_LOG2)) as usize;
        loop {
            let own = &mut self.slots[slot % (1 << SLOTS_LOG2)];
            if *own == 0 {
                let place = u8::try_from(self.len).ok()?;
                self.words[self.len] = word;
                self.len += 1;
                *own = self.len as u16;
                return Some(place);
            }
            let place = (*own - 1) as u8;
            if self.words[usize::from(place)] == word {
                return Some(place);
            }
            slot += 1;
        }
    }

    /// Calls `visit` with the position of each value. Returns None at the first word too many:
    /// ordinary tensors reach that within a few hundred values.
    fn visit(&mut self, width_log2: u8, bytes: &[u8], visit: impl FnMut(u8)) -> Option<()> {
        match width_log2 {
            1 => self.visit_width::<2>(bytes, visit),
            2 => self.visit_width::<4>(bytes, visit),
            3 => self.visit_width::<8>(bytes, visit),
            _ => None,
        }
    }

    fn visit_width<const W: usize>(
        &mut self,
        bytes: &[u8],
        mut visit: impl FnMut(u8),
    ) -> Option<()> {
        bytes.as_chunks().0.iter().try_for_each(|&value| {
            visit(self.place(load::<W>(value))?);
            Some(())
        })
    }
}

/// The least that a palette would take for a sample of `scope`; None if the sample has too many
/// words.
pub(super) fn least_bits(target: Target, scope: Scope, sample: &[u8]) -> Option<u64> {
    let width_log2 = target.layout.width_log2;
    let mut found = Found::new();
    let mut counts = [0; WORDS_MAX];
    found.visit(width_log2, sample, |place| counts[usize::from(place)] += 1)?;
    let table_bits = (found.len as u64 * 8) << width_log2;
    // The table is for all values in scope.
    let all = scope.values.bytes.len().max(1) as u64;
    Some(entropy_bits(&counts) + table_bits * sample.len() as u64 / all)
}

/// The words of all values, in their order, and how often each of them occurs; None if there are
/// too many words.
fn count_all(width_log2: u8, bytes: &[u8]) -> Option<(Vec<u64>, PlaneStats)> {
    let mut found = Found::new();
    let mut places: Option<Places> = None;
    let mut all = PlaneStats { histogram: [0; 256], changes: 0 };
    let mut plane = vec![0; CHUNK.min(bytes.len() >> width_log2)];
    for chunk in bytes.chunks(CHUNK << width_log2) {
        let plane = &mut plane[..chunk.len() >> width_log2];
        let are_known = |places: &Places| places.forward(chunk, plane);
        if !places.as_ref().is_some_and(are_known) {
            found.visit(width_log2, chunk, |_| ())?;
            let own = places.insert(Places::new(Words::new(width_log2, found.words()))?);
            own.forward(chunk, plane);
        }
        all.add(plane);
        all.changes = all.changes.saturating_add(coder::changes(plane));
    }
    let mut words: Vec<(u64, u32)> = found.words().iter().copied().zip(all.histogram).collect();
    words.sort_unstable();
    all.histogram = [0; 256];
    for (own, &(_, count)) in all.histogram.iter_mut().zip(&words) {
        *own = count;
    }
    Some((words.into_iter().map(|(word, _)| word).collect(), all))
}

/// A recipe with the words of all values in scope, and its cost.
pub(super) struct PaletteCandidate {
    recipe: PaletteRecipe,
    /// For as many bytes as the sample has.
    pub bits: u64,
}

impl PaletteCandidate {
    /// The recipe, made ready, if 1,024 values take this many bits.
    pub(super) fn prepare(self, expected_bits: u64) -> Option<PaletteRecipeEncoder> {
        PaletteRecipeEncoder::new(self.recipe, expected_bits)
    }
}

/// The best palette; None if there are too many words in scope, or only one.
pub(super) fn choose(
    planner: Planner,
    target: Target,
    scope: Scope,
    sample_len: usize,
) -> Option<PaletteCandidate> {
    let width_log2 = target.layout.width_log2;
    let bytes = scope.values.bytes;
    let (words, stats) = count_all(width_log2, bytes)?;
    if words.len() < 2 {
        return None;
    }
    // The required gain is relative to the cost of the whole value, as it is for symbols.
    let slack = planner.slack(8 * bytes.len() as u64);
    let choice = coder::choose(&stats, target.level, slack);
    let mut recipe = PaletteRecipe { width_log2, segment_log2: 0, words, coder: choice.coder };
    recipe.segment_log2 = segment_log2([&recipe.coder], false);
    let mut table = Vec::new();
    recipe.write(&mut table);
    let bits = choice.bits + 8 * table.len() as u64 + slack;
    let share = |bits: u64| bits * sample_len as u64 / bytes.len().max(1) as u64;
    Some(PaletteCandidate { bits: share(bits), recipe })
}
