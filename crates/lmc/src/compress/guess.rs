//! Guesses the element type of bytes that nothing is known about: the type that codes a sample of
//! them smallest.

use lmc_codec::{Block, Dtype, Encoder, Level, Plan, TensorSpec};

/// Bytes of the sample, in pieces spread over the span.
const SAMPLE_LEN: usize = 1 << 17;
const PIECE_LEN: usize = 1 << 13;
/// The types to try, plainest first: a later one must save at least a hundredth.
const CANDIDATES: [Dtype; 5] = [Dtype::Bytes, Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64];

/// The type that codes `raw` best.
pub(crate) fn dtype(encoder: &mut Encoder, level: Level, raw: &[u8]) -> Dtype {
    let sample = sample(raw);
    let mut best = (Dtype::Bytes, usize::MAX);
    let mut out = Vec::new();
    for dtype in CANDIDATES {
        out.clear();
        let spec = TensorSpec { dtype, row_len: 0 };
        let plan = Plan::new(&spec, level.min(Level::Default), Block::alone(&[]));
        encoder.encode_block(&plan, 0, Block::alone(&sample), &mut out);
        if out.len() < best.1 - best.1 / 100 {
            best = (dtype, out.len());
        }
    }
    best.0
}

/// Pieces of `raw`. Each starts at a multiple of its length, so that words stay whole.
fn sample(raw: &[u8]) -> Vec<u8> {
    let pieces = raw.len() / PIECE_LEN;
    let wanted = SAMPLE_LEN / PIECE_LEN;
    if pieces <= wanted {
        return raw.to_vec();
    }
    let piece = |i: usize| &raw[pieces * i / wanted * PIECE_LEN..][..PIECE_LEN];
    (0..wanted).flat_map(piece).copied().collect()
}
