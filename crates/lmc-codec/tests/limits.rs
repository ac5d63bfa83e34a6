//! Memory and time: what a block claims is checked before anything is paid for it.

use crate::common::hostile::{KIB, MIB, block, chain, decode, decode_bound, level_len, measured};
use crate::common::recipes::any_case;
use lmc_codec::{Decoder, Isa, SharedRecipe};
use lmc_format::limits::{BLOCK_LEN_MAX, COLUMNS_MAX, RECIPE_LEN_MAX, SEGMENT_LOG2_MAX};
use lmc_format::{BaseUse, Coder, Columns, PaletteRecipe, Recipe, WordMap, varint};
use lmc_testkit::data::Random;
use std::time::Duration;

fn recipe(width_log2: u8, symbol_bits: u8, segment_log2: u8, coder: Coder) -> Recipe {
    let mut recipe = Recipe {
        width_log2,
        base: BaseUse::None,
        map: WordMap::None,
        symbol_bits,
        segment_log2,
        bias: 0,
        flags: None,
        planes: Vec::new(),
        columns: None,
    };
    recipe.planes = vec![coder; recipe.plane_count()];
    recipe
}

fn bytes_of(recipe: &Recipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    recipe.write(&mut bytes);
    bytes
}

/// Lengths beyond 2^26 are refused immediately for every kind of block, whatever follows them,
/// by the length alone and by the decoder.
#[test]
fn claimed_lengths_are_limited() {
    let body = bytes_of(&recipe(0, 8, 10, Coder::Constant(7)));
    for kind in 0..4 {
        for raw_len in [BLOCK_LEN_MAX + 1, 1 << 31, 1 << 32, 1 << 40, 1 << 63, u64::MAX] {
            let block = block(kind, raw_len, &body);
            assert!(Decoder::raw_len(&block).is_err(), "{raw_len} bytes are believed");
            let mut out = [0; 64];
            let (done, held, time) =
                measured(|| Decoder::new().decode_block(&block, None, None, &mut out).is_ok());
            assert!(!done, "{raw_len} bytes are decoded");
            assert!(held < KIB && time < Duration::from_secs(1), "{held} bytes in {time:?}");
            let (done, held, _) = measured(|| {
                Decoder::new().decode_range(&block, None, None, 0..64, &mut out).is_ok()
            });
            assert!(!done && held < KIB, "a range of {raw_len} bytes holds {held}");
        }
    }
}

/// A claimed length that is not the buffer's is refused before anything is allocated.
#[test]
fn the_buffer_must_have_the_claimed_length() {
    let body = bytes_of(&recipe(0, 8, SEGMENT_LOG2_MAX, Coder::Constant(7)));
    for kind in 0..4 {
        let block = block(kind, BLOCK_LEN_MAX, &body);
        for len in [0, 1, 64 * KIB] {
            let (done, held, _) = decode(Isa::best(), &block, len);
            assert!(!done && held < KIB, "{held} bytes are held for a buffer of {len}");
        }
    }
}

/// Blocks that need the most working memory for their size stay below the bound at every size
/// and by every instruction set, and decode, so that the bound is known to be reached.
#[test]
fn working_memory_is_bounded_by_the_output() {
    let mut largest = 0.0_f64;
    for raw_len in [0, 1, 1000, 64 * KIB, 256 * KIB, 8 * MIB, BLOCK_LEN_MAX as usize] {
        for (width_log2, symbol_bits) in [(0, 1), (0, 8), (1, 16), (2, 9), (3, 1), (3, 16)] {
            for sparse in [false, true] {
                let block = hungry_block(raw_len, width_log2, symbol_bits, sparse);
                for isa in Isa::available() {
                    let (done, held, _) = decode(isa, &block, raw_len);
                    let what = format!("{raw_len} bytes of width {width_log2}, {symbol_bits} bits");
                    assert!(done, "{what} are refused");
                    assert!(held <= decode_bound(raw_len), "{what} hold {held}, sparse: {sparse}");
                    if raw_len == 256 * KIB {
                        largest = largest.max(held as f64 / raw_len as f64);
                    }
                }
            }
        }
    }
    assert!(largest > 2.0, "no block needs more than {largest}: the bound is too loose");
}

