//! Blocks with chosen recipes, written the slow way from `docs/format.md`.
//!
//! Nothing of the crate's own encoder is used but the streams of single planes, so that a block
//! can have any recipe that the format allows, also those that the planner would never choose.

pub mod bins;
pub mod changes;
pub mod classes;
mod coders;
pub mod features;
pub mod floats;
pub mod palettes;

pub use coders::CoderKind;
use lmc_codec::Isa;
use lmc_codec::internals::{PlaneEncoder, Scratch};
use lmc_format::{BaseUse, BlockKind, BlockPrefix, Coder, Columns, Recipe, WordMap, varint};
use lmc_testkit::data::{self, Kind, Random};

/// Plane bytes of a wide symbol that is listed as an exception.
const EXCEPTION: u8 = 255;

/// A block, the shared recipe that it needs (empty: none), the base that is given with it, and its
/// original bytes.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub shared: Vec<u8>,
    pub base: Option<Vec<u8>>,
    pub block: Vec<u8>,
    pub raw: Vec<u8>,
}

/// Row and column offsets of a block's values.
#[derive(Clone, Debug)]
pub struct Offsets {
    pub base: u16,
    pub cols: Vec<u8>,
    /// Column of the first value.
    pub first: usize,
    /// One for each row that the block touches, or more.
    pub rows: Vec<u8>,
}

impl Offsets {
    fn of_value(&self, j: usize) -> u64 {
        let place = self.first + j;
        let (row, col) = (place / self.cols.len(), place % self.cols.len());
        u64::from(self.base) + u64::from(self.rows[row]) + u64::from(self.cols[col])
    }
}

/// Everything of a recipe but its coders.
#[derive(Clone, Debug)]
pub struct Shape {
    pub width_log2: u8,
    pub base: BaseUse,
    pub map: WordMap,
    pub symbol_bits: u8,
    pub segment_log2: u8,
    pub bias: u16,
    pub sparse: bool,
    pub offsets: Option<Offsets>,
    /// Writes what only a decoder must take: bits above a plane's own, which it ignores,
    /// exceptions without need, and flags on zero values.
    pub untidy: bool,
}

/// The kinds of a recipe's coders; planes beyond the last take the last.
#[derive(Clone, Debug)]
pub struct Kinds {
    pub planes: Vec<CoderKind>,
    pub flags: CoderKind,
    pub cols: CoderKind,
    pub rows: CoderKind,
}

impl Kinds {
    /// One kind for everything.
    pub fn all(kind: CoderKind) -> Self {
        Self { planes: vec![kind], flags: kind, cols: kind, rows: kind }
    }
}

/// A segment cut into planes.
#[derive(Default)]
struct Segment {
    flags: Vec<u8>,
    planes: Vec<Vec<u8>>,
    exceptions: Vec<u8>,
}

impl Shape {
    /// A shape of the least there is for words of `1 << width_log2` bytes.
    pub fn plain(width_log2: u8, symbol_bits: u8) -> Self {
        Self {
            width_log2,
            base: BaseUse::None,
            map: WordMap::None,
            symbol_bits,
            segment_log2: 10,
            bias: 0,
            sparse: false,
            offsets: None,
            untidy: false,
        }
    }

    fn bits(&self) -> u32 {
        8 << self.width_log2
    }

    /// Bits of each plane, the symbol first (`docs/format.md`, section 3.2).
    fn plane_bits(&self) -> Vec<u32> {
        let rest = self.bits() - u32::from(self.symbol_bits);
        let partial = (!rest.is_multiple_of(8)).then_some(rest % 8);
        let bytes = std::iter::repeat_n(8, rest as usize / 8);
        std::iter::once(u32::from(self.symbol_bits)).chain(partial).chain(bytes).collect()
    }

    /// What stands for values against a base, or with `back` the values that it stands for (section
    /// 3).
    fn on_base(&self, values: &[u8], base: &[u8], back: bool) -> Vec<u8> {
        let width = 1 << self.width_log2;
        let words = values.chunks(width).zip(base.chunks(width)).map(|(x, b)| {
            let (x, b) = (word(x), word(b));
            match self.base {
                BaseUse::None => x,
                BaseUse::Xor => x ^ b,
                BaseUse::Difference if back => x.wrapping_add(b),
                BaseUse::Difference => x.wrapping_sub(b),
            }
        });
        words.flat_map(|word| word.to_le_bytes().into_iter().take(width)).collect()
    }

