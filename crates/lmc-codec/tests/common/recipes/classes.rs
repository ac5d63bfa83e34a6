//! Blocks with chosen recipes by classes, written the slow way from `docs/format.md`, sections 3.6
//! and 4.3.

use super::floats::{Floats, packed, values_near};
use super::{Case, CoderKind, append_stream, random_values};
use lmc_format::{ClassRecipe, varint};
use lmc_testkit::data::Random;

/// Everything of a recipe by classes but its coders.
#[derive(Clone, Debug)]
pub struct ClassShape {
    pub width_log2: u8,
    pub has_sign: bool,
    pub has_top_bit: bool,
    pub raw_bytes: u8,
    pub segment_log2: u8,
    pub exponent_bits: u8,
    pub exponent_first: u16,
    pub bounds: Vec<u8>,
    /// Writes what only a decoder must take: top bits of classes below 2 and signs of class 0.
    pub untidy: bool,
}

/// What stands for one value.
#[derive(Clone, Copy, Debug)]
struct Coded {
    record: u64,
    context: usize,
    symbol: u8,
    payload: u64,
}

impl ClassShape {
    fn floats(&self) -> Floats {
        let Self { width_log2, raw_bytes, exponent_bits, .. } = *self;
        Floats { width_log2, raw_bytes, exponent_bits, is_integer: false }
    }

    /// Bits of the difference that are not in the record; the largest class.
    fn rest(&self) -> u32 {
        self.floats().rest()
    }

    /// `F` of the document.
    fn flip(&self) -> u32 {
        (self.rest() + 1) << (u32::from(self.has_sign) + u32::from(self.has_top_bit))
    }

    fn context(&self, b: u64) -> usize {
        let exponent = self.floats().exponent(b);
        let size = exponent.saturating_sub(u64::from(self.exponent_first)).min(255);
        self.bounds.iter().filter(|&&bound| u64::from(bound) > size).count()
    }

    /// Bits of the difference in the payload of a class.
    fn low_bits(&self, class: u32) -> u32 {
        class.saturating_sub(1 + u32::from(self.has_top_bit))
    }

    /// Bits of the payload of a class.
    fn payload_bits(&self, class: u32) -> u32 {
        self.low_bits(class) + u32::from(!self.has_sign && class > 0)
    }

    /// The class of a symbol.
    fn class(&self, symbol: u8) -> u32 {
        let rest = u32::from(symbol) % self.flip();
        rest >> (u32::from(self.has_sign) + u32::from(self.has_top_bit))
    }

    /// What stands for the value `x` beside `b`.
    fn coded(&self, x: u64, b: u64, random: &mut Random) -> Coded {
        let (record, q) = self.floats().difference(x, b);
        let size = q.unsigned_abs();
        let class = 64 - size.leading_zeros();
        let any = self.untidy && random.below(2) == 0;
        let is_less = q < 0 || any && size == 0;
        let mut symbol = class;
        if self.has_top_bit {
            let is_set = if class >= 2 { size >> (class - 2) & 1 == 1 } else { any };
            symbol = 2 * symbol + u32::from(is_set);
        }
        if self.has_sign {
            symbol = 2 * symbol + u32::from(is_less);
        }
        let low = self.low_bits(class);
        let mut payload = size & ((1 << low) - 1);
        if !self.has_sign && class > 0 {
            payload |= u64::from(is_less) << low;
        }
        let is_flipped = self.floats().is_flipped(x, b);
        symbol += if is_flipped { self.flip() } else { 0 };
        Coded { record, context: self.context(b), symbol: symbol as u8, payload }
    }

    /// Anything that could stand for a value beside `b`.
    fn wild(&self, b: u64, random: &mut Random) -> Coded {
        // All symbols, and more often small ones.
        let most = [2 * self.flip(), 4][random.below(2)] as usize;
        let symbol = random.below(most) as u8;
        let payload =
            random.next_u64() & ((1_u128 << self.payload_bits(self.class(symbol))) - 1) as u64;
        let record = self.floats().any_record(random);
        Coded { record, context: self.context(b), symbol, payload }
    }

