use super::*;
use crate::Context;
use crate::base::budget::Budget;
use crate::span::encode::piece;
use crate::span::{CodedSpan, SpanEncoder};
use lmc_codec::{Block, Dtype, Encoder, Level, Plan, TensorSpec};
use lmc_format::Conversion;
use lmc_testkit::data::{self, Kind, Random};

const LEVELS: [Level; 4] = [Level::Fast, Level::Default, Level::Max, Level::Paper];
const REFERENCE: Reference = Reference { source: 1, start: 0, conversion: Conversion::None };
const DTYPES: [Dtype; 6] =
    [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64, Dtype::F8E4M3, Dtype::I32];

/// Decodes a span; returns the cost, and how much of its base was in memory at any one time.
fn decode(coded: &CodedSpan, base: &[u8], raw: &[u8]) -> (u64, usize) {
    let (budget, mut decoder) = (Budget::new(0, 0, &Context::default()), SpanDecoder::default());
    let CodedSpan { bytes, span } = coded;
    let part = SpanPart { span, coded: bytes, wanted: 0..span.raw_len };
    let mut out = vec![0; raw.len()];
    let read_base = |_: &Reference, part: Range<u64>, _: &mut Buffer, out: &mut [u8]| {
        out.copy_from_slice(&base[part.start as usize..part.end as usize]);
        Ok(())
    };
    decoder.decode(&part, &mut out, budget.effort(), read_base, |_| ()).unwrap();
    assert!(out == raw);
    (budget.spent(), decoder.base.bytes().len())
}

/// A span of one block, however long it is.
fn one_block(spec: &TensorSpec, level: Level, raw: &[u8], base: &[u8]) -> CodedSpan {
    let plan = Plan::new(spec, level, Block::against(raw, base));
    let mut bytes = plan.shared_recipe().to_vec();
    let recipe = (!bytes.is_empty()).then(|| piece(&bytes));
    let start = bytes.len();
    Encoder::new().encode_block(&plan, 0, Block::against(raw, base), &mut bytes);
    let blocks = vec![piece(&bytes[start..])];
    let (raw_len, reference) = (raw.len() as u64, Some(REFERENCE));
    let span =
        Span { raw_len, dtype: Dtype::Bytes.id(), block_log2: 24, reference, recipe, blocks };
    CodedSpan { bytes, span }
}

/// However long spans and blocks are, only little of a base is in memory at any time, and nothing
/// of it if a span equals its base.
#[test]
fn bases_are_read_in_pieces() {
    let spec = TensorSpec { dtype: Dtype::F32, row_len: 0 };
    let base = data::words(Kind::Weights, 4, true, (1 << 20) - 1000, 3);
    for (level, one_in) in LEVELS.into_iter().flat_map(|level| [(level, 2), (level, 50)]) {
        let raw = moved(&base, 4, one_in, &mut Random::new(4));
        let mut encoder = SpanEncoder::new(level, false);
        let own = Some((REFERENCE, &base[..]));
        let usual = encoder.encode(&spec, &raw, own, Vec::new(), |_| ()).unwrap();
        for coded in [usual, one_block(&spec, level, &raw, &base)] {
            let (_, len) = decode(&coded, &base, &raw);
            assert!((1000..=1 << 20).contains(&len), "{level:?}: {len}");
        }
        let same = encoder.encode(&spec, &base, own, Vec::new(), |_| ()).unwrap();
        assert_eq!(decode(&same, &base, &base).1, 0);
    }
}

/// A block that equals its base is refused if bytes are left over, and so is a coded block that is
/// too long.
#[test]
fn odd_blocks_are_refused() {
    let base = vec![7; 8 << 20];
    let decode = |block: &[u8], raw_len: u64| {
        let (blocks, reference, recipe) = (vec![piece(block)], Some(REFERENCE), None);
        let span =
            Span { raw_len, dtype: Dtype::Bytes.id(), block_log2: 24, reference, recipe, blocks };
        let part = SpanPart { span: &span, coded: block, wanted: 0..raw_len };
        let read_base = |_: &Reference, part: Range<u64>, _: &mut Buffer, out: &mut [u8]| {
            out.copy_from_slice(&base[part.start as usize..part.end as usize]);
            Ok(())
        };
        let (mut out, budget) = (vec![0; raw_len as usize], Budget::new(0, 0, &Context::default()));
        SpanDecoder::default().decode(&part, &mut out, budget.effort(), read_base, |_| ())
    };
    let block = |kind, raw_len: usize| {
        let mut block = Vec::new();
        BlockPrefix { kind, raw_len }.write(&mut block);
        block
    };
    let same = block(BlockKind::Same, base.len());
    decode(&same, base.len() as u64).unwrap();
    let longer = [&same[..], &[1, 2, 3]].concat();
    assert!(decode(&longer, base.len() as u64).is_err());
    let stored = |len: usize| [block(BlockKind::Stored, len), base[..len].to_vec()].concat();
    decode(&stored(1 << 22), 1 << 22).unwrap();
    assert!(decode(&stored((1 << 22) + 1), (1 << 22) + 1).is_err());
}

/// A tensor like `base`, in which one in `one_in` values is slightly different.
fn moved(base: &[u8], width: usize, one_in: usize, random: &mut Random) -> Vec<u8> {
    let mut raw = base.to_vec();
    for low in raw.iter_mut().step_by(width) {
        if random.below(one_in) == 0 {
            *low = low.wrapping_add(random.below(5) as u8);
        }
    }
    raw
}

/// A small tensor can always be restored, whatever it holds: no level makes more tables for it than
/// a span may cost.
#[test]
fn small_spans_cost_little() {
    let mut random = Random::new(1);
    let check = |level, dtype: Dtype, raw: &[u8], base: Option<&[u8]>| {
        let spec = TensorSpec { dtype, row_len: 16 };
        let own = base.map(|base| (REFERENCE, base));
        let mut encoder = SpanEncoder::new(level, false);
        let coded = encoder.encode(&spec, raw, own, Vec::new(), |_| ()).unwrap();
        let (cost, _) = decode(&coded, base.unwrap_or_default(), raw);
        let new = |len, spans| Budget::new(len, spans, &Context::default());
        let free = new(raw.len() as u64, 1).most() - new(0, 0).most();
        let len = raw.len();
        assert!(cost <= free, "{level:?} {dtype:?} {len} bytes: {cost} of {free}");
    };
    for (dtype, kind) in DTYPES.iter().flat_map(|&dtype| Kind::ALL.map(|kind| (dtype, kind))) {
        for log2 in (4..18).step_by(2) {
            let (width, is_float) = (dtype.width(), dtype != Dtype::I32);
            let base = data::words(kind, width, is_float, (1 << log2) / width, log2);
            for level in LEVELS {
                check(level, dtype, &base, None);
                for one_in in [1, 3, 50] {
                    let raw = moved(&base, width, one_in, &mut random);
                    check(level, dtype, &raw, Some(&base));
                }
            }
        }
    }
}