    /// The mapped word of a value (section 3.1).
    fn mapped(&self, x: u64) -> u64 {
        let bits = self.bits();
        let all = u64::MAX >> (64 - bits);
        match self.map {
            WordMap::None => x,
            WordMap::Rotate => (x << 1 | x >> (bits - 1)) & all,
            WordMap::Zigzag => (x << 1 ^ (x >> (bits - 1)).wrapping_neg()) & all,
        }
    }

    /// Cuts the values `src`, the first of which is value `start` of the block, into planes.
    fn cut(&self, src: &[u8], start: usize, random: &mut Random) -> Segment {
        let mut segment =
            Segment { planes: vec![Vec::new(); self.plane_bits().len()], ..Default::default() };
        let width = 1 << self.width_log2;
        if self.sparse {
            segment.flags.resize((src.len() / width).div_ceil(8), 0);
        }
        for (j, bytes) in src.chunks(width).enumerate() {
            let x = word(bytes);
            let is_flagged = x != 0 || self.untidy && random.below(8) == 0;
            if self.sparse && !is_flagged {
                continue;
            }
            if self.sparse {
                segment.flags[j / 8] |= 1 << (j % 8);
            }
            self.cut_value(x, start + j, &mut segment, random);
        }
        segment
    }

    /// Appends one value's bytes to the planes (sections 3.2 and 3.3).
    fn cut_value(&self, x: u64, j: usize, segment: &mut Segment, random: &mut Random) {
        let word = self.mapped(x);
        let mut shift = self.bits();
        for (i, bits) in self.plane_bits().into_iter().enumerate() {
            shift -= bits;
            let part = word >> shift & (u64::MAX >> (64 - bits));
            let byte = match i {
                0 => self.symbol_byte(part, j, &mut segment.exceptions, random),
                _ => part as u8,
            };
            let above = if self.untidy && bits < 8 { (0x55_u64 << bits) as u8 } else { 0 };
            segment.planes[i].push(byte | above);
        }
    }

    fn symbol_byte(&self, u: u64, j: usize, exceptions: &mut Vec<u8>, random: &mut Random) -> u8 {
        let mask = u64::MAX >> (64 - u32::from(self.symbol_bits));
        let offset = self.offsets.as_ref().map_or(0, |offsets| offsets.of_value(j));
        let v = u.wrapping_sub(offset) & mask;
        if self.symbol_bits <= 8 {
            return v as u8;
        }
        // The untidy window wraps around, which only a decoder says anything about.
        let bias = u64::from(self.bias);
        let place = if self.untidy { v.wrapping_sub(bias) & mask } else { v.wrapping_sub(bias) };
        if place < 255 && !(self.untidy && random.below(16) == 0) {
            return place as u8;
        }
        let above = if self.untidy { !mask } else { 0 };
        exceptions.extend_from_slice(&((v | above) as u16).to_le_bytes());
        EXCEPTION
    }

    /// The block of `raw` with coders of these kinds.
    pub fn code(&self, kinds: &Kinds, raw: &[u8], shared: bool, random: &mut Random) -> Case {
        let width = 1 << self.width_log2;
        let tail = &raw[raw.len() / width * width..];
        self.code_values(kinds, &raw[..raw.len() - tail.len()], tail, shared, random)
    }

    /// The same on a base.
    pub fn code_on(
        &self,
        kinds: &Kinds,
        raw: &[u8],
        base: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let width = 1 << self.width_log2;
        let (values, tail) = raw.split_at(raw.len() / width * width);
        let coded = self.on_base(values, base, false);
        let case = self.code_values(kinds, &coded, tail, shared, random);
        Case { base: Some(base.to_vec()), raw: raw.to_vec(), ..case }
    }

