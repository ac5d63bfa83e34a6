//! Blocks with chosen recipes by bins, written the slow way from `docs/format.md`, sections 3.7,
//! 4.4 and 5.7.

use super::floats::{Floats, packed, values_near};
use super::{Case, CoderKind, append_stream, coders, random_values};
use lmc_codec::Isa;
use lmc_codec::internals::RansEncoder;
use lmc_format::{Bin, BinRecipe, BinRules, ContextTables, Reader, SymbolCoder, varint};
use lmc_testkit::data::Random;

/// The symbol of a value that is listed.
const EXCEPTION: u8 = 0x40;

/// A recipe by bins whose coder is yet to be found.
#[derive(Clone, Debug)]
pub struct BinShape {
    pub rules: BinRules,
    /// The bounds of contexts, if symbols are coded by context.
    pub contexts: Option<Vec<u8>>,
    /// No value is that of its base, which section 3.8 makes use of.
    pub all_differ: bool,
    /// Writes what only a decoder must take: exceptions without need, any payload of an exception,
    /// and changes of sign in both the symbol and the payload.
    pub untidy: bool,
}

/// What stands for one value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coded {
    bin: usize,
    record: u64,
    pub(super) symbol: u8,
    payload: u64,
    payload_bits: u8,
    /// The top bytes of an exception.
    listed: u64,
}

impl BinShape {
    pub(super) fn floats(&self) -> Floats {
        let BinRules { width_log2, raw_bytes, exponent_bits, is_integer, .. } = self.rules;
        Floats { width_log2, raw_bytes, exponent_bits, is_integer }
    }

    /// The number of the bin of values beside `b`.
    fn bin_number(&self, b: u64) -> usize {
        let above = self.floats().exponent(b).saturating_sub(self.rules.exponent_first.into());
        (above as usize).min(self.rules.bins.len() - 1)
    }

    /// The row of a bin.
    fn row(&self, number: usize) -> Option<&[u8; 16]> {
        let above = self.rules.bounds.iter().filter(|&&bound| usize::from(bound) <= number);
        self.rules.rows.get(above.count())
    }

    /// The symbol of `s` and `f` in a bin.
    fn symbol(&self, number: usize, s: i64, f: bool) -> u8 {
        let (mut s, mut f) = (s, f);
        if let Some(row) = self.row(number).filter(|_| (-4..=3).contains(&s)) {
            let place = row[(s & 7) as usize + 8 * usize::from(f)];
            (s, f) = (i64::from(place & 3) - i64::from(place & 4), place >= 8);
        }
        (s as u8) ^ (u8::from(f) << 7)
    }

    /// `s` and `f` of a symbol in a bin.
    fn meaning(&self, number: usize, symbol: u8) -> (i64, bool) {
        let mut s = i64::from(symbol & 63) - i64::from(symbol & 64);
        let mut f = (symbol >> 7 ^ symbol >> 6) & 1 == 1;
        if let Some(row) = self.row(number).filter(|_| (-4..=3).contains(&s)) {
            let place = (s & 7) as u8 + 8 * u8::from(f);
            let before = row.iter().position(|&entry| entry == place).expect("a permutation") as u8;
            (s, f) = (i64::from(before & 3) - i64::from(before & 4), before >= 8);
        }
        (s, f)
    }

    /// Whether a difference of 0 without a change of sign stands for nothing (section 3.8).
    fn leaves_out_zero(&self, is_flipped: bool) -> bool {
        self.all_differ && self.rules.raw_bytes == 0 && !is_flipped
    }

    /// What stands for the value `x` beside `b`.
    pub(super) fn coded(&self, x: u64, b: u64, random: &mut Random) -> Coded {
        let floats = self.floats();
        let (record, mut q) = floats.difference(x, b);
        let is_flipped = floats.is_flipped(x, b);
        // A value that is that of its base all the same can be an exception.
        let mut any = self.untidy && random.below(8) == 0;
        if self.leaves_out_zero(is_flipped) {
            any |= q == 0;
            q -= i64::from(q > 0);
        }
        let number = self.bin_number(b);
        let bin = self.rules.bins[number];
        let payload_bits = bin.payload_bits();
        let width = 1_i128 << bin.shift;
        let moved = i128::from(q) + width / 2;
        let (step, low) = (moved.div_euclid(width), moved.rem_euclid(width) as u64);
        if !(-56..=55).contains(&step) || any {
            let payload = if any { random.below(1 << payload_bits) as u64 } else { 0 };
            let listed = x >> (8 * self.rules.raw_bytes);
            let (bin, symbol) = (number, EXCEPTION);
            return Coded { bin, record, symbol, payload, payload_bits, listed };
        }
        let in_both = self.untidy && random.below(4) == 0;
        // Of integers, an `f` means nothing.
        let f = if bin.has_flip_bit || self.rules.is_integer { in_both } else { is_flipped };
        let payload = low | u64::from(bin.has_flip_bit && is_flipped != f) << bin.shift;
        let symbol = self.symbol(number, step as i64 - i64::from(bin.centre), f);
        Coded { bin: number, record, symbol, payload, payload_bits, listed: 0 }
    }