    /// The value that `coded` stands for beside `b`.
    fn value(&self, coded: Coded, b: u64) -> u64 {
        let (class, mut payload) = (self.class(coded.symbol), coded.payload);
        let within = u32::from(coded.symbol) % self.flip();
        let mut is_less = self.has_sign && within % 2 == 1;
        if !self.has_sign {
            let low = self.low_bits(class);
            is_less = payload >> low & 1 == 1;
            payload &= (1 << low) - 1;
        }
        let top_bit = self.has_top_bit && within >> u32::from(self.has_sign) & 1 == 1;
        let size = match class {
            0 => 0,
            1 => 1,
            _ => payload | 1 << (class - 1) | u64::from(top_bit) << (class - 2),
        };
        let q = if is_less { size.wrapping_neg() } else { size };
        let is_flipped = u32::from(coded.symbol) >= self.flip();
        self.floats().value(b, coded.record, q as i64, is_flipped)
    }

    /// The block of `raw` on `base` with coders of these kinds, which contexts take in turn.
    pub fn code(
        &self,
        kinds: &[CoderKind],
        raw: &[u8],
        base: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let floats = self.floats();
        let words = floats.words(raw).into_iter().zip(floats.words(base));
        let coded: Vec<Coded> = words
            .map(|(x, b)| {
                let coded = self.coded(x, b, random);
                assert!(self.value(coded, b) == x, "{self:?}: {x:#x} beside {b:#x}");
                coded
            })
            .collect();
        let tail = &raw[coded.len() * floats.width()..];
        let block = self.block(kinds, &coded, tail, shared, random);
        Case { raw: raw.to_vec(), base: Some(base.to_vec()), ..block }
    }

    /// A block of anything that could stand for values against `base`.
    pub fn code_wild(
        &self,
        kinds: &[CoderKind],
        base: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let floats = self.floats();
        let words = floats.words(base);
        let coded: Vec<Coded> = words.iter().map(|&b| self.wild(b, random)).collect();
        let values = coded.iter().zip(&words).map(|(&coded, &b)| self.value(coded, b));
        let tail = random.bytes(base.len() % floats.width());
        let raw = [floats.bytes(values), tail.clone()].concat();
        let block = self.block(kinds, &coded, &tail, shared, random);
        Case { raw, base: Some(base.to_vec()), ..block }
    }

    /// The block, without its original bytes and its base.
    fn block(
        &self,
        kinds: &[CoderKind],
        coded: &[Coded],
        tail: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let segments: Vec<&[Coded]> = coded.chunks(1 << self.segment_log2).collect();
        let recipe = self.recipe(kinds, &segments, random);
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        let segments: Vec<Vec<u8>> = segments.iter().map(|s| self.segment(&recipe, s)).collect();
        let name = format!("{self:?} {kinds:?}");
        self.floats().block(name, bytes, &segments, (coded.len(), tail), shared)
    }

    /// The recipe with coders that can express all of the segments.
    fn recipe(
        &self,
        kinds: &[CoderKind],
        segments: &[&[Coded]],
        random: &mut Random,
    ) -> ClassRecipe {
        let contexts = (0..=self.bounds.len())
            .map(|k| {
                let parts: Vec<Vec<u8>> = segments.iter().map(|s| symbols(s, k)).collect();
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                kinds[k % kinds.len()].fit(&parts, random)
            })
            .collect();
        ClassRecipe {
            width_log2: self.width_log2,
            has_sign: self.has_sign,
            has_top_bit: self.has_top_bit,
            raw_bytes: self.raw_bytes,
            segment_log2: self.segment_log2,
            exponent_bits: self.exponent_bits,
            exponent_first: self.exponent_first,
            bounds: self.bounds.clone(),
            contexts,
        }
    }

