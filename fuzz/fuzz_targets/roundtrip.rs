//! Any tensor of any type at any level, alone and against a base. All instruction sets write the
//! same blocks, and the tensor comes back.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use lmc_codec::{Block, Dtype, Encoder, Isa, Level, Plan, SharedRecipe, TensorSpec};
use lmc_fuzz::{cut_head, decode_everywhere};
use lmc_testkit::data::{self, Kind, Random};

#[derive(Arbitrary)]
struct Head {
    dtype: u8,
    level: u8,
    row_len: u16,
    kind: u8,
    /// Number of generated values, before the input's own bytes.
    made: u16,
    seed: u8,
    /// Bytes of a block; the tensor is cut into at most a few of them.
    block_len: u16,
    /// Whether the tensor is made so long that its blocks share a recipe: true for 1 in 32.
    long: u8,
    /// How the base is made: none, all noise, or the tensor with one value in this many changed.
    changes: u8,
}

const LEVELS: [Level; 4] = [Level::Fast, Level::Default, Level::Max, Level::Paper];

impl Head {
    fn tensor(&self, dtype: Dtype, bytes: &[u8], long_len: usize) -> Vec<u8> {
        let kind = Kind::ALL[usize::from(self.kind) % Kind::ALL.len()];
        let float = self.kind & 0x80 != 0;
        let made = usize::from(self.made) % 5000;
        let mut tensor = data::words(kind, dtype.width(), float, made, u64::from(self.seed));
        tensor.extend_from_slice(bytes);
        if self.long % 32 == 31 && !tensor.is_empty() {
            tensor = tensor.repeat(long_len / tensor.len() + 1);
        }
        tensor
    }
}

/// A base with the length of `tensor`; None if there should be none.
fn base_of(tensor: &[u8], changes: u8, seed: u8) -> Option<Vec<u8>> {
    let mut random = Random::new(u64::from(seed));
    match changes {
        0..64 => None,
        64..72 => Some(tensor.iter().map(|_| random.next_u64() as u8).collect()),
        _ => {
            let one_in = usize::from(changes) * usize::from(changes) / 512;
            let change = |&byte: &u8| match random.below(one_in + 1) {
                0 => byte.wrapping_add(random.below(5) as u8),
                _ => byte,
            };
            Some(tensor.iter().map(change).collect())
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((head, bytes)) = cut_head::<Head>(data) else { return };
    let dtype = Dtype::ALL[usize::from(head.dtype) % Dtype::ALL.len()];
    let level = LEVELS[usize::from(head.level) % LEVELS.len()];
    let spec = TensorSpec { dtype, row_len: u64::from(head.row_len) };
    let long_len = Plan::new(&spec, level, Block::alone(&[])).block_len();
    let tensor = head.tensor(dtype, bytes, long_len);
    let base = base_of(&tensor, head.changes, head.seed);
    let plan = Plan::new(&spec, level, Block { bytes: &tensor, base: base.as_deref() });
    let recipe = plan.shared_recipe();
    let shared =
        (!recipe.is_empty()).then(|| SharedRecipe::parse(recipe).expect("the plan's own recipe"));
    let block_len = (256 + usize::from(head.block_len)).next_multiple_of(8);
    for (i, original) in tensor.chunks(block_len).enumerate().take(3) {
        let base = base.as_ref().map(|base| &base[i * block_len..][..original.len()]);
        let first_value = (i * block_len / dtype.width()) as u64;
        let blocks = Isa::available().into_iter().map(|isa| {
            let (mut block, mut encoder) = (Vec::new(), Encoder::with_isa(isa));
            let own = Block { bytes: original, base };
            encoder.encode_block(&plan, first_value, own, &mut block);
            block
        });
        let blocks: Vec<Vec<u8>> = blocks.collect();
        assert!(blocks.windows(2).all(|pair| pair[0] == pair[1]), "encoders do not agree");
        let is_plain = level != Level::Paper || base.is_none();
        assert!(!is_plain || blocks[0].len() <= original.len() + 5, "the block grew");
        let back = decode_everywhere(&blocks[0], shared.as_ref(), base, None);
        assert!(back.as_deref() == Some(original), "other bytes came back");
    }
});