    /// Anything that could stand for a value beside `b`.
    pub(super) fn wild(&self, b: u64, random: &mut Random) -> Coded {
        // All symbols, and more often small ones.
        let most = [256, 4][random.below(2)];
        let mut symbol = random.below(most) as u8;
        // The one symbol that no table by context has.
        if self.contexts.is_some() && symbol == EXCEPTION ^ 0x80 {
            symbol = EXCEPTION;
        }
        let bin = self.bin_number(b);
        let payload_bits = self.rules.bins[bin].payload_bits();
        let payload = random.below(1 << payload_bits) as u64;
        let listed = random.next_u64() >> (64 - self.floats().rest());
        let record = self.floats().any_record(random);
        Coded { bin, record, symbol, payload, payload_bits, listed }
    }

    /// The value that `coded` stands for beside `b`.
    pub(super) fn value(&self, coded: Coded, b: u64) -> u64 {
        let floats = self.floats();
        if coded.symbol == EXCEPTION {
            let low = floats.value(b, coded.record, 0, false);
            let low_bits = 8 * self.rules.raw_bytes;
            return low & ((1 << low_bits) - 1) | coded.listed << low_bits;
        }
        let number = self.bin_number(b);
        let Bin { shift, has_flip_bit, centre } = self.rules.bins[number];
        let (s, f) = self.meaning(number, coded.symbol);
        let low = (coded.payload & ((1 << shift) - 1)) as i64;
        let mut q = (s + i64::from(centre)) * (1 << shift) + low - (1 << shift) / 2;
        let flip_bit = has_flip_bit && coded.payload >> shift == 1;
        let is_flipped = f != flip_bit && !self.rules.is_integer;
        if self.leaves_out_zero(is_flipped) {
            q += i64::from(q >= 0);
        }
        floats.value(b, coded.record, q, is_flipped)
    }

    /// The block of `raw` on `base`, with symbols by a coder of this kind.
    pub fn code(
        &self,
        kind: CoderKind,
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
        let block = self.block(kind, &coded, tail, shared, random);
        Case { raw: raw.to_vec(), base: Some(base.to_vec()), ..block }
    }

    /// A block of anything that could stand for values against `base`.
    pub fn code_wild(
        &self,
        kind: CoderKind,
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
        let block = self.block(kind, &coded, &tail, shared, random);
        Case { raw, base: Some(base.to_vec()), ..block }
    }

    fn block(
        &self,
        kind: CoderKind,
        coded: &[Coded],
        tail: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let segments: Vec<&[Coded]> = coded.chunks(1 << self.rules.segment_log2).collect();
        let planes: Vec<Vec<u8>> = segments.iter().map(|segment| symbols(segment)).collect();
        let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
        let symbols = match &self.contexts {
            None => SymbolCoder::One(kind.fit(&planes, random)),
            Some(bounds) => SymbolCoder::ByContext(context_tables(bounds, coded)),
        };
        let recipe = BinRecipe { rules: self.rules.clone(), symbols };
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        let segments: Vec<Vec<u8>> =
            segments.iter().map(|segment| self.segment(&recipe.symbols, segment)).collect();
        let name = format!("{self:?} {kind:?}");
        self.floats().block(name, bytes, &segments, (coded.len(), tail), shared)
    }

