//! Code that the targets share: how their inputs are cut up, and the checks that hold for any
//! input.
//!
//! A target never knows the right answer. It knows that all instruction sets must give the same
//! one, whatever the buffers held before, and that nothing may panic or read out of bounds.

use arbitrary::{Arbitrary, Unstructured};
use lmc_codec::internals::{
    BinBuffers, BinDecoder, BinEncoder, ChangeBuffers, ChangeDecoder, ChangeEncoder, ClassBuffers,
    ClassDecoder, ClassEncoder, Encoded, Hints, PaletteBuffers, PaletteDecoder, PaletteEncoder,
    PlaneDecoder, PlaneEncoder, Scratch, build_huffman, build_rans, build_tree,
};
use lmc_codec::{BasePart, Decoder, Isa, SharedRecipe};
use lmc_format::{
    AnyRecipe, BinRecipe, BlockKind, BlockPrefix, ChainTable, ChangeRecipe, ClassRecipe, Coder,
    Reader, Result, TreeTable,
};
use std::cell::RefCell;
use std::ops::Range;

/// Blocks that claim more original bytes than this are not decoded: they are legal but slow.
pub const RAW_LEN_MAX: usize = 1 << 15;
/// The bits of a layout that make a recipe a palette.
const PALETTE: u8 = 0xf0;
/// Planes have fewer bytes than this.
pub const PLANE_LEN_MAX: u16 = 4096;

/// Reads the head `T` of an input, and returns the rest unchanged.
///
/// A head of plain integers and arrays is at the front of the input, little-endian, in the order of
/// its fields. This lets `examples/seeds.rs` write inputs.
pub fn cut_head<'a, T: Arbitrary<'a>>(data: &'a [u8]) -> Option<(T, &'a [u8])> {
    let mut input = Unstructured::new(data);
    let head = T::arbitrary(&mut input).ok()?;
    Some((head, input.take_rest()))
}

/// Cuts an input into a shared recipe, with its length in front as a u16, and a block.
pub fn cut_case(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
}

/// The shared recipe of a case: none if it is empty or refused.
pub fn shared_recipe(bytes: &[u8]) -> Option<SharedRecipe> {
    if bytes.is_empty() { None } else { SharedRecipe::parse(bytes).ok() }
}

thread_local! {
    /// Decoders that have seen every input so far, so that their buffers hold old contents.
    static USED: RefCell<Vec<Decoder>> =
        RefCell::new(Isa::available().into_iter().map(Decoder::with_isa).collect());
}

/// A base of `len` bytes for a block, made from its own bytes.
pub fn made_base(block: &[u8], len: usize) -> Vec<u8> {
    block.iter().copied().cycle().take(len).collect()
}

/// Decodes `range` of `block`, or all of it, in every possible way; `None` if it is refused.
pub fn decode_everywhere(
    block: &[u8],
    shared: Option<&SharedRecipe>,
    base: Option<&[u8]>,
    range: Option<Range<usize>>,
) -> Option<Vec<u8>> {
    let len = match &range {
        None => Decoder::raw_len(block).ok()?,
        Some(range) => range.len(),
    };
    let mut answers = Vec::new();
    let mut answer = |decoder: &mut Decoder, fill| {
        // The output starts anywhere in a cache line and ends where the sanitizer watches.
        let front = block.len() % 64;
        let mut buffer = vec![fill; front + len];
        let out = &mut buffer[front..];
        let done = match range.clone() {
            None => decoder.decode_block(block, shared, base, out),
            Some(range) => {
                let base = base.map(|bytes| BasePart { start: 0, bytes });
                decoder.decode_range(block, shared, base, range, out)
            }
        };
        assert!(buffer[..front].iter().all(|&b| b == fill), "bytes before the output changed");
        answers.push(done.is_ok().then(|| buffer.split_off(front)));
    };
    for isa in Isa::available() {
        answer(&mut Decoder::with_isa(isa).streaming(true), 0);
    }
    USED.with_borrow_mut(|used| used.iter_mut().for_each(|decoder| answer(decoder, 0xff)));
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "decoders do not agree");
    answers.pop().flatten()
}

/// Decodes a stream of `n` bytes with every instruction set: the bytes and the length of the
/// stream, or `None` if it is refused.
pub fn decode_plane(coder: &Coder, stream: &[u8], n: usize) -> Option<(Vec<u8>, usize)> {
    let decoder = PlaneDecoder::new(coder);
    let mut answers = Isa::available().into_iter().zip([0, 0x55, 0xff]).map(|(isa, fill)| {
        let mut plane = vec![fill; n];
        let mut input = Reader::new(stream);
        let done = decoder.decode(isa, &mut input, &mut plane, &mut Scratch::default());
        done.is_ok().then(|| (plane, stream.len() - input.rest().len()))
    });
    let first = answers.next().flatten();
    assert!(answers.all(|answer| answer == first), "instruction sets do not agree");
    first
}