    /// A segment (section 4.3).
    fn segment(&self, recipe: &ClassRecipe, coded: &[Coded]) -> Vec<u8> {
        let mut out = Vec::new();
        for value in coded {
            out.extend_from_slice(&value.record.to_le_bytes()[..usize::from(self.raw_bytes)]);
        }
        for (k, coder) in recipe.contexts.iter().enumerate() {
            append_stream(coder, &symbols(coded, k), &mut out);
        }
        for i in 0..self.rest() / 8 {
            let mut string = Vec::new();
            for value in coded {
                let bits = self.payload_bits(self.class(value.symbol));
                let here = bits.saturating_sub(8 * i).min(8);
                string.extend((0..here).map(|j| (value.payload >> (8 * i + j) & 1) as u8));
            }
            if i + 1 < self.rest() / 8 {
                varint::write(&mut out, string.len().div_ceil(8) as u64);
            }
            out.extend(packed(&string));
        }
        out
    }
}

/// The symbols of the values in context `k`.
fn symbols(coded: &[Coded], k: usize) -> Vec<u8> {
    coded.iter().filter(|value| value.context == k).map(|value| value.symbol).collect()
}

/// A random recipe by classes for `n` values against a base.
pub fn random_class_case(n: usize, random: &mut Random) -> Case {
    let floats = Floats::random(random);
    let mut shape = ClassShape {
        width_log2: floats.width_log2,
        has_sign: random.below(2) == 0,
        has_top_bit: random.below(2) == 0,
        raw_bytes: floats.raw_bytes,
        segment_log2: [10, 10, 10, 11, 12, 18][random.below(6)],
        exponent_bits: floats.exponent_bits,
        exponent_first: 0,
        bounds: Vec::new(),
        untidy: random.below(2) == 0,
    };
    if shape.flip() > 128 {
        shape.has_sign &= shape.rest() < 64 && !shape.has_top_bit;
        shape.has_top_bit &= shape.rest() < 64;
    }
    let mut base = random_values(floats.width_log2, n, random);
    shape.exponent_first = floats.random_first(&base, random);
    shape.bounds = random_bounds(&shape, &base, random);
    let tail = random.below(floats.width());
    base.extend(random.bytes(tail));
    let kinds: Vec<CoderKind> = (0..16).map(|_| CoderKind::any(random)).collect();
    let shared = random.below(3) == 0;
    if random.below(3) == 0 {
        return shape.code_wild(&kinds, &base, shared, random);
    }
    let raw = values_near(&base, floats.width(), random);
    shape.code(&kinds, &raw, &base, shared, random)
}

/// Up to 15 bounds among the exponents, or anywhere.
fn random_bounds(shape: &ClassShape, base: &[u8], random: &mut Random) -> Vec<u8> {
    let count = [0, 1, 2, 3, 7, 15][random.below(6)];
    let mut bounds: Vec<u8> = (0..count)
        .map(|_| {
            if base.is_empty() || random.below(4) == 0 {
                return random.next_u64() as u8;
            }
            let size = shape.floats().some_exponent(base, random) + random.below(2);
            size.saturating_sub(usize::from(shape.exponent_first)).min(255) as u8
        })
        .collect();
    bounds.sort_by(|a, b| b.cmp(a));
    bounds.dedup();
    bounds
}

/// What a recipe by classes uses.
pub fn features(recipe: &ClassRecipe) -> Vec<String> {
    let mut seen = vec!["classes".to_string(), format!("classes width {}", recipe.width())];
    let mut note = |is: bool, name: &str| seen.extend(is.then(|| format!("classes {name}")));
    note(recipe.has_sign, "sign");
    note(recipe.has_top_bit, "top bit");
    note(recipe.raw_bytes > 0, "raw bytes");
    note(recipe.contexts.len() > 1, "contexts");
    for coder in &recipe.contexts {
        seen.push(format!("context {}", coder.name()));
        super::coders::apart_features(coder, 1, &mut seen);
    }
    seen
}