    /// A segment (section 4.4).
    fn segment(&self, coder: &SymbolCoder, coded: &[Coded]) -> Vec<u8> {
        let mut out = self.listed(coded);
        match coder {
            SymbolCoder::One(coder) => append_stream(coder, &symbols(coded), &mut out),
            SymbolCoder::ByContext(tables) => {
                let contexts: Vec<u8> =
                    coded.iter().map(|value| tables.context(value.bin as u8) as u8).collect();
                let encoder = RansEncoder::by_context(tables);
                let isa = Isa::best();
                assert!(
                    encoder.encode_by_context(isa, &symbols(coded), &contexts, &mut out).is_ok()
                );
            }
        }
        out.extend(payloads(coded));
        out
    }

    /// The records and the exceptions.
    pub(super) fn listed(&self, coded: &[Coded]) -> Vec<u8> {
        let raw_bytes = usize::from(self.rules.raw_bytes);
        let mut out = Vec::new();
        for value in coded {
            out.extend_from_slice(&value.record.to_le_bytes()[..raw_bytes]);
        }
        let exceptions = || coded.iter().filter(|value| value.symbol == EXCEPTION);
        varint::write(&mut out, exceptions().count() as u64);
        for value in exceptions() {
            out.extend_from_slice(&value.listed.to_le_bytes()[..self.rules.width() - raw_bytes]);
        }
        out
    }
}

/// Tables for all of these values, by the context of their bin.
fn context_tables(bounds: &[u8], coded: &[Coded]) -> ContextTables {
    let table = |context: usize| {
        let is_own = |value: &&Coded| {
            bounds.iter().filter(|&&bound| usize::from(bound) <= value.bin).count() == context
        };
        let own: Vec<u8> = coded.iter().filter(is_own).map(|value| value.symbol).collect();
        coders::rans_table(&own)
    };
    let tables = (0..=bounds.len()).map(table).collect();
    ContextTables::new(bounds.to_vec(), tables).expect("bounds are in order")
}

/// The payloads of values, in one string.
pub(super) fn payloads(coded: &[Coded]) -> Vec<u8> {
    let bits = coded
        .iter()
        .flat_map(|value| (0..value.payload_bits).map(|i| (value.payload >> i & 1) as u8));
    packed(&bits.collect::<Vec<u8>>())
}

fn symbols(coded: &[Coded]) -> Vec<u8> {
    coded.iter().map(|value| value.symbol).collect()
}

/// A random recipe by bins for `n` values against a base.
pub fn random_bin_case(n: usize, random: &mut Random) -> Case {
    let (mut shape, mut base) = random_shape(n, random);
    let floats = shape.floats();
    let tail = random.below(floats.width());
    base.extend(random.bytes(tail));
    let kind = CoderKind::any(random);
    if random.below(3) == 0 {
        let count = [1, 2, 5, 16][random.below(4)];
        shape.contexts = Some(random_bounds(count, random));
    }
    let shared = random.below(3) == 0;
    if random.below(3) == 0 {
        return shape.code_wild(kind, &base, shared, random);
    }
    // A coder of one byte needs values that are all alike.
    let raw = match kind {
        CoderKind::Constant => {
            shape.untidy = false;
            shape.rules.bins.iter_mut().for_each(|bin| bin.centre = 5);
            base.clone()
        }
        _ => values_near(&base, floats.width(), random),
    };
    shape.code(kind, &raw, &base, shared, random)
}

/// A random recipe by bins, and the `n` values of a base.
pub(super) fn random_shape(n: usize, random: &mut Random) -> (BinShape, Vec<u8>) {
    let mut floats = Floats::random(random);
    if random.below(2) == 0 {
        // Few bits of an exponent leave many values to a bin, and more bits than kernels are for
        // leave them to the portable one.
        floats.exponent_bits = floats.exponent_bits.min(8);
    }
    let base = random_values(floats.width_log2, n, random);
    floats.is_integer = random.below(4) == 0;
    let mut rules = BinRules {
        width_log2: floats.width_log2,
        is_integer: floats.is_integer,
        raw_bytes: floats.raw_bytes,
        segment_log2: [10, 10, 10, 11, 12, 18][random.below(6)],
        exponent_bits: floats.exponent_bits,
        exponent_first: floats.random_first(&base, random),
        bins: random_bins(!floats.is_integer, random),
        bounds: Vec::new(),
        rows: Vec::new(),
    };
    let untidy = random.below(2) == 0;
    (rules.bounds, rules.rows) = random_rows(random);
    (BinShape { rules, contexts: None, all_differ: false, untidy }, base)
}

