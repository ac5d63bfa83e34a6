//! Makes candidates for a recipe and chooses the cheapest.

use super::coder::{self, PlaneStats};
use super::cost::entropy_bits;
use super::exact::exact_tables;
use super::offsets;
use super::on_base::{self, OnBase};
use super::palette;
use super::sample::sample;
use super::{Block, PlaneRecipeEncoder, RecipeEncoder, Target, paper};
use crate::layout::WordLayout;
use crate::simd::Isa;
use crate::simd::words::{Words, extract8};
use crate::spec::Level;
use crate::transform::offsets::{ColumnOffsets, Field};
use crate::transform::{against, sparse, window};
use lmc_format::{BaseUse, Coder, Recipe, WordMap};

/// Values sampled to plan a tensor or a block that has more.
const SAMPLE_VALUES: usize = 1 << 14;
/// The share of a tensor that is sampled, and the least number of values: planning a small tensor
/// must not take long compared with coding it.
const SAMPLE_SHARE: usize = 64;
const SAMPLE_VALUES_MIN: usize = 1 << 13;
/// The same at the highest level, where rare symbols decide how wide a symbol may be.
const SAMPLE_VALUES_MAX: usize = 1 << 15;
/// Values that are enough to tell whether a plane is noise: 1,024 uniform bytes show an entropy of
/// 7.8 bits.
const NOISE_VALUES: usize = 1 << 10;
/// Joint symbols take at most this many mantissa bits.
pub(super) const JOINT_BITS_MAX: u8 = 3;
/// A base leaves little to code if the result is one bit in this many.
const SPARSE_SHARE: u64 = 32;
/// A base is sure to pay off if the result is below this many eighths of the size of the values'
/// bytes, each plane by itself.
const ENOUGH_EIGHTHS: u64 = 7;
/// Values that this size is estimated from.
const PLANE_VALUES: usize = 1 << 12;
/// Exceptions cost a u16 and the code of byte 255.
const EXCEPTION_BITS: u64 = 26;

/// The values that a recipe is chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(super) values: Block<'a>,
    /// Place in the tensor of the first value; 0 for a tensor.
    pub(super) first_value: u64,
    /// Whether to look at every value instead of a sample.
    exact: bool,
}

impl<'a> Scope<'a> {
    pub(crate) fn tensor(values: Block<'a>) -> Self {
        Self { values, first_value: 0, exact: false }
    }

    pub(crate) fn block(values: Block<'a>, first_value: u64, exact: bool) -> Self {
        Self { values, first_value, exact }
    }
}

/// A recipe with its cost on the sample.
pub(super) struct Candidate {
    pub recipe: Recipe,
    pub columns: Option<ColumnOffsets>,
    pub bits: u64,
}

