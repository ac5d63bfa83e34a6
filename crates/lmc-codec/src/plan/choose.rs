//! Candidates for a recipe, and the cheapest of them.

use super::coder::{self, PlaneStats};
use super::cost::{entropy_bits, histogram};
use super::sample::sample;
use super::{Plan, ReadyRecipe};
use crate::dtype::{Layout, Level};
use crate::segment::{Buffers, Place};
use crate::simd::Isa;
use crate::simd::chain::Hints;
use crate::simd::words::{Words, extract8};
use crate::transform::offsets::{BlockOffsets, ColumnOffsets, Field};
use crate::transform::{sparse, window};
use lmc_format::{Coder, Columns, Recipe, WordMap};

/// Values sampled to plan a tensor or a block.
const SAMPLE_VALUES: usize = 1 << 14;
/// The same at the highest level, where rare symbols decide how wide a symbol may be.
const SAMPLE_VALUES_MAX: usize = 1 << 17;
/// Joint symbols take at most this many mantissa bits.
const JOINT_BITS_MAX: u8 = 3;
/// Exceptions cost a u16 and the code of byte 255.
const EXCEPTION_BITS: u64 = 26;

/// What a recipe is chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    bytes: &'a [u8],
    /// Place in the tensor of the first value; 0 for a tensor.
    first_value: u64,
    /// Look at every value instead of a sample.
    exact: bool,
}

impl<'a> Scope<'a> {
    pub(crate) fn tensor(bytes: &'a [u8]) -> Self {
        Self { bytes, first_value: 0, exact: false }
    }

    pub(crate) fn block(bytes: &'a [u8], first_value: u64, exact: bool) -> Self {
        Self { bytes, first_value, exact }
    }
}

/// A recipe with its cost on the sample.
struct Candidate {
    recipe: Recipe,
    columns: Option<ColumnOffsets>,
    bits: u64,
    excess: u64,
}

/// Chooses the recipe for `scope`; None if nothing is gained by coding.
pub(crate) fn choose(isa: Isa, plan: &Plan, scope: Scope) -> Option<ReadyRecipe> {
    let width = 1 << plan.layout.width_log2;
    let n = scope.bytes.len() / width;
    let wanted = match (scope.exact, plan.level) {
        (true, _) => n,
        (false, Level::Max) => SAMPLE_VALUES_MAX,
        (false, _) => SAMPLE_VALUES,
    };
    let sample = sample(scope.bytes, width, wanted);
    if sample.is_empty() {
        return None;
    }
    let planner = Planner { isa, layout: plan.layout, level: plan.level };
    let mut best = planner.dense(&sample);
    if let Some(candidate) = planner.sparse(&sample) {
        best = cheaper(best, candidate);
    }
    if let Some(candidate) = planner.with_offsets(plan, scope, &best, sample.len() / width) {
        best = candidate;
    }
    if best.bits >= 8 * sample.len() as u64 * 255 / 256 {
        return None;
    }
    best.recipe.segment_log2 = segment_log2(&best.recipe);
    let ready = ReadyRecipe::new(best.recipe, best.columns, best.excess);
    exact_tables(isa, plan, ready, scope)
}

fn cheaper(a: Candidate, b: Candidate) -> Candidate {
    if b.bits < a.bits { b } else { a }
}

/// Coders with a fixed cost for each segment get longer ones.
fn segment_log2(recipe: &Recipe) -> u8 {
    let coders = || recipe.planes.iter().chain(&recipe.flags);
    if coders().any(|c| matches!(c, Coder::Rans(_))) {
        17
    } else if coders().any(|c| matches!(c, Coder::Huffman(_))) {
        16
    } else {
        14
    }
}

#[derive(Clone, Copy)]
struct Planner {
    isa: Isa,
    layout: Layout,
    level: Level,
}

impl Planner {
    fn words(self) -> Words {
        Words { width_log2: self.layout.width_log2, map: self.layout.map }
    }

    fn word_bits(self) -> u8 {
        8 << self.layout.width_log2
    }

    /// Widths of the symbol that are worth trying without offsets.
    fn symbol_widths(self) -> Vec<u8> {
        let exponent = self.layout.exponent_bits;
        if exponent == 0 {
            return vec![8];
        }
        let widest = (exponent + JOINT_BITS_MAX).min(self.word_bits()).min(16);
        match self.level {
            Level::Max => (exponent..=widest).collect(),
            // Whole bytes of a short float: one Huffman code of everything.
            Level::Default if self.word_bits() == 8 => vec![exponent, 8],
            _ => vec![exponent],
        }
    }

