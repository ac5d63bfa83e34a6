//! Plans recipes by classes, against a base: contexts by the base's exponent, and the cheapest
//! coder for each.

use super::cost::entropy_bits;
use super::merge::merge;
use super::stream::{self, Scale, StreamPlanner, StreamStats};
use super::{Block, ClassRecipeEncoder, Target};
use crate::classes::{ClassBuffers, ClassEncoder, Sorted};
use crate::simd::Isa;
use crate::simd::classes::{ClassLayout, ContextRule, Symbols, exponents, measure};
use crate::spec::Level;
use lmc_format::limits::{APART_DEPTH_MAX, CONTEXTS_MAX};
use lmc_format::{ClassRecipe, Coder};
use std::cell::RefCell;

/// Contexts below the highest level: each one costs time for every value.
const FAST_CONTEXTS_MAX: usize = 6;
/// Cost of a context, in bits of a sample, in addition to its symbols: its share of tables and
/// padding.
const CONTEXT_BITS: u64 = 16;
/// log2 of the values in a segment. Long segments, because the stream of each context is padded.
const SEGMENT_LOG2: u8 = 16;
/// The same at the highest level, whose streams have states.
const SEGMENT_LOG2_MAX_LEVEL: u8 = 18;

/// One difference in this many may be shorter than its raw bytes. Small differences are all about
/// equally likely, so little is lost.
const RAW_SHARE: usize = 8;

/// A recipe with its cost on the sample.
pub(super) struct ClassCandidate {
    pub recipe: ClassRecipe,
    pub bits: u64,
}

/// The cheapest recipe for a sample of values and their base; None if there are no values.
pub(super) fn choose(isa: Isa, target: Target, sample: Block) -> Option<ClassCandidate> {
    let base = sample.base?;
    let buffers = RefCell::default();
    let planner = ClassPlanner { isa, target, values: sample.bytes, base, buffers };
    let width_log2 = target.layout.width_log2;
    let layout = ClassLayout { width_log2, raw_bytes: 0, has_sign: false, has_top_bit: false };
    let raw_bytes = planner.raw_bytes(layout);
    let mut best = planner.with_layout(ClassLayout { raw_bytes, ..layout })?;
    // Join the sign and the top bit to the class, if the symbols fit a byte.
    if target.level == Level::Max && best.recipe.class_max() < 32 {
        let candidate = planner.with_layout(ClassLayout {
            raw_bytes,
            has_sign: true,
            has_top_bit: true,
            ..layout
        })?;
        if candidate.bits < best.bits {
            best = candidate;
        }
    }
    Some(best)
}

struct ClassPlanner<'a> {
    isa: Isa,
    target: Target,
    values: &'a [u8],
    base: &'a [u8],
    /// Working memory, kept because clearing it takes as long as using it.
    buffers: RefCell<ClassBuffers>,
}

impl ClassPlanner<'_> {
    /// Low bytes of differences that are noise: as many as possible while only few differences fit
    /// within them.
    fn raw_bytes(&self, layout: ClassLayout) -> u8 {
        if layout.width_log2 < 2 {
            return 0;
        }
        let n = self.values.len() >> layout.width_log2;
        let mut symbols = vec![0; n];
        let mut payload = vec![0; n * layout.payload_bytes()];
        let (isa, table) = (self.isa, Symbols::new(layout));
        measure(isa, &table, self.values, self.base, &mut symbols, &mut payload, &mut []);
        let half = table.max / 2 + 1;
        let few = |raw_bytes: u8| {
            let short = symbols.iter().filter(|&&symbol| symbol % half <= 8 * raw_bytes).count();
            RAW_SHARE * short <= n
        };
        (1..1 << layout.width_log2).take_while(|&raw_bytes| few(raw_bytes)).last().unwrap_or(0)
    }

    fn with_layout(&self, layout: ClassLayout) -> Option<ClassCandidate> {
        let n = self.values.len() >> layout.width_log2;
        let exponent_bits = self.target.layout.exponent_bits;
        let mut recipe = ClassRecipe {
            width_log2: layout.width_log2,
            has_sign: layout.has_sign,
            has_top_bit: layout.has_top_bit,
            raw_bytes: layout.raw_bytes,
            segment_log2: match self.target.level {
                Level::Max => SEGMENT_LOG2_MAX_LEVEL,
                _ => SEGMENT_LOG2,
            },
            exponent_bits,
            exponent_first: first_exponent(layout.width_log2, exponent_bits, self.base),
            bounds: Vec::new(),
            contexts: vec![Coder::Raw],
        };
        recipe.bounds = self.bounds(&recipe);
        recipe.contexts.resize(recipe.bounds.len() + 1, Coder::Raw);
        (n > 0).then(|| self.with_coders(recipe))
    }

    /// The bounds of contexts for a recipe that still has a single context.
    fn bounds(&self, recipe: &ClassRecipe) -> Vec<u8> {
        let n = self.values.len() >> recipe.width_log2;
        let mut own = vec![0; n];
        let (bits, first) = (recipe.exponent_bits, recipe.exponent_first);
        let rule = ContextRule { bits, first, bounds: &[] };
        exponents(self.isa, recipe.width_log2, rule, self.base, &mut own);
        let contexts_max = match self.target.level {
            Level::Max => usize::from(CONTEXTS_MAX),
            _ => FAST_CONTEXTS_MAX,
        };
        self.sort(recipe, |sorted| {
            cluster(&own, sorted.symbols(0), 2 * usize::from(recipe.symbols()), contexts_max)
        })
    }

    fn sort<T>(&self, recipe: &ClassRecipe, visit: impl FnOnce(&mut Sorted) -> T) -> T {
        let n = self.values.len() >> recipe.width_log2;
        let buffers = &mut self.buffers.borrow_mut();
        let mut records = vec![0; n * usize::from(recipe.raw_bytes)];
        let encoder = ClassEncoder::new(recipe);
        visit(&mut encoder.sort(self.isa, self.values, self.base, buffers, &mut records))
    }

    /// Chooses the coders of all contexts.
    fn with_coders(&self, recipe: ClassRecipe) -> ClassCandidate {
        let n = self.values.len() >> recipe.width_log2;
        let scale = Scale { sampled: n as u64, segment_log2: recipe.segment_log2 };
        let planner = StreamPlanner { isa: self.isa, level: self.target.level, scale };
        let mut bits = 8 * (n * usize::from(recipe.raw_bytes)) as u64;
        let contexts = self.sort(&recipe, |sorted| {
            bits += 8 * sorted.payload_len() as u64;
            let choose = |k| planner.choose(sorted.symbols(k), APART_DEPTH_MAX);
            (0..recipe.contexts.len()).map(choose).collect::<Vec<_>>()
        });
        bits += contexts.iter().map(|choice| choice.bits).sum::<u64>();
        let contexts = contexts.into_iter().map(|choice| choice.coder).collect();
        ClassCandidate { recipe: ClassRecipe { contexts, ..recipe }, bits }
    }
}