    /// The block of what stands for the values, and the tail, which are taken for its bytes.
    fn code_values(
        &self,
        kinds: &Kinds,
        values: &[u8],
        tail: &[u8],
        shared: bool,
        random: &mut Random,
    ) -> Case {
        let width = 1 << self.width_log2;
        let raw = [values, tail].concat();
        let segment_bytes = width << self.segment_log2;
        let segments: Vec<Segment> = (values.chunks(segment_bytes).enumerate())
            .map(|(i, src)| self.cut(src, i << self.segment_log2, random))
            .collect();
        let recipe = self.recipe(kinds, &segments, random);
        let mut recipe_bytes = Vec::new();
        recipe.write(&mut recipe_bytes);
        if let (Some(columns), Some(offsets)) = (&recipe.columns, &self.offsets) {
            append_stream(&columns.coder, &offsets.cols, &mut recipe_bytes);
        }
        let kind = if shared { BlockKind::Shared } else { BlockKind::Coded };
        let mut block = Vec::new();
        BlockPrefix { kind, raw_len: raw.len() }.write(&mut block);
        if !shared {
            block.extend_from_slice(&recipe_bytes);
            recipe_bytes.clear();
        }
        block.extend_from_slice(tail);
        if let Some(offsets) = &self.offsets {
            varint::write(&mut block, offsets.first as u64);
        }
        append_segments(&recipe, &segments, &mut block);
        self.append_rows(kinds.rows, values.len() / width, &mut block, random);
        let name = format!("{self:?} {kinds:?}");
        Case { name, shared: recipe_bytes, base: None, block, raw }
    }

    /// The recipe with coders that can express all of the segments.
    fn recipe(&self, kinds: &Kinds, segments: &[Segment], random: &mut Random) -> Recipe {
        let last = kinds.planes.last().copied().unwrap_or(CoderKind::Raw);
        let planes = (0..self.plane_bits().len())
            .map(|i| {
                let parts: Vec<&[u8]> = segments.iter().map(|s| &s.planes[i][..]).collect();
                kinds.planes.get(i).unwrap_or(&last).fit(&parts, random)
            })
            .collect();
        let flags: Vec<&[u8]> = segments.iter().map(|s| &s.flags[..]).collect();
        Recipe {
            width_log2: self.width_log2,
            base: self.base,
            map: self.map,
            symbol_bits: self.symbol_bits,
            segment_log2: self.segment_log2,
            bias: self.bias,
            flags: self.sparse.then(|| kinds.flags.fit(&flags, random)),
            planes,
            columns: self.offsets.as_ref().map(|offsets| Columns {
                count: offsets.cols.len() as u32,
                base: offsets.base,
                coder: kinds.cols.fit(&[&offsets.cols], random),
            }),
        }
    }

    /// The field `rows` of the body (section 4).
    fn append_rows(&self, kind: CoderKind, n: usize, out: &mut Vec<u8>, random: &mut Random) {
        let Some(offsets) = &self.offsets else { return };
        let rows = &offsets.rows[..(offsets.first + n).div_ceil(offsets.cols.len())];
        let coder = kind.fit(&[rows], random);
        coder.write(out);
        append_stream(&coder, rows, out);
    }
}

fn append_stream(coder: &Coder, plane: &[u8], out: &mut Vec<u8>) {
    let encoder = PlaneEncoder::new(coder);
    let done = encoder.encode(Isa::best(), plane, &mut Scratch::default(), out);
    assert!(done.is_ok(), "{coder:?} was made for these bytes");
}

/// Appends the index and the segments (sections 4 and 4.2).
fn append_segments(recipe: &Recipe, segments: &[Segment], out: &mut Vec<u8>) {
    let mut index = Vec::new();
    let mut coded = Vec::new();
    for segment in segments {
        let start = coded.len();
        if let Some(coder) = &recipe.flags {
            append_stream(coder, &segment.flags, &mut coded);
        }
        for j in 0..segment.planes[0].len() {
            let raw = recipe.planes.iter().zip(&segment.planes).rev();
            coded.extend(raw.filter(|(c, _)| **c == Coder::Raw).map(|(_, plane)| plane[j]));
        }
        for (i, (coder, plane)) in recipe.planes.iter().zip(&segment.planes).enumerate() {
            if *coder != Coder::Raw {
                append_stream(coder, plane, &mut coded);
            }
            if i == 0 {
                coded.extend_from_slice(&segment.exceptions);
            }
        }
        index.extend_from_slice(&((coded.len() - start) as u32).to_le_bytes()[..3]);
    }
    out.extend_from_slice(&index);
    out.extend_from_slice(&coded);
}

