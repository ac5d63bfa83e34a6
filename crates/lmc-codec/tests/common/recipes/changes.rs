//! Blocks with chosen recipes by changes, written the slow way from `docs/format.md`, sections 3.8
//! and 4.5.

use super::bins::{BinShape, Coded, payloads, random_bounds, random_shape};
use super::floats::{packed, values_near};
use super::{Case, CoderKind, append_stream, coders};
use lmc_format::{ChangeRecipe, FlagContexts, Reader, varint};
use lmc_testkit::data::Random;

/// A recipe by changes whose coders are yet to be found.
#[derive(Clone, Debug)]
pub struct ChangeShape {
    /// How values that differ are coded. Untidy ones also have flags that were not needed.
    pub bins: BinShape,
    pub has_lengths: bool,
    /// Where contexts of changes begin, but for the first.
    pub changed: Vec<u8>,
    /// The same of symbols that are not 0; none if these have no flags.
    pub uncommon: Option<Vec<u8>>,
}

/// The kinds of a recipe's coders; those of flags are used in turn.
#[derive(Clone, Copy, Debug)]
pub struct ChangeKinds<'a> {
    pub flags: &'a [CoderKind],
    pub symbols: CoderKind,
}

/// A value beside its base: what stands for it, if it has a flag, and whether its symbol has one.
type Change = (u64, Option<(Coded, bool)>);

/// The parts of a segment that have coders.
struct Streams {
    /// By context.
    changed: Vec<Vec<u8>>,
    /// The same.
    uncommon: Vec<Vec<u8>>,
    symbols: Vec<u8>,
}

impl ChangeShape {
    /// The flags of values with these bases, by the context that `bounds` say.
    fn flags(&self, bounds: &[u8], flags: impl Iterator<Item = (u64, bool)>) -> Vec<Vec<u8>> {
        let mut bits = vec![Vec::new(); bounds.len() + 1];
        for (b, flag) in flags {
            let exponent = self.bins.floats().exponent(b);
            let above = exponent.saturating_sub(self.bins.rules.exponent_first.into()).min(255);
            let context = bounds.iter().filter(|&&bound| u64::from(bound) <= above).count();
            bits[context].push(u8::from(flag));
        }
        bits.iter().map(|bits| packed(bits)).collect()
    }

    fn streams(&self, changes: &[Change]) -> Streams {
        let flags = changes.iter().map(|&(b, coded)| (b, coded.is_some()));
        let coded = || changes.iter().filter_map(|&(b, coded)| Some((b, coded?)));
        let symbol_flags = coded().map(|(b, (_, flag))| (b, flag));
        let has_flags = self.uncommon.is_some();
        let others = coded().filter(|(_, (_, flag))| *flag || !has_flags);
        Streams {
            changed: self.flags(&self.changed, flags),
            uncommon: match &self.uncommon {
                Some(bounds) => self.flags(bounds, symbol_flags),
                None => Vec::new(),
            },
            symbols: others.map(|(_, (coded, _))| coded.symbol).collect(),
        }
    }

    /// The block of `raw` on `base`, with coders of these kinds.
    pub fn code(
        &self,
        kinds: ChangeKinds,
        raw: &[u8],
        base: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let floats = self.bins.floats();
        let words = floats.words(raw).into_iter().zip(floats.words(base));
        let changes: Vec<Change> = words
            .map(|(x, b)| {
                if x == b && !(self.bins.untidy && random.below(8) == 0) {
                    return (b, None);
                }
                let coded = self.bins.coded(x, b, random);
                assert!(self.bins.value(coded, b) == x, "{self:?}: {x:#x} beside {b:#x}");
                let has_flag = coded.symbol != 0 || self.bins.untidy && random.below(8) == 0;
                (b, Some((coded, has_flag)))
            })
            .collect();
        let tail = &raw[changes.len() * floats.width()..];
        let block = self.block(kinds, &changes, tail, shared, random);
        Case { raw: raw.to_vec(), base: Some(base.to_vec()), ..block }
    }

    /// A block of anything that could stand for values against `base`.
    pub fn code_wild(
        &self,
        kinds: ChangeKinds,
        base: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let floats = self.bins.floats();
        let one_in = [1, 2, 20][random.below(3)];
        let words = floats.words(base).into_iter();
        let changes: Vec<Change> = words
            .map(|b| {
                let coded = (random.below(one_in) == 0).then(|| self.bins.wild(b, random));
                (b, coded.map(|coded| (coded, coded.symbol != 0 || random.below(2) == 0)))
            })
            .collect();
        let value = |&(b, coded): &Change| coded.map_or(b, |(coded, _)| self.bins.value(coded, b));
        let tail = random.bytes(base.len() % floats.width());
        let raw = [floats.bytes(changes.iter().map(value)), tail.clone()].concat();
        let block = self.block(kinds, &changes, &tail, shared, random);
        Case { raw, base: Some(base.to_vec()), ..block }
    }