    /// The best recipe that codes every value and has no offsets.
    fn dense(self, sample: &[u8]) -> Candidate {
        let widths = self.symbol_widths();
        let candidates = widths.into_iter().map(|bits| self.with_symbol(sample, bits));
        candidates.reduce(cheaper).expect("there is always a width to try")
    }

    fn with_symbol(self, sample: &[u8], symbol_bits: u8) -> Candidate {
        let field = Field { words: self.words(), bits: symbol_bits };
        let n = sample.len() >> self.layout.width_log2;
        let mut symbols = vec![0; n];
        field.symbols(self.isa, sample, &mut symbols);
        self.finish(sample, symbol_bits, &symbols)
    }

    /// A candidate with these symbols; its other planes come from the values themselves.
    fn finish(self, sample: &[u8], symbol_bits: u8, symbols: &[u16]) -> Candidate {
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
        // What the whole value costs sets the scale of what a slower coder must gain.
        let value_bits = u64::from(self.word_bits()) * symbols.len() as u64;
        let choice = coder::choose(&stats, self.level, self.slack(value_bits));
        bits += choice.bits;
        let excess = choice.bits.saturating_sub(entropy_bits(&stats.histogram)) * 256;
        let mut recipe = Recipe {
            width_log2: self.layout.width_log2,
            map: self.layout.map,
            symbol_bits,
            segment_log2: 14,
            bias,
            flags: None,
            planes: vec![choice.coder],
            columns: None,
        };
        bits += self.add_lower_planes(sample, &mut recipe);
        Candidate { recipe, columns: None, bits, excess: excess / symbols.len().max(1) as u64 }
    }

    /// What a slower coder must gain, of `bits`.
    fn slack(self, bits: u64) -> u64 {
        match self.level {
            Level::Fast => bits / 32,
            Level::Default => bits / 256,
            Level::Max | Level::Paper => 0,
        }
    }

    /// Chooses coders for the planes below the symbol; returns their cost on the sample.
    fn add_lower_planes(self, sample: &[u8], recipe: &mut Recipe) -> u64 {
        let n = sample.len() >> self.layout.width_log2;
        let mut plane = vec![0; n];
        let mut shift = u32::from(self.word_bits() - recipe.symbol_bits);
        let mut bits = 0;
        while shift > 0 {
            let width = if shift % 8 == 0 { 8 } else { shift % 8 };
            shift -= width;
            let mask = 0xff_u8 >> (8 - width);
            extract8(self.isa, self.words(), sample, shift, mask, &mut plane);
            let choice =
                coder::choose(&PlaneStats::of(&plane), self.level, self.slack(8 * n as u64));
            recipe.planes.push(choice.coder);
            bits += choice.bits;
        }
        bits
    }

    /// The best recipe that leaves out zero values; None when there are few of them.
    fn sparse(self, sample: &[u8]) -> Option<Candidate> {
        let width = 1 << self.layout.width_log2;
        let (mut flags, mut dense) = (Vec::new(), Vec::new());
        sparse::forward(width, sample, &mut flags, &mut dense);
        let zeros = sample.len() - dense.len();
        if zeros < sample.len() / 16 {
            return None;
        }
        let choice = coder::choose(&PlaneStats::of(&flags), self.level, 0);
        let mut candidate = self.dense(&dense);
        candidate.bits += choice.bits;
        candidate.recipe.flags = Some(choice.coder);
        Some(candidate)
    }

    /// The best recipe with row and column offsets, if it beats `best`; both costs are for `n` values.
    fn with_offsets(
        self,
        plan: &Plan,
        scope: Scope,
        best: &Candidate,
        n: usize,
    ) -> Option<Candidate> {
        let exponent = self.layout.exponent_bits;
        let row_len = usize::try_from(plan.row_len).ok()?;
        let usable = self.level != Level::Fast
            && !scope.exact
            && scope.first_value == 0
            && best.recipe.flags.is_none()
            && (5..=8).contains(&exponent)
            && self.word_bits() > 8
            && (8..=1 << 20).contains(&row_len);
        if !usable {
            return None;
        }
        // A hundredth of a bit a value must be gained.
        let margin = n as u64 / 100;
        let mut least = best.bits;
        let mut found = None;
        for extra in 0..=JOINT_BITS_MAX {
            let bits = exponent + extra;
            if bits < 8 || (extra == JOINT_BITS_MAX && self.level != Level::Max) {
                continue;
            }
            let candidate = self.offset_candidate(bits, row_len, scope, n)?;
            if candidate.bits + margin < least {
                least = candidate.bits;
                found = Some(candidate);
            } else if found.is_some() || candidate.bits > least + 8 * margin {
                break;
            }
        }
        let mut candidate = found?;
        let field = Field { words: self.words(), bits: candidate.recipe.symbol_bits };
        let fitted = ColumnOffsets::fit(self.isa, field, row_len, scope.bytes, false)?;
        let coder = coder::choose_bytes(&fitted.cols);
        candidate.recipe.columns =
            Some(Columns { count: row_len as u32, base: fitted.base, coder });
        candidate.columns = Some(fitted);
        Some(candidate)
    }