/// The little-endian word of at most 8 bytes.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// A random recipe of any kind for `n` random values.
pub fn any_case(n: usize, random: &mut Random) -> Case {
    match random.below(8) {
        0 => classes::random_class_case(n, random),
        1 => bins::random_bin_case(n, random),
        2 => changes::random_change_case(n, random),
        3 => palettes::random_palette_case(n, random),
        _ => random_case(n, random),
    }
}

/// A random recipe by planes for `n` random values.
pub fn random_case(n: usize, random: &mut Random) -> Case {
    let mut shape = Shape::plain(random.below(4) as u8, 0);
    let bits_max = 16.min(shape.bits() as usize);
    shape.symbol_bits = match random.below(3) {
        0 => 8,
        _ => 1 + random.below(bits_max) as u8,
    };
    shape.map = [WordMap::None, WordMap::Rotate, WordMap::Zigzag][random.below(3)];
    shape.segment_log2 = [10, 10, 10, 11, 12, 18][random.below(6)];
    shape.untidy = random.below(2) == 0;
    shape.base = [BaseUse::None, BaseUse::None, BaseUse::Xor, BaseUse::Difference][random.below(4)];
    let tail_len = random.below(1 << shape.width_log2);
    let values = random_values(shape.width_log2, n, random);
    let tail = random.bytes(tail_len);
    if shape.symbol_bits > 8 {
        shape.bias = random_bias(&shape, &values, random);
    }
    match random.below(3) {
        0 => shape.sparse = true,
        1 => shape.offsets = Some(random_offsets(n, random)),
        _ => {}
    }
    let mut kind = || CoderKind::any(random);
    let mut kinds = Kinds {
        planes: (0..9).map(|_| kind()).collect(),
        flags: kind(),
        cols: kind(),
        rows: kind(),
    };
    // All planes raw but the first one or two is what weights lead to, and has its own kernels.
    let coded = [9, 9, 9, 1, 2][random.below(5)];
    kinds.planes[coded..].fill(CoderKind::Raw);
    let shared = random.below(3) == 0;
    if shape.base == BaseUse::None {
        let case = shape.code_values(&kinds, &values, &tail, shared, random);
        // A base that nothing asks for is ignored.
        let base = (random.below(4) == 0).then(|| random.bytes(case.raw.len()));
        return Case { base, ..case };
    }
    let base = [random_values(shape.width_log2, n, random), random.bytes(tail_len)].concat();
    let raw = [shape.on_base(&values, &base, true), tail].concat();
    shape.code_on(&kinds, &raw, &base, shared, random)
}

/// Values of some kind, often with bits cleared in all of them so that planes are constant.
fn random_values(width_log2: u8, n: usize, random: &mut Random) -> Vec<u8> {
    let width = 1 << width_log2;
    let kind = Kind::ALL[random.below(Kind::ALL.len())];
    let float = random.below(2) == 0;
    let mut raw = data::words(kind, width, float, n, random.next_u64() >> 1);
    if random.below(2) == 0 {
        let keep: [u8; 8] = std::array::from_fn(|_| [0, 0xff, 0x3c][random.below(3)]);
        raw.iter_mut().zip(keep[..width].iter().cycle()).for_each(|(byte, k)| *byte &= k);
    }
    raw
}

/// A bias near the symbol of the first value, or any.
fn random_bias(shape: &Shape, values: &[u8], random: &mut Random) -> u16 {
    let first = word(&values[..values.len().min(1 << shape.width_log2)]);
    let symbol = shape.mapped(first) >> (shape.bits() - u32::from(shape.symbol_bits));
    let bias = if random.below(4) == 0 { random.next_u64() } else { symbol.saturating_sub(100) };
    bias as u16 & (u16::MAX >> (16 - shape.symbol_bits))
}

fn random_offsets(n: usize, random: &mut Random) -> Offsets {
    let count = [1, 2, 7, 48, 64, 1000, n + 1][random.below(7)];
    let first = random.below(count);
    let spread = [1, 4, 20, 256][random.below(4)];
    let mut bytes = |n| (0..n).map(|_| random.below(spread) as u8).collect::<Vec<u8>>();
    let (cols, rows) = (bytes(count), bytes((first + n).div_ceil(count)));
    Offsets { base: random.next_u64() as u16, cols, first, rows }
}