    fn block(
        &self,
        kinds: ChangeKinds,
        changes: &[Change],
        tail: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let segments: Vec<&[Change]> = changes.chunks(1 << self.bins.rules.segment_log2).collect();
        let streams: Vec<Streams> = segments.iter().map(|segment| self.streams(segment)).collect();
        let recipe = self.recipe(kinds, &streams, random);
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        let segments: Vec<Vec<u8>> = (segments.iter().zip(&streams))
            .map(|(segment, streams)| self.segment(&recipe, segment, streams))
            .collect();
        let name = format!("{self:?} {kinds:?}");
        self.bins.floats().block(name, bytes, &segments, (changes.len(), tail), shared)
    }

    /// The recipe with coders that can express all of the segments.
    fn recipe(&self, kinds: ChangeKinds, streams: &[Streams], random: &mut Random) -> ChangeRecipe {
        let mut kinds_of_flags = kinds.flags.iter().cycle();
        let mut contexts = |bounds: &Vec<u8>, flags: fn(&Streams) -> &Vec<Vec<u8>>| {
            let coders = (0..=bounds.len()).map(|i| {
                let parts: Vec<&[u8]> = streams.iter().map(|own| &flags(own)[i][..]).collect();
                kinds_of_flags.next().expect("a kind").fit(&parts, random)
            });
            FlagContexts { bounds: bounds.clone(), coders: coders.collect() }
        };
        let changed = contexts(&self.changed, |own| &own.changed);
        let uncommon = self.uncommon.as_ref().map(|bounds| contexts(bounds, |own| &own.uncommon));
        let symbols: Vec<&[u8]> = streams.iter().map(|own| &own.symbols[..]).collect();
        let coder = kinds.symbols.fit(&symbols, random);
        let (rules, has_lengths) = (self.bins.rules.clone(), self.has_lengths);
        ChangeRecipe { rules, coder, has_lengths, changed, uncommon }
    }

    /// A segment (section 4.5).
    fn segment(&self, recipe: &ChangeRecipe, changes: &[Change], streams: &Streams) -> Vec<u8> {
        let coded: Vec<Coded> = changes.iter().filter_map(|(_, c)| Some(c.as_ref()?.0)).collect();
        let mut out = Vec::new();
        self.append_flags(&recipe.changed, &streams.changed, &mut out);
        out.extend(self.bins.listed(&coded));
        if let Some(contexts) = &recipe.uncommon {
            self.append_flags(contexts, &streams.uncommon, &mut out);
        }
        append_stream(&recipe.coder, &streams.symbols, &mut out);
        out.extend(payloads(&coded));
        out
    }

    fn append_flags(&self, contexts: &FlagContexts, flags: &[Vec<u8>], out: &mut Vec<u8>) {
        for (coder, flags) in contexts.coders.iter().zip(flags) {
            let mut stream = Vec::new();
            append_stream(coder, flags, &mut stream);
            if self.has_lengths {
                varint::write(out, stream.len() as u64);
            }
            out.extend(stream);
        }
    }
}

/// A random recipe by changes for `n` values against a base.
pub fn random_change_case(n: usize, random: &mut Random) -> Case {
    let (mut bins, mut base) = random_shape(n, random);
    bins.all_differ = true;
    let width = bins.rules.width();
    let tail = random.below(width);
    base.extend(random.bytes(tail));
    let changed = random_bounds([1, 2, 5, 8][random.below(4)], random);
    let uncommon = match [0, 1, 2, 5, 8][random.below(5)] {
        0 => None,
        count => Some(random_bounds(count, random)),
    };
    let mut shape = ChangeShape { bins, has_lengths: random.below(2) == 0, changed, uncommon };
    let flags: Vec<CoderKind> = (0..=random.below(8)).map(|_| CoderKind::any(random)).collect();
    let kinds = ChangeKinds { flags: &flags, symbols: CoderKind::any(random) };
    let shared = random.below(3) == 0;
    let raw = match random.below(6) {
        0 | 1 => return shape.code_wild(kinds, &base, shared, random),
        // Nothing, or the same everywhere: what a coder of one byte can express.
        2 => {
            shape.bins.untidy = false;
            match random.below(2) {
                0 => base.clone(),
                _ => base.chunks(width).flat_map(flipped).collect(),
            }
        }
        _ => some_near(&base, width, random),
    };
    shape.code(kinds, &raw, &base, shared, random)
}

