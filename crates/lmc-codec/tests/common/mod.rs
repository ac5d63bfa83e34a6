//! A tensor coded and decoded as a container would do it.

pub mod hostile;
pub mod recipes;

use lmc_codec::{Block, Decoder, Dtype, Encoder, Isa, Level, Plan, SharedRecipe, TensorSpec};
use lmc_testkit::data::{self, Kind};

pub const LEVELS: [Level; 4] = [Level::Fast, Level::Default, Level::Max, Level::Paper];

/// A coded tensor: the shared recipe and each block with its original bytes.
pub struct Coded {
    pub shared: Vec<u8>,
    pub blocks: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Coded {
    pub fn shared_recipe(&self) -> Option<SharedRecipe> {
        (!self.shared.is_empty()).then(|| SharedRecipe::parse(&self.shared).expect("own recipe"))
    }
}

/// Codes `tensor` in blocks of `block_len` bytes, or of the plan's length.
pub fn encode(
    isa: Isa,
    spec: &TensorSpec,
    level: Level,
    tensor: &[u8],
    block_len: Option<usize>,
) -> Coded {
    let plan = Plan::with_isa(isa, spec, level, Block::alone(tensor));
    let mut encoder = Encoder::with_isa(isa);
    let block_len = block_len.unwrap_or(plan.block_len());
    let mut blocks = Vec::new();
    for (i, bytes) in tensor.chunks(block_len).enumerate() {
        let mut block = Vec::new();
        let first_value = (i * block_len / spec.dtype.width()) as u64;
        encoder.encode_block(&plan, first_value, Block::alone(bytes), &mut block);
        blocks.push((block, bytes.to_vec()));
    }
    Coded { shared: plan.shared_recipe().to_vec(), blocks }
}

/// Decodes every block with `isa` and compares.
pub fn check(isa: Isa, coded: &Coded, what: &str) {
    let shared = coded.shared_recipe();
    let mut decoder = Decoder::with_isa(isa);
    for (i, (block, original)) in coded.blocks.iter().enumerate() {
        for fill in [0, 0xff] {
            let mut back = vec![fill; original.len()];
            if let Err(error) = decoder.decode_block(block, shared.as_ref(), None, &mut back) {
                panic!("{what}, block {i}: {error}");
            }
            assert!(back == *original, "{what}, block {i}: other bytes came back");
        }
        assert!(block.len() <= original.len() + 5, "{what}, block {i} grew to {}", block.len());
    }
}

/// Whether the words of a type are floats, for the data makers.
pub fn is_float(dtype: Dtype) -> bool {
    dtype.float_fields().is_some()
}

/// `n` words that look like `kind` in this type.
pub fn tensor(dtype: Dtype, kind: Kind, n: usize, seed: u64) -> Vec<u8> {
    data::words(kind, dtype.width(), is_float(dtype), n, seed)
}