/// The amount to subtract from exponents of more than eight bits, so that the largest fit a byte.
fn first_exponent(width_log2: u8, bits: u8, base: &[u8]) -> u16 {
    if bits <= 8 {
        return 0;
    }
    let width = 1 << width_log2;
    let largest = base.chunks_exact(width).map(|value| {
        let mut word = [0; 8];
        word[..width].copy_from_slice(value);
        let magnitude = u64::from_le_bytes(word) << (64 - 8 * width) << 1;
        (magnitude >> (64 - u32::from(bits))) as u16
    });
    largest.max().unwrap_or(0).saturating_sub(255)
}

/// Bounds of at most `most` contexts: neighbouring exponents with similar symbols are joined.
fn cluster(exponents: &[u8], symbols: &[u8], alphabet: usize, most: usize) -> Vec<u8> {
    let mut counts = vec![0_u32; 256 * alphabet];
    for (&exponent, &symbol) in exponents.iter().zip(symbols) {
        counts[usize::from(exponent) * alphabet + usize::from(symbol)] += 1;
    }
    /// Neighbouring exponents, from `low` up to the start of the previous cluster.
    struct Cluster {
        low: u8,
        counts: Vec<u32>,
        bits: u64,
    }
    let mut clusters: Vec<Cluster> = Vec::new();
    for low in (0..=255_u8).rev() {
        let own = &counts[usize::from(low) * alphabet..][..alphabet];
        if own.iter().any(|&count| count > 0) {
            clusters.push(Cluster { low, counts: own.to_vec(), bits: entropy_bits(own) });
        }
    }
    let joined = |a: &Cluster, b: &Cluster| -> Vec<u32> {
        a.counts.iter().zip(&b.counts).map(|(a, b)| a + b).collect()
    };
    let cost =
        |a: &Cluster, b: &Cluster| entropy_bits(&joined(a, b)).saturating_sub(a.bits + b.bits);
    merge(&mut clusters, most, CONTEXT_BITS, cost, |own, next| {
        own.counts = joined(own, &next);
        own.bits = entropy_bits(&own.counts);
        own.low = next.low;
    });
    // The last cluster has no bound: it continues below.
    clusters.pop();
    clusters.iter().map(|cluster| cluster.low).collect()
}

/// The recipe with tables from all `values`, for coders that cannot code symbols missing from a
/// sample.
pub(super) fn exact_tables(
    isa: Isa,
    target: Target,
    candidate: ClassCandidate,
    values: Block,
    expected_bits: u64,
) -> ClassRecipeEncoder {
    let ClassCandidate { mut recipe, .. } = candidate;
    if recipe.contexts.iter().any(stream::needs_all) {
        let mut stats: Vec<_> = recipe.contexts.iter().map(StreamStats::new).collect();
        each_segment(isa, target, &recipe, values, |sorted| {
            for (k, stats) in stats.iter_mut().enumerate() {
                stats.add(isa, sorted.symbols(k));
            }
        });
        for (coder, stats) in recipe.contexts.iter_mut().zip(&stats) {
            *coder = stats.exact(coder, target.level);
        }
    }
    ClassRecipeEncoder::new(recipe, expected_bits)
}

fn each_segment(
    isa: Isa,
    target: Target,
    recipe: &ClassRecipe,
    values: Block,
    mut visit: impl FnMut(&Sorted),
) {
    let Some(base) = values.base else { return };
    let encoder = ClassEncoder::new(recipe);
    let mut buffers = ClassBuffers::default();
    let mut records = vec![0; usize::from(recipe.raw_bytes) << recipe.segment_log2];
    let blocks = values.bytes.chunks(target.block_len).zip(base.chunks(target.block_len));
    for (block, base) in blocks {
        let whole = block.len() / recipe.width() * recipe.width();
        let segment_bytes = recipe.width() << recipe.segment_log2;
        let segments = block[..whole].chunks(segment_bytes).zip(base.chunks(segment_bytes));
        for (segment, base) in segments {
            let len = segment.len() >> recipe.width_log2;
            let base = &base[..segment.len()];
            let records = &mut records[..len * usize::from(recipe.raw_bytes)];
            visit(&encoder.sort(isa, segment, base, &mut buffers, records));
        }
    }
}