/// A value with another sign.
fn flipped(value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    if let Some(last) = value.last_mut() {
        *last ^= 0x80;
    }
    value
}

/// Values of which many are those of the base, and others near by or far away.
fn some_near(base: &[u8], width: usize, random: &mut Random) -> Vec<u8> {
    let mut values = values_near(base, width, random);
    let of_ten = [0, 5, 9][random.below(3)];
    for (value, base) in values.chunks_exact_mut(width).zip(base.chunks_exact(width)) {
        if random.below(10) < of_ten {
            value.copy_from_slice(base);
        }
    }
    values
}

/// What a recipe by changes uses, and the block of `case`, of which `body` is what follows it.
pub fn features(recipe: &ChangeRecipe, case: &Case, body: &mut Reader) -> Vec<String> {
    let width = recipe.width();
    let mut seen = vec!["changes".to_string(), format!("changes width {width}")];
    let mut note = |is: bool, name: &str| seen.extend(is.then(|| format!("changes {name}")));
    note(recipe.rules.raw_bytes > 0, "raw bytes");
    note(recipe.rules.is_integer, "integers");
    note(recipe.rules.raw_bytes == 0, "without zero");
    note(recipe.rules.bins.iter().any(|bin| bin.has_flip_bit), "flip bit");
    note(!recipe.rules.rows.is_empty(), "rows");
    note(recipe.has_lengths, "lengths");
    note(!recipe.has_lengths, "no lengths");
    note(recipe.changed.bounds.is_empty(), "one context");
    note(recipe.changed.coders.len() == 8, "most contexts");
    let uncommon = recipe.uncommon.as_ref().map_or(&[][..], |contexts| &contexts.coders);
    note(uncommon.is_empty(), "no uncommon");
    note(uncommon.len() == 1, "one uncommon");
    note(uncommon.len() == 8, "most uncommon");
    note(first_exceptions(recipe, case.raw.len(), body) > 0, "exceptions");
    if let Some(base) = case.base.as_ref().filter(|base| base.len() >= 8 * width) {
        let pairs = || base.chunks_exact(width).zip(case.raw.chunks_exact(width));
        note(pairs().all(|(a, b)| a == b), "nowhere");
        note(pairs().all(|(a, b)| a != b), "everywhere");
    }
    let places = [
        ("changed flags", &recipe.changed.coders[..]),
        ("uncommon flags", uncommon),
        ("changes symbols", std::slice::from_ref(&recipe.coder)),
    ];
    for (place, coders) in places {
        seen.extend(coders.iter().map(|coder| format!("{place} {}", coder.name())));
        coders.iter().for_each(|coder| coders::apart_features(coder, 1, &mut seen));
    }
    seen
}

/// How many exceptions the first segment has, if there is one and they can be found without
/// decoding what is before them.
fn first_exceptions(recipe: &ChangeRecipe, raw_len: usize, body: &mut Reader) -> u64 {
    let n = raw_len / recipe.width();
    if n == 0 || !recipe.has_lengths || recipe.rules.raw_bytes > 0 {
        return 0;
    }
    let before = raw_len % recipe.width() + 3 * n.div_ceil(1 << recipe.rules.segment_log2);
    body.take(before, "tail and index").expect("a valid body");
    for _ in &recipe.changed.coders {
        let len = body.varint("length of flags").expect("a valid segment");
        body.take(len as usize, "flags").expect("a valid segment");
    }
    body.varint("number of exceptions").expect("a valid segment")
}

/// The features of recipes by changes that a set of cases must have.
pub fn all_features() -> Vec<String> {
    let names = [
        "raw bytes",
        "integers",
        "without zero",
        "flip bit",
        "rows",
        "lengths",
        "no lengths",
        "one context",
        "most contexts",
        "no uncommon",
        "one uncommon",
        "most uncommon",
        "exceptions",
        "nowhere",
        "everywhere",
    ];
    let mut all = vec!["changes".to_string()];
    all.extend(names.map(|name| format!("changes {name}")));
    all.extend([1, 2, 4, 8].map(|width| format!("changes width {width}")));
    all
}
