//! Blocks with chosen recipes by classes, written the slow way from `docs/format.md`, sections 3.6
//! and 4.3.

use super::{Case, CoderKind, append_stream, random_values, word};
use lmc_format::varint;
use lmc_format::{BlockKind, BlockPrefix, ClassRecipe};
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
    fn bits(&self) -> u32 {
        8 << self.width_log2
    }

    /// Bits of the difference that are not in the record; the largest class.
    fn rest(&self) -> u32 {
        self.bits() - 8 * u32::from(self.raw_bytes)
    }

    /// `F` of the document.
    fn flip(&self) -> u32 {
        (self.rest() + 1) << (u32::from(self.has_sign) + u32::from(self.has_top_bit))
    }

    /// The low bits of a word that are its magnitude.
    fn magnitude(&self) -> u64 {
        u64::MAX >> (65 - self.bits())
    }

    /// `h` of the document.
    fn half(&self) -> u64 {
        if self.raw_bytes == 0 { 0 } else { 1 << (8 * self.raw_bytes - 1) }
    }

    fn context(&self, b: u64) -> usize {
        let shift = self.bits() - 1 - u32::from(self.exponent_bits);
        let exponent = b >> shift & ((1 << self.exponent_bits) - 1);
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
        let all = u64::MAX >> (64 - self.bits());
        let (mag_x, mag_b) = (x & self.magnitude(), b & self.magnitude());
        let difference = mag_x.wrapping_sub(mag_b).wrapping_add(self.half()) & all;
        let record = difference & ((1 << (8 * self.raw_bytes)) - 1);
        // Shifted up and back, so that the sign is that of the 64 bits.
        let q = (difference << (64 - self.bits())) as i64 >> (64 - self.rest());
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
        let is_flipped = (x ^ b) >> (self.bits() - 1) == 1;
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
        let record = random.next_u64() & ((1 << (8 * self.raw_bytes)) - 1);
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
        let sum = b.wrapping_add(q << (8 * self.raw_bytes)).wrapping_add(coded.record);
        let top = (b >> (self.bits() - 1) & 1) ^ u64::from(u32::from(coded.symbol) >= self.flip());
        sum.wrapping_sub(self.half()) & self.magnitude() | top << (self.bits() - 1)
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
        let width = 1 << self.width_log2;
        let words = raw.chunks_exact(width).zip(base.chunks_exact(width));
        let coded: Vec<Coded> = words
            .map(|(x, b)| {
                let coded = self.coded(word(x), word(b), random);
                assert!(self.value(coded, word(b)) == word(x), "{self:?}: {x:?} beside {b:?}");
                coded
            })
            .collect();
        let tail = &raw[coded.len() * width..];
        let block = self.block(kinds, &coded, tail, shared, random);
        Case { raw: raw.to_vec(), base: Some(base.to_vec()), ..block }
    }

    /// A block of anything that could stand for values on `base`.
    pub fn code_wild(
        &self,
        kinds: &[CoderKind],
        base: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let width = 1 << self.width_log2;
        let words: Vec<u64> = base.chunks_exact(width).map(word).collect();
        let coded: Vec<Coded> = words.iter().map(|&b| self.wild(b, random)).collect();
        let values = coded.iter().zip(words).map(|(&coded, b)| self.value(coded, b));
        let mut raw: Vec<u8> =
            values.flat_map(|x| x.to_le_bytes().into_iter().take(width)).collect();
        let tail = random.bytes(base.len() % width);
        raw.extend_from_slice(&tail);
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
        let mut recipe_bytes = Vec::new();
        recipe.write(&mut recipe_bytes);
        let kind = if shared { BlockKind::Shared } else { BlockKind::Coded };
        let raw_len = (coded.len() << self.width_log2) + tail.len();
        let mut block = Vec::new();
        BlockPrefix { kind, raw_len }.write(&mut block);
        if !shared {
            block.extend_from_slice(&recipe_bytes);
            recipe_bytes.clear();
        }
        block.extend_from_slice(tail);
        let segments: Vec<Vec<u8>> = segments.iter().map(|s| self.segment(&recipe, s)).collect();
        for segment in &segments {
            block.extend_from_slice(&(segment.len() as u32).to_le_bytes()[..3]);
        }
        block.extend(segments.concat());
        let name = format!("{self:?} {kinds:?}");
        Case { name, shared: recipe_bytes, base: None, block, raw: Vec::new() }
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
            let byte = |bits: &[u8]| (0..).zip(bits).map(|(j, bit)| bit << j).sum::<u8>();
            if i + 1 < self.rest() / 8 {
                varint::write(&mut out, string.len().div_ceil(8) as u64);
            }
            out.extend(string.chunks(8).map(byte));
        }
        out
    }
}

