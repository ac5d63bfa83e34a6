//! What is decoded is what was encoded, for every type, level, kind of data and size.

use crate::common::{LEVELS, check, encode, tensor};
use lmc_codec::{Decoder, Dtype, Isa, Level, TensorSpec};
use lmc_testkit::data::{Kind, Random};
use proptest::prelude::*;

/// All types, levels and kinds, at sizes around the borders of vectors and segments.
#[test]
fn every_type_level_and_kind() {
    for dtype in Dtype::ALL {
        for kind in Kind::ALL {
            for n in [1, 2, 7, 63, 64, 65, 1000, 20_000] {
                let bytes = tensor(dtype, kind, n, n as u64);
                for level in LEVELS {
                    let spec = TensorSpec { dtype, row_len: 48 };
                    let coded = encode(Isa::best(), &spec, level, &bytes, None);
                    check(Isa::best(), &coded, &format!("{dtype:?} {kind:?} {level:?} {n}"));
                }
            }
        }
    }
}

/// Tensors of several blocks share a recipe, and blocks that do not start at a row come back too.
#[test]
fn tensors_of_several_blocks() {
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64, Dtype::F16, Dtype::U8, Dtype::I32] {
        for kind in Kind::ALL {
            let bytes = tensor(dtype, kind, 300_001, 7);
            for level in LEVELS {
                let spec = TensorSpec { dtype, row_len: 48 };
                let coded = encode(Isa::best(), &spec, level, &bytes, None);
                check(Isa::best(), &coded, &format!("{dtype:?} {kind:?} {level:?}"));
            }
        }
    }
}

/// A row whose length is unknown, one, or longer than the tensor changes nothing but the size.
#[test]
fn any_row_length() {
    let bytes = tensor(Dtype::F32, Kind::Scaled, 150_000, 3);
    for row_len in [0, 1, 7, 8, 47, 48, 49, 150_000, 1 << 40] {
        for level in LEVELS {
            let spec = TensorSpec { dtype: Dtype::F32, row_len };
            let coded = encode(Isa::best(), &spec, level, &bytes, None);
            check(Isa::best(), &coded, &format!("rows of {row_len} at {level:?}"));
        }
    }
}

/// Bytes that are not a whole number of values come back, as does nothing at all.
#[test]
fn odd_sizes() {
    for dtype in Dtype::ALL {
        let bytes = tensor(dtype, Kind::Weights, 5000, 9);
        for cut in 0..9 {
            for level in LEVELS {
                let spec = TensorSpec { dtype, row_len: 10 };
                for part in [&bytes[..bytes.len() - cut], &bytes[..cut]] {
                    let coded = encode(Isa::best(), &spec, level, part, Some(part.len().max(1)));
                    check(Isa::best(), &coded, &format!("{dtype:?} less {cut} bytes, {level:?}"));
                }
            }
        }
    }
}

/// A tensor that changes its nature half way is still coded well, and comes back.
#[test]
fn tensors_that_change() {
    let mut bytes = tensor(Dtype::Bf16, Kind::Weights, 400_000, 1);
    for kind in Kind::ALL {
        bytes.extend(tensor(Dtype::Bf16, kind, 150_000, 2));
    }
    for level in LEVELS {
        let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 100 };
        let coded = encode(Isa::best(), &spec, level, &bytes, None);
        check(Isa::best(), &coded, &format!("{level:?}"));
        let size: usize = coded.blocks.iter().map(|(block, _)| block.len()).sum();
        assert!(size < bytes.len() * 3 / 4, "{level:?} took {size} of {}", bytes.len());
    }
}

/// Any range of a block can be decoded alone and equals that part of the whole.
#[test]
fn ranges() {
    let mut random = Random::new(11);
    for kind in [Kind::Weights, Kind::Scaled, Kind::Sparse, Kind::Noise, Kind::Constant] {
        for level in LEVELS {
            let bytes = tensor(Dtype::F32, kind, 140_001, 5);
            let spec = TensorSpec { dtype: Dtype::F32, row_len: 48 };
            let coded = encode(Isa::best(), &spec, level, &bytes, None);
            let shared = coded.shared_recipe();
            let mut decoder = Decoder::new();
            for (block, original) in &coded.blocks {
                for _ in 0..20 {
                    let start = random.below(original.len() + 1);
                    let end = start + random.below(original.len() - start + 1);
                    let mut part = vec![0x55; end - start];
                    let (shared, range) = (shared.as_ref(), start..end);
                    let done = decoder.decode_range(block, shared, None, range, &mut part);
                    done.expect("a valid range");
                    assert!(part == original[start..end], "{kind:?} {level:?} {start}..{end}");
                }
            }
        }
    }
}

/// Weights cost what their entropy says: a level that silently stops compressing fails here.
#[test]
fn weights_get_smaller() {
    let bytes = tensor(Dtype::Bf16, Kind::Weights, 500_000, 21);
    let limits =
        [(Level::Fast, 10.70), (Level::Default, 10.66), (Level::Max, 10.60), (Level::Paper, 11.0)];
    for (level, most) in limits {
        let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 500 };
        let coded = encode(Isa::best(), &spec, level, &bytes, None);
        let size: usize = coded.blocks.iter().map(|(block, _)| block.len()).sum();
        let bits = (size + coded.shared.len()) as f64 * 8.0 / 500_000.0;
        assert!(bits <= most, "{level:?} takes {bits} bits a weight, {most} expected");
    }
}

/// Widened values, zeros, stretches and scaled matrices are noticed.
#[test]
fn structure_is_found() {
    let bits = |dtype: Dtype, kind| {
        let bytes = tensor(dtype, kind, 200_000, 4);
        let spec = TensorSpec { dtype, row_len: 48 };
        let coded = encode(Isa::best(), &spec, Level::Default, &bytes, None);
        let size: usize = coded.blocks.iter().map(|(block, _)| block.len()).sum();
        size as f64 * 8.0 / 200_000.0
    };
    assert!(bits(Dtype::F32, Kind::Widened) < 11.0);
    assert!(bits(Dtype::F32, Kind::Constant) < 0.01);
    assert!(bits(Dtype::F32, Kind::Stretches) < 1.0);
    assert!(bits(Dtype::F32, Kind::Sparse) < 3.5);
    assert!(bits(Dtype::F32, Kind::Scaled) < 24.0);
    assert!(bits(Dtype::I64, Kind::Weights) < 10.0);
    assert!(bits(Dtype::Bf16, Kind::Noise) < 16.01);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Arbitrary bytes cut into arbitrary blocks come back, for any type and level.
    #[test]
    fn arbitrary_bytes(
        dtype in 0..Dtype::ALL.len(),
        level in 0..LEVELS.len(),
        row_len in 0_u64..70,
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        repeat in 1_usize..40,
        block_len in 1_usize..20_000,
    ) {
        let spec = TensorSpec { dtype: Dtype::ALL[dtype], row_len };
        let tensor = bytes.repeat(repeat);
        let block_len = block_len.next_multiple_of(spec.dtype.width());
        let coded = encode(Isa::best(), &spec, LEVELS[level], &tensor, Some(block_len));
        check(Isa::best(), &coded, "arbitrary bytes");
    }
}