    /// A candidate with offsets, fitted on some rows and judged on others; its cost is scaled to `n` values.
    fn offset_candidate(
        self,
        bits: u8,
        row_len: usize,
        scope: Scope,
        n: usize,
    ) -> Option<Candidate> {
        let field = Field { words: self.words(), bits };
        let fitted = ColumnOffsets::fit(self.isa, field, row_len, scope.bytes, true)?;
        let row_bytes = row_len << self.layout.width_log2;
        let rows = scope.bytes.len() / row_bytes;
        let judged: Vec<usize> = ColumnOffsets::judged_rows(rows).collect();
        let (mut values, mut symbols) = (Vec::new(), Vec::new());
        for row in judged {
            let bytes = &scope.bytes[row * row_bytes..][..row_bytes];
            let mut own = vec![0; row_len];
            field.symbols(self.isa, bytes, &mut own);
            let mut offset = Vec::new();
            fitted.fit_rows(self.isa, field, 0, bytes, &mut offset);
            let offsets = BlockOffsets {
                base: fitted.base,
                cols: &fitted.cols,
                rows: &offset,
                first: 0,
                bits,
            };
            offsets.forward16(self.isa, 0, &mut own);
            symbols.extend_from_slice(&own);
            values.extend_from_slice(bytes);
        }
        let mut candidate = self.finish(&values, bits, &symbols);
        let scaled = |bits: u64, from: usize| bits * n as u64 / from.max(1) as u64;
        // The vectors themselves, spread over the tensor: a byte for each row, the columns' entropy and a table.
        let vectors = entropy_bits(&histogram(&fitted.cols)) + 64 * 8 + 8 * rows as u64;
        candidate.bits = scaled(candidate.bits, symbols.len()) + scaled(vectors, rows * row_len);
        Some(candidate)
    }
}

/// Where the window of wide symbols starts: so that it ends a little above the highest one.
fn window_bias(symbols: &[u16]) -> u16 {
    let highest = symbols.iter().copied().max().unwrap_or(0);
    highest.saturating_sub(255 - 1 - 16)
}

/// Replaces sampled tables of coders that cannot code what they have not seen by tables of all values in scope.
///
/// None if the values turn out not to fit the recipe.
pub(crate) fn exact_tables(
    isa: Isa,
    plan: &Plan,
    ready: ReadyRecipe,
    scope: Scope,
) -> Option<ReadyRecipe> {
    let needs = |c: &Coder| matches!(c, Coder::Huffman(_) | Coder::Rans(_));
    let recipe = &ready.recipe;
    if !recipe.planes.iter().chain(&recipe.flags).any(needs) {
        return Some(ready);
    }
    let stats = plane_stats(isa, plan, &ready, scope);
    let mut recipe = ready.recipe.clone();
    if let (Some(coder), Some(own)) = (&mut recipe.flags, &stats.flags)
        && needs(coder)
    {
        *coder = coder::exact(coder, own, plan.level);
    }
    for (coder, own) in recipe.planes.iter_mut().zip(&stats.planes) {
        if needs(coder) {
            *coder = coder::exact(coder, own, plan.level);
        }
    }
    Some(ReadyRecipe::new(recipe, ready.columns, ready.excess))
}

/// Statistics of every plane of all values in scope.
struct ScopeStats {
    flags: Option<PlaneStats>,
    planes: Vec<PlaneStats>,
}