/// The symbols of the values in context `k`.
fn symbols(coded: &[Coded], k: usize) -> Vec<u8> {
    coded.iter().filter(|value| value.context == k).map(|value| value.symbol).collect()
}

/// A random recipe by classes for `n` values on a base.
pub fn random_class_case(n: usize, random: &mut Random) -> Case {
    let width_log2 = random.below(4) as u8;
    let width = 1 << width_log2;
    let mut shape = ClassShape {
        width_log2,
        has_sign: random.below(2) == 0,
        has_top_bit: random.below(2) == 0,
        raw_bytes: random.below(width) as u8,
        segment_log2: [10, 10, 10, 11, 12, 20][random.below(6)],
        exponent_bits: 1 + random.below(11.min(8 * width - 1)) as u8,
        exponent_first: 0,
        bounds: Vec::new(),
        untidy: random.below(2) == 0,
    };
    if shape.flip() > 128 {
        shape.has_sign &= shape.rest() < 64 && !shape.has_top_bit;
        shape.has_top_bit &= shape.rest() < 64;
    }
    let mut base = random_values(width_log2, n, random);
    shape.exponent_first = random_first(&shape, &base, random);
    shape.bounds = random_bounds(&shape, &base, random);
    let tail = random.below(width);
    base.extend(random.bytes(tail));
    let kinds: Vec<CoderKind> = (0..16).map(|_| CoderKind::any(random)).collect();
    let shared = random.below(3) == 0;
    if random.below(3) == 0 {
        return shape.code_wild(&kinds, &base, shared, random);
    }
    let raw = values_near(&base, width, random);
    shape.code(&kinds, &raw, &base, shared, random)
}

/// The exponent that contexts look at, of any value.
fn some_exponent(shape: &ClassShape, base: &[u8], random: &mut Random) -> usize {
    let width = 1 << shape.width_log2;
    let at = random.below(base.len() / width) * width;
    let shift = shape.bits() - 1 - u32::from(shape.exponent_bits);
    (word(&base[at..at + width]) >> shift) as usize & ((1 << shape.exponent_bits) - 1)
}

/// What is subtracted: nothing, about an exponent that occurs, or anything.
fn random_first(shape: &ClassShape, base: &[u8], random: &mut Random) -> u16 {
    match random.below(4) {
        0 => random.next_u64() as u16,
        1 if !base.is_empty() => some_exponent(shape, base, random).saturating_sub(9) as u16,
        _ => 0,
    }
}

/// Up to 15 bounds among the exponents, or anywhere.
fn random_bounds(shape: &ClassShape, base: &[u8], random: &mut Random) -> Vec<u8> {
    let count = [0, 1, 2, 3, 7, 15][random.below(6)];
    let mut bounds: Vec<u8> = (0..count)
        .map(|_| {
            if base.is_empty() || random.below(4) == 0 {
                return random.next_u64() as u8;
            }
            let size = some_exponent(shape, base, random) + random.below(2);
            size.saturating_sub(usize::from(shape.exponent_first)).min(255) as u8
        })
        .collect();
    bounds.sort_by(|a, b| b.cmp(a));
    bounds.dedup();
    bounds
}

/// Values a few units away from those of the base, some with another sign, some far away.
pub fn values_near(base: &[u8], width: usize, random: &mut Random) -> Vec<u8> {
    let bits = 8 * width;
    let reach = 1 + random.below(bits).min(random.below(bits));
    let far = [0, 1, 10, 100][random.below(4)];
    let mut values: Vec<u8> = base
        .chunks_exact(width)
        .flat_map(|b| {
            let step = random.next_u64() >> random.below(64) & (u64::MAX >> (64 - reach));
            let mut x = match random.below(3) {
                0 => word(b),
                1 => word(b).wrapping_add(step),
                _ => word(b).wrapping_sub(step),
            };
            if random.below(100) < far {
                x ^= 1 << (bits - 1) | random.next_u64() >> random.below(64);
            }
            x.to_le_bytes().into_iter().take(width)
        })
        .collect();
    values.extend(random.bytes(base.len() % width));
    values
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