/// Chooses the recipe for `scope`; None if coding gains nothing.
pub(crate) fn choose(isa: Isa, target: Target, scope: Scope) -> Option<RecipeEncoder> {
    if target.level == Level::Paper {
        let prepared = paper(isa, target, scope.values)?;
        return Some(RecipeEncoder::Planes(Box::new(prepared)));
    }
    let width = 1 << target.layout.width_log2;
    let n = scope.values.bytes.len() / width;
    let wanted = if scope.exact { n } else { sample_values(target, n) };
    let sample_of = |bytes: &[u8]| sample(bytes, width, wanted);
    let sampled = sample_of(scope.values.bytes);
    if sampled.is_empty() {
        return None;
    }
    let stored_bits = 8 * sampled.len() as u64;
    let n = (sampled.len() / width) as u64;
    let base = scope.values.base.map(sample_of);
    let is_float = !target.is_integer();
    let pair = base.as_deref().map(|base| Block { bytes: &sampled, base: Some(base) });
    let mut on_base = pair.and_then(|pair| on_base::choose(isa, target, scope.values, pair));
    let prepare_on_base = |found: OnBase| {
        let expected_bits = found.bits() * 1024 / n;
        found.prepare(isa, target, scope.values, expected_bits)
    };
    let is_noise_below = is_noise_below(&sampled, width);
    let least_palette_bits = palette::least_bits(target, scope, &sampled).unwrap_or(u64::MAX);
    // Then nothing else needs to be tried.
    let is_enough = |on_base: &mut OnBase| {
        let bits = on_base.bits();
        // Integers may well be smaller without a base than the estimate by planes says.
        let is_sure = || is_float && 8 * bits < ENOUGH_EIGHTHS * bits_of_planes(&sampled, width);
        bits < least_palette_bits
            && is_noise_below
            && (bits * SPARSE_SHARE < stored_bits || is_sure())
    };
    if let Some(found) = on_base.take_if(is_enough) {
        return Some(prepare_on_base(found));
    }
    let mut best = alone(isa, target, scope, &sampled);
    let planner = Planner { isa, layout: target.layout, level: target.level };
    let palette = (least_palette_bits < best.bits.min(stored_bits))
        .then(|| palette::choose(planner, target, scope, sampled.len()))
        .flatten();
    let palette_bits = palette.as_ref().map_or(u64::MAX, |palette| palette.bits);
    // A base must gain something, because the sample may make it look better than it is. Integers
    // must gain more, because more is fitted for them than is likely to be there.
    let limit = best.bits.min(palette_bits).min(stored_bits);
    let limit = limit - limit / if is_float { 200 } else { 32 };
    // Floats whose low bytes are not noise are probably narrower floats in wide words. Integers
    // that differ by little more than a bit may all differ by the same amount.
    let try_planes = match &on_base {
        Some(OnBase::Bins(found)) if !is_float && width < 4 => 2 * found.bits < 3 * n,
        Some(OnBase::Changes(found)) if !is_float => found.bits >= limit,
        _ => !is_float || width > 1 && !is_noise_below,
    };
    if let Some(base) = base.as_deref().filter(|_| try_planes) {
        for base_use in [BaseUse::Difference, BaseUse::Xor] {
            let candidate = against_base(isa, target, base_use, &sampled, base);
            if candidate.bits < limit {
                best = cheaper(best, candidate);
            }
        }
    }
    if let Some(found) = on_base.filter(|found| found.bits() < limit.min(best.bits)) {
        return Some(prepare_on_base(found));
    }
    let least_bits = best.bits.min(palette_bits);
    if least_bits >= stored_bits * 255 / 256 {
        return None;
    }
    if let Some(palette) = palette.filter(|palette| palette.bits < best.bits)
        && let Some(prepared) = palette.prepare(least_bits * 1024 / n)
    {
        return Some(RecipeEncoder::Palette(Box::new(prepared)));
    }
    let coders = best.recipe.planes.iter().chain(&best.recipe.flags);
    best.recipe.segment_log2 = segment_log2(coders, width == 1);
    let prepared = PlaneRecipeEncoder::new(best.recipe, best.columns, best.bits * 1024 / n);
    Some(RecipeEncoder::Planes(Box::new(exact_tables(isa, target, prepared, scope))))
}

/// How many of `n` values are sampled.
fn sample_values(target: Target, n: usize) -> usize {
    match target.level {
        Level::Max => SAMPLE_VALUES_MAX,
        Level::Fast => SAMPLE_VALUES_MIN,
        // A tree's table is better if it has seen more rare symbols.
        _ if (1..8).contains(&target.layout.exponent_bits) => SAMPLE_VALUES,
        _ => (n / SAMPLE_SHARE).clamp(SAMPLE_VALUES_MIN, SAMPLE_VALUES),
    }
}

/// Whether the lowest bytes of values of `width` bytes are noise, which cannot be compressed.
fn is_noise_below(sample: &[u8], width: usize) -> bool {
    let step = (sample.len() / width / NOISE_VALUES).max(1);
    let bytes: Vec<_> = sample.iter().step_by(step * width).copied().collect();
    let stats = PlaneStats::of(&bytes);
    let n = bytes.len() as u64;
    // Runs of one byte are not noise, however many different bytes there are.
    width > 1 && entropy_bits(&stats.histogram) > 6 * n && u64::from(stats.changes) > n * 7 / 8
}

/// Bits of the bytes of a sample, each plane by itself.
fn bits_of_planes(sample: &[u8], width: usize) -> u64 {
    let n = sample.len() / width;
    let step = n.div_ceil(PLANE_VALUES).max(1);
    let mut counted = 0;
    let mut counts = vec![[0_u32; 256]; width];
    for value in sample.chunks_exact(width).step_by(step) {
        counted += 1;
        value.iter().zip(&mut counts).for_each(|(&byte, counts)| counts[usize::from(byte)] += 1);
    }
    let bits: u64 = counts.iter().map(|counts| entropy_bits(counts)).sum();
    bits * n as u64 / u64::max(counted, 1)
}

/// The best recipe without a base.
fn alone(isa: Isa, target: Target, scope: Scope, sample: &[u8]) -> Candidate {
    let planner = Planner { isa, layout: target.layout, level: target.level };
    let best_layout = if has_sign(sample, target.layout) {
        target.layout
    } else {
        target.layout.with_sign_on_top()
    };
    let mut best = Planner { layout: best_layout, ..planner }.without_offsets(sample);
    if best.recipe.flags.is_none() && scope.first_value == 0 && !scope.exact {
        let n = sample.len() >> target.layout.width_log2;
        let bytes = scope.values.bytes;
        if let Some(candidate) = offsets::choose(planner, target.row_len, bytes, best.bits, n) {
            best = candidate;
        }
    }
    best
}