/// A block of values that are not zero but have zero planes, all of them chain-coded.
fn hungry_block(raw_len: usize, width_log2: u8, symbol_bits: u8, sparse: bool) -> Vec<u8> {
    let mut recipe = recipe(width_log2, symbol_bits, SEGMENT_LOG2_MAX, chain());
    let n = raw_len >> width_log2;
    let most = 1 << SEGMENT_LOG2_MAX;
    let lengths: Vec<usize> = (0..n).step_by(most).map(|i| (n - i).min(most)).collect();
    // Every value counts as not zero, which a decoder need not question.
    recipe.flags = sparse.then_some(Coder::Raw);
    let mut body = bytes_of(&recipe);
    body.resize(body.len() + raw_len % (1 << width_log2), 0);
    let flags_len = |n: usize| if sparse { n.div_ceil(8) } else { 0 };
    let segment_len = |n: usize| flags_len(n) + recipe.plane_count() * level_len(n);
    for &n in &lengths {
        body.extend_from_slice(&(segment_len(n) as u32).to_le_bytes()[..3]);
    }
    for n in lengths {
        let flags = body.len();
        body.resize(flags + segment_len(n), 0);
        body[flags..][..flags_len(n)].fill(0xff);
        if sparse && n % 8 != 0 {
            body[flags + n / 8] = 0xff >> (8 - n % 8);
        }
    }
    block(2, raw_len as u64, &body)
}

/// Palettes, with as many words as there can be, hold no more than other blocks do.
#[test]
fn palettes_are_bounded_by_the_output() {
    for raw_len in [0, 1, 1000, 64 * KIB, MIB, 8 * MIB] {
        for width_log2 in 1..4 {
            let (n, most) = (raw_len >> width_log2, 1 << SEGMENT_LOG2_MAX);
            let (words, coder) = ((0..256).collect(), chain());
            let segment_log2 = SEGMENT_LOG2_MAX;
            let mut body = Vec::new();
            PaletteRecipe { width_log2, segment_log2, words, coder }.write(&mut body);
            body.resize(body.len() + raw_len % (1 << width_log2), 0);
            let lengths: Vec<usize> =
                (0..n).step_by(most).map(|i| level_len((n - i).min(most))).collect();
            for &len in &lengths {
                body.extend_from_slice(&(len as u32).to_le_bytes()[..3]);
            }
            body.resize(body.len() + lengths.iter().sum::<usize>(), 0);
            let block = block(2, raw_len as u64, &body);
            for isa in Isa::available() {
                let (done, held, _) = decode(isa, &block, raw_len);
                assert!(done, "{raw_len} bytes of width 2^{width_log2} are refused");
                assert!(held <= decode_bound(raw_len), "{raw_len} of 2^{width_log2} hold {held}");
            }
        }
    }
}

/// A block of `raw_len` bytes, all from constants, with rows of `count` values.
fn rows_block(raw_len: usize, count: u32, segment_log2: u8) -> Vec<u8> {
    let mut recipe = recipe(0, 8, segment_log2, Coder::Constant(7));
    recipe.columns = Some(Columns { count, base: 1, coder: Coder::Constant(2) });
    let mut body = bytes_of(&recipe);
    // The first column, an index of empty segments, then the rows.
    body.push(0);
    body.resize(body.len() + 3 * raw_len.div_ceil(1 << segment_log2), 0);
    body.extend_from_slice(&[1, 3]);
    block(2, raw_len as u64, &body)
}