/// The stream of `plane`, the same with every instruction set; `None` if it cannot be coded.
pub fn encode_plane(coder: &Coder, plane: &[u8]) -> Option<Vec<u8>> {
    let encoder = PlaneEncoder::new(coder);
    let mut answers = Isa::available().into_iter().map(|isa| {
        let mut out = Vec::new();
        encoder.encode(isa, plane, &mut Scratch::default(), &mut out).ok().map(|()| out)
    });
    let first = answers.next().flatten();
    assert!(answers.all(|answer| answer == first), "instruction sets write other streams");
    first
}

/// Decodes the stream, and checks that an accepted stream is the one that an encoder writes for the
/// bytes.
pub fn check_canonical(coder: &Coder, stream: &[u8], n: usize) {
    if let Some((plane, used)) = decode_plane(coder, stream, n) {
        let again = encode_plane(coder, &plane);
        assert!(again.as_deref() == Some(&stream[..used]), "an encoder writes another stream");
    }
}

/// Checks that `plane` comes back from its stream, if it has one.
pub fn check_roundtrip(coder: &Coder, plane: &[u8]) {
    if let Some(stream) = encode_plane(coder, plane) {
        let back = decode_plane(coder, &stream, plane.len());
        assert!(back == Some((plane.to_vec(), stream.len())), "other bytes came back");
    }
}

/// The head of an input for a recipe that needs a base.
#[derive(Debug, Arbitrary)]
struct OnBaseHead {
    recipe_len: u16,
    base_len: u16,
}

/// Takes an input as a recipe, a base and the body of a block against it. The block is refused or
/// decoded, in whole and in part. `layout` gives the first byte of the recipe that is wanted.
/// `check` gets the recipe with values and their base, which have the same length.
pub fn check_on_base(
    data: &[u8],
    layout: impl Fn(u8) -> u8,
    check: impl Fn(&AnyRecipe, &[u8], &[u8]),
) {
    let Some((head, rest)) = cut_head::<OnBaseHead>(data) else { return };
    let Some((recipe, rest)) = rest.split_at_checked(usize::from(head.recipe_len)) else { return };
    let Some((base, body)) = rest.split_at_checked(usize::from(head.base_len)) else { return };
    let mut recipe = recipe.to_vec();
    if let Some(first) = recipe.first_mut() {
        *first = layout(*first);
    }
    let Ok(shared) = SharedRecipe::parse(&recipe) else { return };
    let recipe = shared.recipe();
    let base = &base[..base.len().min(RAW_LEN_MAX)];
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Shared, raw_len: base.len() }.write(&mut block);
    block.extend_from_slice(body);
    if let Some(whole) = decode_everywhere(&block, Some(&shared), Some(base), None) {
        let range = base.len() / 3..base.len() - base.len() / 4;
        let part = decode_everywhere(&block, Some(&shared), Some(base), Some(range.clone()));
        assert!(part.as_deref() == Some(&whole[range]), "the range differs from the whole");
        check(&recipe, &whole, base);
    }
    let len = body.len().min(base.len());
    check(&recipe, &body[..len], &base[..len]);
}

/// Checks that values come back from the segment of a recipe by classes; see [`check_segment`].
pub fn check_class_roundtrip(recipe: &ClassRecipe, values: &[u8], base: &[u8]) {
    let (encoder, decoder) = (ClassEncoder::new(recipe), ClassDecoder::new(recipe));
    let buffers = RefCell::new(ClassBuffers::default());
    check_segment(
        recipe.width(),
        (values, base),
        |isa, values, base, out| encoder.encode(isa, values, base, &mut buffers.borrow_mut(), out),
        |isa, segment, base, back, hints| {
            decoder.decode(isa, segment, base, &mut buffers.borrow_mut(), back, hints)
        },
    );
}

/// Checks that values come back from the segment of a recipe by bins; see [`check_segment`].
pub fn check_bin_roundtrip(recipe: &BinRecipe, values: &[u8], base: &[u8]) {
    let (encoder, decoder) = (BinEncoder::new(recipe), BinDecoder::new(recipe));
    let buffers = RefCell::new(BinBuffers::default());
    check_segment(
        recipe.rules.width(),
        (values, base),
        |isa, values, base, out| encoder.encode(isa, values, base, &mut buffers.borrow_mut(), out),
        |isa, segment, base, back, hints| {
            decoder.decode(isa, segment, base, &mut buffers.borrow_mut(), back, hints)
        },
    );
}

/// Checks that values come back from the segment of a recipe by changes; see [`check_segment`].
pub fn check_change_roundtrip(recipe: &ChangeRecipe, values: &[u8], base: &[u8]) {
    let (encoder, decoder) = (ChangeEncoder::new(recipe), ChangeDecoder::new(recipe));
    let buffers = RefCell::new(ChangeBuffers::default());
    check_segment(
        recipe.width(),
        (values, base),
        |isa, values, base, out| encoder.encode(isa, values, base, &mut buffers.borrow_mut(), out),
        |isa, segment, base, back, hints| {
            decoder.decode(isa, segment, base, &mut buffers.borrow_mut(), back, hints)
        },
    );
}

/// The head of an input for a palette.
#[derive(Debug, Arbitrary)]
struct PaletteHead {
    recipe_len: u16,
    raw_len: u16,
}