/// The best recipe for differences of words from their base.
fn against_base(
    isa: Isa,
    target: Target,
    base_use: BaseUse,
    sample: &[u8],
    base: &[u8],
) -> Candidate {
    // Differences have two signs, whatever the type.
    let map = match (base_use, target.layout.width_log2) {
        (BaseUse::Difference, 1..) => WordMap::Zigzag,
        _ => WordMap::None,
    };
    let layout = WordLayout { map, ..target.layout };
    let mut recipe = Recipe {
        width_log2: layout.width_log2,
        base: base_use,
        map,
        symbol_bits: 8,
        segment_log2: 14,
        bias: 0,
        flags: None,
        planes: Vec::new(),
        columns: None,
    };
    let mut apart = Vec::new();
    against::forward(&recipe, sample, base, &mut apart);
    let candidate = Planner { isa, layout, level: target.level }.without_offsets(&apart);
    recipe = Recipe { base: base_use, ..candidate.recipe };
    Candidate { recipe, ..candidate }
}

/// Whether a value of the sample has its top bit set.
fn has_sign(sample: &[u8], layout: WordLayout) -> bool {
    // Widths divide 8, so each value has a fixed place in a word of eight bytes.
    let (eights, rest) = sample.as_chunks::<8>();
    let any = eights.iter().fold(0, |any, &eight| any | u64::from_le_bytes(eight));
    let width = 1 << layout.width_log2;
    let tops = |bytes: &[u8]| bytes.chunks_exact(width).any(|value| value[width - 1] & 0x80 != 0);
    tops(&any.to_le_bytes()) || tops(rest)
}

fn cheaper(a: Candidate, b: Candidate) -> Candidate {
    if b.bits < a.bits { b } else { a }
}

/// Coders with a fixed cost per segment get longer segments.
pub(super) fn segment_log2<'a>(coders: impl IntoIterator<Item = &'a Coder>, is_bytes: bool) -> u8 {
    let of = |coder: &Coder| match coder {
        Coder::Rans(_) => 18,
        // A tree's short nodes take as long as longer ones.
        Coder::Huffman(_) | Coder::Tree(_) if is_bytes => 17,
        Coder::Huffman(_) | Coder::Tree(_) => 16,
        _ => 14,
    };
    coders.into_iter().map(of).max().unwrap_or(14)
}

/// Makes candidates for values of one layout at one level.
#[derive(Clone, Copy)]
pub(super) struct Planner {
    pub isa: Isa,
    pub layout: WordLayout,
    pub level: Level,
}

impl Planner {
    pub(super) fn words(self) -> Words {
        Words { width_log2: self.layout.width_log2, map: self.layout.map }
    }

    pub(super) fn word_bits(self) -> u8 {
        8 << self.layout.width_log2
    }

    /// Symbol widths that are worth trying without offsets.
    fn symbol_widths(self) -> Vec<u8> {
        let exponent = self.layout.exponent_bits;
        if exponent == 0 {
            return vec![8];
        }
        let widest = (exponent + JOINT_BITS_MAX).min(self.word_bits()).min(16);
        match self.level {
            Level::Max => (exponent..=widest).collect(),
            // The whole top byte of a float with a short exponent: a tree of it is smaller than a
            // chain of the exponent, and decodes as fast.
            Level::Default if exponent < 8 => vec![8],
            _ => vec![exponent],
        }
    }

    /// The best recipe that has no offsets.
    fn without_offsets(self, sample: &[u8]) -> Candidate {
        let dense = self.dense(sample);
        match self.sparse(sample) {
            Some(sparse) => cheaper(dense, sparse),
            None => dense,
        }
    }

    /// The best recipe that codes every value and has no offsets.
    fn dense(self, sample: &[u8]) -> Candidate {
        // A sample has not seen all the rare symbols that a wider symbol adds, so each mantissa bit
        // must gain 0.012 bits per value.
        let margin = (sample.len() >> self.layout.width_log2) as u64 / 80;
        let candidates =
            self.symbol_widths().into_iter().map(|bits| self.with_symbol(sample, bits));
        let narrower = |a: Candidate, b: Candidate| if b.bits + margin < a.bits { b } else { a };
        candidates.reduce(narrower).expect("there is always a width to try")
    }

    fn with_symbol(self, sample: &[u8], symbol_bits: u8) -> Candidate {
        let mut planner = self;
        if self.word_bits() == symbol_bits {
            // Nothing has to be cut off, so bytes are coded as they are.
            planner.layout.map = WordMap::None;
        }
        planner.with_own_symbol(sample, symbol_bits)
    }