/// A decoder that is used again for blocks that are a little longer each time needs no more than a
/// new one for the longest.
#[test]
fn growing_blocks_are_bounded() {
    let lengths: Vec<usize> = (0..4).map(|i| 8 * ((1 << SEGMENT_LOG2_MAX) - 3 + i)).collect();
    let blocks: Vec<Vec<u8>> = lengths.iter().map(|&len| hungry_block(len, 3, 1, true)).collect();
    let mut out = vec![0; lengths[3]];
    let (done, held, _) = measured(|| {
        let mut decoder = Decoder::new();
        let mut decode = |(block, len): (&Vec<u8>, &usize)| {
            decoder.decode_block(block, None, None, &mut out[..*len]).is_ok()
        };
        blocks.iter().zip(&lengths).all(&mut decode)
    });
    assert!(done, "a valid block is refused");
    assert!(held <= decode_bound(lengths[3]) - lengths[3], "{held} bytes are held");
}

/// Rows and columns without a coded byte: the most columns there can be, a row for each value,
/// and the most segments. All are legal, so they decode, within the bound.
#[test]
fn offsets_from_nothing_are_bounded() {
    for raw_len in [0, 1000, MIB, BLOCK_LEN_MAX as usize / 4] {
        for count in [1, 1000, COLUMNS_MAX as u32] {
            for segment_log2 in [10, SEGMENT_LOG2_MAX] {
                let block = rows_block(raw_len, count, segment_log2);
                let (done, held, time) = decode(Isa::best(), &block, raw_len);
                let what = format!("{raw_len} bytes in rows of {count}");
                assert!(done, "{what} are refused");
                assert!(held <= decode_bound(raw_len), "{what} hold {held}");
                assert!(time < Duration::from_secs(1), "{what} take {time:?}");
            }
        }
    }
}

/// More columns than there can be, 2^21 to 2^64 - 1, are refused before their bytes are made.
#[test]
fn columns_are_limited() {
    for count in [0, COLUMNS_MAX + 1, 1 << 21, 1 << 32, 1 << 63, u64::MAX] {
        let mut recipe = bytes_of(&recipe(0, 8, 10, Coder::Constant(7)));
        recipe[0] |= 0x20;
        varint::write(&mut recipe, count);
        recipe.extend_from_slice(&[0, 0, 1, 2]);
        let (done, held, _) = measured(|| SharedRecipe::parse(&recipe).is_ok());
        assert!(!done && held < 4 * KIB, "{count} columns hold {held}");
    }
}

/// The segments of 64 MiB, and of a hundred times the bytes, need an index that is not there;
/// a first column, a run or a word count beyond all bounds is refused too.
#[test]
fn counts_without_bytes_are_refused() {
    let with = |recipe: &Recipe, rest: &[u8]| [bytes_of(recipe).as_slice(), rest].concat();
    let mut huge = Vec::new();
    varint::write(&mut huge, u64::MAX);
    let zeros = vec![0; KIB];
    let mut freqs = [0; 256];
    (freqs[0], freqs[1]) = (4095, 1);
    let table = lmc_format::RansTable::new(freqs).expect("frequencies of 4096 in all");
    let rans = Coder::Rans(Box::new(table));
    let mut columns = recipe(0, 8, 10, Coder::Constant(7));
    columns.columns = Some(Columns { count: 1 << 20, base: 1, coder: Coder::Constant(2) });
    let one_segment = |stream: &[u8]| [&[stream.len() as u8, 0, 0], stream].concat();
    let bodies = [
        (BLOCK_LEN_MAX, with(&recipe(0, 8, 10, Coder::Constant(7)), &[])),
        (BLOCK_LEN_MAX, with(&recipe(0, 8, 10, Coder::Constant(7)), &zeros)),
        (BLOCK_LEN_MAX, with(&recipe(0, 8, SEGMENT_LOG2_MAX, Coder::Raw), &[0xff; 192])),
        (BLOCK_LEN_MAX, zeros.clone()),
        (1000, with(&columns, &huge)),
        (1000, with(&recipe(0, 8, 10, Coder::Runs), &one_segment(&huge))),
        (1000, with(&recipe(0, 8, 10, rans), &one_segment(&huge))),
        (1000, with(&recipe(0, 8, 10, chain()), &[0xff, 0xff, 0xff])),
    ];
    for (raw_len, body) in bodies {
        for isa in Isa::available() {
            let (done, held, time) = decode(isa, &block(2, raw_len, &body), raw_len as usize);
            assert!(!done, "{body:?} is decoded");
            assert!(held <= 2 * MIB, "{body:?} holds {held}");
            assert!(time < Duration::from_secs(1), "{body:?} takes {time:?}");
        }
    }
}