/// Takes an input as a palette and the body of a block. The block is refused or decoded, in whole
/// and in part, and decoded values come back from their segment.
pub fn check_palette(data: &[u8]) {
    let Some((head, rest)) = cut_head::<PaletteHead>(data) else { return };
    let Some((recipe, body)) = rest.split_at_checked(usize::from(head.recipe_len)) else { return };
    let mut recipe = recipe.to_vec();
    if let Some(first) = recipe.first_mut() {
        *first = PALETTE | *first & 3;
    }
    let Ok(shared) = SharedRecipe::parse(&recipe) else { return };
    let AnyRecipe::Palette(recipe) = shared.recipe() else { return };
    let raw_len = usize::from(head.raw_len).min(RAW_LEN_MAX);
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Shared, raw_len }.write(&mut block);
    block.extend_from_slice(body);
    let Some(whole) = decode_everywhere(&block, Some(&shared), None, None) else { return };
    let range = raw_len / 3..raw_len - raw_len / 4;
    let part = decode_everywhere(&block, Some(&shared), None, Some(range.clone()));
    assert!(part.as_deref() == Some(&whole[range]), "the range differs from the whole");
    let Some(encoder) = PaletteEncoder::new(&recipe) else { return };
    let decoder = PaletteDecoder::new(&recipe);
    let buffers = RefCell::new(PaletteBuffers::default());
    check_segment(
        recipe.width(),
        (&whole, &whole),
        |isa, values, _, out| encoder.encode(isa, values, &mut buffers.borrow_mut(), out),
        |isa, segment, _, back, _| decoder.decode(isa, segment, &mut buffers.borrow_mut(), back),
    );
}

/// Checks that values come back from their segment, if they have one, and that every instruction
/// set gives the same. Bytes after the last whole value are ignored.
fn check_segment(
    width: usize,
    (values, base): (&[u8], &[u8]),
    encode: impl Fn(Isa, &[u8], &[u8], &mut Vec<u8>) -> Encoded,
    decode: impl Fn(Isa, &[u8], &[u8], &mut [u8], Hints) -> Result<()>,
) {
    let len = (values.len() - values.len() % width).min(width << 10);
    let (values, base) = (&values[..len], &base[..len]);
    let mut first: Option<Option<Vec<u8>>> = None;
    for (isa, fill) in Isa::available().into_iter().zip([0, 0x55, 0xff]) {
        let mut segment = Vec::new();
        let done = encode(isa, values, base, &mut segment);
        let segment = done.is_ok().then_some(segment);
        if let Some(segment) = &segment {
            for streaming in [false, true] {
                let mut back = vec![fill; len];
                let hints = Hints { streaming, ahead: &[] };
                let done = decode(isa, segment, base, &mut back, hints);
                assert!(done.is_ok() && back == values, "other values came back");
            }
        }
        let expected = first.get_or_insert_with(|| segment.clone());
        assert!(*expected == segment, "instruction sets write other segments");
    }
}

/// The head of an input for a coder with a histogram.
#[derive(Debug, Arbitrary)]
pub struct HistogramHead {
    /// Bytes in the plane, reduced later.
    pub n: u16,
    /// Counts, from which the table is built.
    pub counts: [u8; 256],
}

impl HistogramHead {
    fn histogram(&self) -> [u32; 256] {
        self.counts.map(u32::from)
    }

    /// The Huffman coder of the counts; `None` if fewer than two are not 0.
    pub fn huffman(&self) -> Option<Coder> {
        build_huffman(&self.histogram()).map(|table| Coder::Huffman(Box::new(table)))
    }

    /// The rANS coder of the counts; `None` if fewer than two are not 0.
    pub fn rans(&self) -> Option<Coder> {
        build_rans(&self.histogram()).map(|table| Coder::Rans(Box::new(table)))
    }

    /// The tree coder of the counts, without an escape if the top bit of the length is set; `None`
    /// if fewer than two are not 0.
    pub fn tree(&self) -> Option<Coder> {
        let table = if self.n >> 15 == 1 {
            TreeTable::new(*build_huffman(&self.histogram())?.lengths(), 0).ok()
        } else {
            build_tree(&self.histogram())
        };
        table.map(|table| Coder::Tree(Box::new(table)))
    }
}

/// The head of an input for a chain.
#[derive(Debug, Arbitrary)]
pub struct ChainHead {
    /// Bytes in the plane, reduced later.
    pub n: u16,
    /// Number of levels, reduced later.
    pub levels: u8,
    /// Bit `i` is set when level `i` has two bits.
    pub shape: u16,
    /// As many symbols as a chain can have.
    pub symbols: [u8; 31],
}

impl ChainHead {
    /// The chain; `None` if its levels need more than 31 symbols.
    pub fn coder(&self) -> Option<Coder> {
        let levels = 1 + usize::from(self.levels) % 12;
        let widths: Vec<u8> = (0..levels).map(|i| 1 + (self.shape >> i & 1) as u8).collect();
        let count = widths.iter().map(|&w| (1 << w) - 1).sum();
        let symbols = self.symbols.get(..count)?.to_vec();
        ChainTable::new(widths, symbols).ok().map(Coder::Chain)
    }
}