    fn with_own_symbol(self, sample: &[u8], symbol_bits: u8) -> Candidate {
        let field = Field { words: self.words(), bits: symbol_bits };
        let n = sample.len() >> self.layout.width_log2;
        let mut symbols = vec![0; n];
        field.symbols(self.isa, sample, &mut symbols);
        self.finish(sample, symbol_bits, &symbols)
    }

    /// A candidate with these symbols. Its other planes are estimated from the values of `sample`,
    /// and all costs are for as many values as there are symbols.
    pub(super) fn finish(self, sample: &[u8], symbol_bits: u8, symbols: &[u16]) -> Candidate {
        let bias = if symbol_bits > 8 { window_bias(symbols) } else { 0 };
        let mut plane = vec![0; symbols.len()];
        let mut bits = 0;
        if symbol_bits > 8 {
            let mut exceptions = Vec::new();
            window::forward(self.isa, symbols, bias, &mut plane, &mut exceptions);
            bits += exceptions.len() as u64 / 2 * EXCEPTION_BITS;
        } else {
            for (byte, &symbol) in plane.iter_mut().zip(symbols) {
                *byte = symbol as u8;
            }
        }
        let stats = PlaneStats::of(&plane);
        // The gain that a slower coder needs is relative to the cost of the whole value.
        let value_bits = u64::from(self.word_bits()) * symbols.len() as u64;
        let choice = coder::choose(&stats, self.level, self.slack(value_bits));
        bits += choice.bits;
        let mut recipe = Recipe {
            width_log2: self.layout.width_log2,
            base: BaseUse::None,
            map: self.layout.map,
            symbol_bits,
            segment_log2: 14,
            bias,
            flags: None,
            planes: vec![choice.coder],
            columns: None,
        };
        let lower = self.add_lower_planes(sample, &mut recipe);
        let values = (sample.len() >> self.layout.width_log2).max(1);
        bits += lower * symbols.len() as u64 / values as u64;
        Candidate { recipe, columns: None, bits }
    }

    /// The gain that a slower coder needs, relative to `bits`.
    pub(super) fn slack(self, bits: u64) -> u64 {
        match self.level {
            Level::Fast => bits / 32,
            Level::Default => bits / 256,
            Level::Max | Level::Paper => 0,
        }
    }

    /// Chooses coders for the planes below the symbol. Returns their cost on the sample.
    fn add_lower_planes(self, sample: &[u8], recipe: &mut Recipe) -> u64 {
        let n = sample.len() >> self.layout.width_log2;
        let mut plane = vec![0; n];
        let mut shift = u32::from(self.word_bits() - recipe.symbol_bits);
        let mut bits = 0;
        while shift > 0 {
            let width = if shift % 8 == 0 { 8 } else { shift % 8 };
            shift -= width;
            let mask = 0xff_u8 >> (8 - width);
            let choice = self.lower_plane(sample, shift, mask, &mut plane);
            recipe.planes.push(choice.coder);
            bits += choice.bits;
        }
        bits
    }

    /// Chooses the coder of one plane below the symbol. Most planes are noise, which a short look
    /// shows.
    fn lower_plane(self, sample: &[u8], shift: u32, mask: u8, plane: &mut [u8]) -> coder::Choice {
        let short = plane.len().min(NOISE_VALUES);
        let bytes = &sample[..short << self.layout.width_log2];
        extract8(self.isa, self.words(), bytes, shift, mask, &mut plane[..short]);
        let stats = PlaneStats::of(&plane[..short]);
        if short < plane.len() {
            if mask == 0xff && entropy_bits(&stats.histogram) > short as u64 * 15 / 2 {
                return coder::Choice { coder: Coder::Raw, bits: 8 * plane.len() as u64 };
            }
            extract8(self.isa, self.words(), sample, shift, mask, plane);
        }
        let slack = self.slack(8 * plane.len() as u64);
        coder::choose(&PlaneStats::of(plane), self.level, slack)
    }

    /// The best recipe that leaves out zero values; None if there are few of them.
    fn sparse(self, sample: &[u8]) -> Option<Candidate> {
        let width = 1 << self.layout.width_log2;
        if sparse::zeros(width, sample) < sample.len() / width / 16 {
            return None;
        }
        let (mut flags, mut dense) = (Vec::new(), Vec::new());
        sparse::forward(width, sample, &mut flags, &mut dense);
        let choice = coder::choose(&PlaneStats::of(&flags), self.level, 0);
        let mut candidate = self.dense(&dense);
        candidate.bits += choice.bits;
        candidate.recipe.flags = Some(choice.coder);
        Some(candidate)
    }
}

/// Where the window of wide symbols starts. It is chosen so that the window ends a little above the
/// highest symbol.
fn window_bias(symbols: &[u16]) -> u16 {
    let highest = symbols.iter().copied().max().unwrap_or(0);
    highest.saturating_sub(255 - 1 - 16)
}