/// Up to as many bins as there can be, with steps of a few widths or of all, some with flip bits if
/// there can be any.
fn random_bins(has_flip_bits: bool, random: &mut Random) -> Vec<Bin> {
    let most = [2, 5, 9][random.below(3)];
    (0..[1, 2, 5, 17, 32][random.below(5)])
        .map(|_| {
            let shift = random.below(most) as u8;
            let has_flip_bit = has_flip_bits && shift < 8 && random.below(3) == 0;
            Bin { shift, has_flip_bit, centre: random.below(13) as i8 - 6 }
        })
        .collect()
}

/// Up to as many rows as there can be, with bounds among the bins, or anywhere.
pub fn random_rows(random: &mut Random) -> (Vec<u8>, Vec<[u8; 16]>) {
    let count = [0, 0, 1, 2, 5, 8][random.below(6)];
    let bounds = random_bounds(count, random);
    let row = |_| {
        let mut row: [u8; 16] = std::array::from_fn(|i| i as u8);
        (1..16).for_each(|i| row.swap(i, random.below(i + 1)));
        row
    };
    (bounds, (0..count).map(row).collect())
}

/// The bounds between as many rows or contexts, close together or anywhere.
pub(super) fn random_bounds(count: usize, random: &mut Random) -> Vec<u8> {
    let reach = [9, 33, 256][random.below(3)].max(count + 1);
    let mut bounds: Vec<u8> = Vec::new();
    while bounds.len() + 1 < count {
        let bound = 1 + random.below(reach - 1) as u8;
        if !bounds.contains(&bound) {
            bounds.push(bound);
        }
    }
    bounds.sort_unstable();
    bounds
}

/// What a recipe by bins uses, and the body of its block with `raw_len` bytes.
pub fn features(recipe: &BinRecipe, raw_len: usize, body: &mut Reader) -> Vec<String> {
    let BinRecipe { rules, symbols } = recipe;
    let mut seen = vec!["bins".to_string(), format!("bins width {}", rules.width())];
    let mut note = |is: bool, name: &str| seen.extend(is.then(|| format!("bins {name}")));
    note(rules.raw_bytes > 0, "raw bytes");
    note(rules.is_integer, "integers");
    note(rules.bins.len() > 1, "several");
    note(rules.bins.len() == 32, "most");
    note(rules.bins.iter().any(|bin| bin.has_flip_bit), "flip bit");
    note(rules.bins.iter().any(|bin| bin.payload_bits() == 8), "widest payload");
    note(rules.bins.iter().any(|bin| bin.payload_bits() == 0), "no payload");
    note(rules.bins.iter().any(|bin| bin.centre < 0), "centre below");
    note(rules.bins.iter().any(|bin| bin.centre > 0), "centre above");
    note(rules.rows.is_empty(), "no rows");
    note(rules.rows.len() == 1, "one row");
    note(rules.rows.len() > 1, "bounds");
    note(rules.rows.len() == 8, "most rows");
    note(first_exceptions(rules, raw_len, body) > 0, "exceptions");
    seen.push(format!("bins symbols {}", symbols.name()));
    if let SymbolCoder::One(coder) = symbols {
        coders::apart_features(coder, 1, &mut seen);
    }
    seen
}

/// How many exceptions the first segment has, if there is one.
fn first_exceptions(rules: &BinRules, raw_len: usize, body: &mut Reader) -> u64 {
    let n = raw_len / rules.width();
    if n == 0 {
        return 0;
    }
    let size = 1 << rules.segment_log2;
    let before =
        raw_len % rules.width() + 3 * n.div_ceil(size) + n.min(size) * usize::from(rules.raw_bytes);
    body.take(before, "what stands before the exceptions").expect("a valid body");
    body.varint("number of exceptions").expect("a valid segment")
}

/// The features of recipes by bins that a set of cases must have.
pub fn all_features() -> Vec<String> {
    let names = [
        "raw bytes",
        "integers",
        "several",
        "most",
        "flip bit",
        "widest payload",
        "no payload",
        "centre below",
        "centre above",
        "no rows",
        "one row",
        "bounds",
        "most rows",
        "exceptions",
    ];
    let mut all = vec!["bins".to_string()];
    all.extend(names.map(|name| format!("bins {name}")));
    all.extend([1, 2, 4, 8].map(|width| format!("bins width {width}")));
    all.push("bins symbols rans by context".to_string());
    all
}