fn plane_stats(isa: Isa, plan: &Plan, ready: &ReadyRecipe, scope: Scope) -> ScopeStats {
    let none = || PlaneStats { histogram: [0; 256], changes: 0 };
    let mut planes = vec![none(); ready.recipe.planes.len()];
    let mut flags = ready.recipe.flags.as_ref().map(|_| none());
    let mut buffers = Buffers::default();
    let width = ready.recipe.width();
    let mut first_value = scope.first_value;
    for block in scope.bytes.chunks(plan.block_len()) {
        let rows = block_rows(isa, ready, first_value, block);
        let segment_bytes = width << ready.recipe.segment_log2;
        let values = &block[..block.len() / width * width];
        for (i, segment) in values.chunks(segment_bytes).enumerate() {
            let offsets =
                rows.as_ref().and_then(|(first, rows)| block_offsets(ready, *first, rows));
            let start = i << ready.recipe.segment_log2;
            let place = Place { start, offsets, hints: Hints::default() };
            ready.segments.visit_planes(isa, segment, place, &mut buffers, |i, plane| {
                let stats = match i {
                    None => flags.as_mut(),
                    Some(i) => planes.get_mut(i),
                };
                if let Some(stats) = stats {
                    for (sum, count) in stats.histogram.iter_mut().zip(histogram(plane)) {
                        *sum += count;
                    }
                }
            });
        }
        first_value += (block.len() / width) as u64;
    }
    ScopeStats { flags, planes }
}

/// The column of a block's first value and the offsets of its rows, if the recipe has offsets.
pub(crate) fn block_rows(
    isa: Isa,
    ready: &ReadyRecipe,
    first_value: u64,
    block: &[u8],
) -> Option<(usize, Vec<u8>)> {
    let columns = ready.columns.as_ref()?;
    let first = (first_value % columns.cols.len() as u64) as usize;
    let width = ready.recipe.width();
    let mut rows = Vec::new();
    let values = &block[..block.len() / width * width];
    columns.fit_rows(isa, ready.segments.shape().field(), first, values, &mut rows);
    Some((first, rows))
}

/// The offsets of a block's values by its rows.
pub(crate) fn block_offsets<'a>(
    ready: &'a ReadyRecipe,
    first: usize,
    rows: &'a [u8],
) -> Option<BlockOffsets<'a>> {
    ready.columns.as_ref().map(|columns| BlockOffsets {
        base: columns.base,
        cols: &columns.cols,
        rows,
        first,
        bits: ready.recipe.symbol_bits,
    })
}

/// The recipe of the published algorithm for one block: byte groups, each Huffman coded.
pub(crate) fn paper(isa: Isa, plan: &Plan, block: &[u8]) -> Option<ReadyRecipe> {
    let layout = Layout { map: WordMap::None, exponent_bits: 0, ..plan.layout };
    let planner = Planner { isa, layout, level: Level::Paper };
    let width = 1 << layout.width_log2;
    let values = &block[..block.len() / width * width];
    if values.is_empty() {
        return None;
    }
    let mut plane = vec![0; values.len() / width];
    let mut planes = Vec::new();
    for byte in (0..width).rev() {
        extract8(isa, planner.words(), values, 8 * byte as u32, 0xff, &mut plane);
        planes.push(coder::paper(&PlaneStats::of(&plane)));
    }
    let recipe = Recipe {
        width_log2: layout.width_log2,
        map: WordMap::None,
        symbol_bits: 8,
        segment_log2: 16,
        bias: 0,
        flags: None,
        planes,
        columns: None,
    };
    Some(ReadyRecipe::new(recipe, None, 0))
}

/// Whether the recipe still suits a block, judged on a small sample of it: its symbols must not cost more than a hundredth
/// of a value over what their own statistics promise.
pub(crate) fn suits(isa: Isa, ready: &ReadyRecipe, block: &[u8], buffers: &mut Buffers) -> bool {
    let Some(Coder::Chain(table)) = ready.recipe.planes.first() else { return true };
    if ready.columns.is_some() || ready.recipe.flags.is_some() {
        return true;
    }
    let width = ready.recipe.width();
    let sample = sample(block, width, SUITS_VALUES);
    let mut own = [0; 256];
    let place = Place { start: 0, offsets: None, hints: Hints::default() };
    ready.segments.visit_planes(isa, &sample, place, buffers, |i, plane| {
        if i == Some(0) {
            own = histogram(plane);
        }
    });
    let n = (sample.len() / width) as u64;
    let bits = crate::entropy::chain::cost_bits(table, &own) * 256;
    let promised = entropy_bits(&own) * 256 + (ready.excess + 24) * n;
    bits <= promised
}

/// Values of a block that are looked at before a tensor's recipe is used for it.
const SUITS_VALUES: usize = 1024;