/// Inputs of at most 1 KiB that claim at most 64 KiB, changed in every way chance thinks of,
/// never hold more than 2 MiB, of which one is for the most columns there can be.
#[test]
fn small_inputs_need_little() {
    let mut random = Random::new(5);
    for _ in 0..20_000 {
        let size = random.below(200);
        let mut case = any_case(size, &mut random);
        case.block.truncate(KIB);
        for _ in 0..random.below(4) {
            let at = random.below(case.block.len());
            case.block[at] ^= 1 << random.below(8);
        }
        let (parsed, held, _) = measured(|| SharedRecipe::parse(&case.shared).is_ok());
        assert!(held <= 2 * MIB, "a recipe of {} bytes holds {held}", case.shared.len());
        assert!(parsed || case.shared.is_empty(), "{}: a valid recipe is refused", case.name);
        let shared = SharedRecipe::parse(&case.shared).ok();
        let Ok(raw_len) = Decoder::raw_len(&case.block) else { continue };
        if raw_len > 64 * KIB {
            continue;
        }
        let mut out = vec![0; raw_len];
        let base = case.base.as_mut().map(|base| {
            base.resize(raw_len, 0x77);
            &base[..]
        });
        let (_, held, time) = measured(|| {
            Decoder::new().decode_block(&case.block, shared.as_ref(), base, &mut out).is_ok()
        });
        assert!(held <= 2 * MIB, "{}: {held} bytes are held", case.name);
        assert!(time < Duration::from_secs(1), "{}: {time:?}", case.name);
    }
}

/// A range of a few bytes needs the working memory and the bytes of one segment, 6.8 MiB for the
/// largest, or a byte for each row that the block claims, 64 MiB at most, and 3 MiB with them.
#[test]
fn ranges_are_bounded() {
    let raw_len = BLOCK_LEN_MAX as usize;
    let hungry = hungry_block(raw_len, 3, 1, true);
    let many_rows = rows_block(raw_len, 1, SEGMENT_LOG2_MAX);
    for (block, bound) in [(hungry, 7 * MIB), (many_rows, 67 * MIB)] {
        for start in [0, 5, raw_len - 10] {
            let mut out = [0; 10];
            let (done, held, time) = measured(|| {
                Decoder::new().decode_range(&block, None, None, start..start + 10, &mut out).is_ok()
            });
            assert!(done, "the range at {start} is refused");
            assert!(held <= bound, "ten bytes at {start} hold {held}");
            assert!(time < Duration::from_secs(1), "ten bytes at {start} take {time:?}");
        }
    }
}

/// A recipe of more than 2^21 bytes is refused, outside of a block and inside: runs of one byte
/// each make columns that take twice their number.
#[test]
fn recipes_are_limited() {
    let mut recipe = recipe(0, 8, 10, Coder::Constant(7));
    recipe.columns = Some(Columns { count: 1 << 20, base: 0, coder: Coder::Runs });
    let mut bytes = bytes_of(&recipe);
    bytes.extend(std::iter::repeat_n([0, 5], 1 << 20).flatten());
    assert!(bytes.len() > RECIPE_LEN_MAX);
    assert!(SharedRecipe::parse(&bytes).is_err(), "the shared recipe is taken");
    bytes.extend_from_slice(&[0, 1, 0]);
    let block = block(2, 0, &bytes);
    assert!(
        Decoder::new().decode_block(&block, None, None, &mut []).is_err(),
        "the block is taken"
    );
}
