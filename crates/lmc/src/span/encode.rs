//! Encodes bytes to the pieces of a span, with their checksums.

use super::CodedSpan;
use crate::Reference;
use lmc_codec::{Block, Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};
use lmc_format::limits::BLOCK_LOG2_MIN;
use lmc_format::{
    AnyRecipe, BlockKind, BlockPrefix, Error, ErrorKind, Piece, Reader, Result, Span, hash,
};

/// How many ordinary blocks are joined into one where hardly anything differs from the base: there,
/// a block costs more in the index than it saves by being short.
const SPARSE_BLOCKS: usize = 4;
/// In a sample of this many words of 8 bytes, fewer than one in `SPARSE_SHARE` differs there.
const SPARSE_SAMPLE: usize = 1 << 12;
const SPARSE_SHARE: usize = 8;

/// Encodes spans; one for each thread.
#[derive(Debug)]
pub(crate) struct SpanEncoder {
    level: Level,
    verify: bool,
    encoder: Encoder,
    decoder: Decoder,
    back: Vec<u8>,
}

impl Default for SpanEncoder {
    fn default() -> Self {
        Self::new(Level::Default, true)
    }
}

impl SpanEncoder {
    pub(crate) fn new(level: Level, verify: bool) -> Self {
        let (encoder, decoder) = (Encoder::new(), Decoder::new());
        Self { level, verify, encoder, decoder, back: Vec::new() }
    }

    /// Goes on with this level, and verifies or not.
    pub(crate) fn set(&mut self, level: Level, verify: bool) {
        (self.level, self.verify) = (level, verify);
    }

    /// Codes `raw` into `bytes`, replacing its contents. Where that is smaller, it is coded against
    /// `base`, which has as many bytes and is named by `reference`. `seen` gets each block while it
    /// is in the cache. If blocks are verified, it gets the decoded block, so its checksums are
    /// those of the bytes that will be restored, even if somebody writes to the memory of `raw`.
    pub(crate) fn encode(
        &mut self,
        spec: &TensorSpec,
        raw: &[u8],
        base: Option<(Reference, &[u8])>,
        bytes: Vec<u8>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<CodedSpan> {
        match base {
            Some((reference, base)) if base == raw => {
                seen(base);
                Ok(same(spec.dtype, raw, reference, bytes))
            }
            _ => self.encode_blocks(spec, raw, base, bytes, seen),
        }
    }

    fn encode_blocks(
        &mut self,
        spec: &TensorSpec,
        raw: &[u8],
        base: Option<(Reference, &[u8])>,
        mut bytes: Vec<u8>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<CodedSpan> {
        bytes.clear();
        let tensor = Block { bytes: raw, base: base.map(|(_, base)| base) };
        let plan = Plan::new(spec, self.level, tensor);
        let recipe = plan.shared_recipe();
        bytes.extend_from_slice(recipe);
        let shared = match recipe {
            [] => None,
            _ if self.verify || base.is_some() => Some(SharedRecipe::parse(recipe)?),
            _ => None,
        };
        let block_len = match base {
            Some((_, base)) if self.level != Level::Paper && hardly_differs(raw, base) => {
                SPARSE_BLOCKS * plan.block_len()
            }
            _ => plan.block_len(),
        };
        let mut span = Span {
            raw_len: raw.len() as u64,
            dtype: spec.dtype.id(),
            block_log2: block_len.trailing_zeros() as u8,
            reference: None,
            recipe: (!recipe.is_empty()).then(|| piece(recipe)),
            blocks: Vec::with_capacity(raw.len().div_ceil(block_len)),
        };
        let mut place = 0;
        for block in raw.chunks(block_len) {
            let start = bytes.len();
            if !self.verify {
                seen(block);
            }
            let first_value = (place / spec.dtype.width()) as u64;
            let own_base = base.map(|(_, base)| &base[place..][..block.len()]);
            let own = Block { bytes: block, base: own_base };
            self.encoder.encode_block(&plan, first_value, own, &mut bytes);
            place += block.len();
            if self.verify {
                self.check(&bytes[start..], shared.as_ref(), own_base, block)?;
                seen(&self.back);
            }
            if let (Some((reference, _)), None) = (base, span.reference)
                && needs_base(&bytes[start..], shared.as_ref())?
            {
                span.reference = Some(reference);
            }
            span.blocks.push(piece(&bytes[start..]));
        }
        Ok(CodedSpan { bytes, span })
    }

    /// Fails unless `coded` decodes to `block`.
    fn check(
        &mut self,
        coded: &[u8],
        shared: Option<&SharedRecipe>,
        base: Option<&[u8]>,
        block: &[u8],
    ) -> Result<()> {
        self.back.resize(block.len(), 0);
        let decoded = self.decoder.decode_block(coded, shared, base, &mut self.back);
        if decoded.is_ok() && self.back == block {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            "a coded block does not give its bytes back: the input changed while it was read, or \
             memory or lmc is at fault; nothing was written",
        ))
    }
}

/// Whether a span equals its base in all but a few words, judging by a sample of them.
fn hardly_differs(raw: &[u8], base: &[u8]) -> bool {
    let (raw, base) = (raw.as_chunks::<8>().0, base.as_chunks::<8>().0);
    let step = (raw.len() / SPARSE_SAMPLE).max(1);
    let pairs = || raw.iter().step_by(step).zip(base.iter().step_by(step));
    let differing = pairs().filter(|(a, b)| a != b).count();
    differing * SPARSE_SHARE < pairs().count()
}

/// A span that equals its base: one block, however long it is.
fn same(dtype: Dtype, raw: &[u8], reference: Reference, mut bytes: Vec<u8>) -> CodedSpan {
    bytes.clear();
    BlockPrefix { kind: BlockKind::Same, raw_len: raw.len() }.write(&mut bytes);
    let block_log2 = raw.len().next_power_of_two().trailing_zeros() as u8;
    let span = Span {
        raw_len: raw.len() as u64,
        dtype: dtype.id(),
        block_log2: block_log2.max(BLOCK_LOG2_MIN),
        reference: Some(reference),
        recipe: None,
        blocks: vec![piece(&bytes)],
    };
    CodedSpan { bytes, span }
}

/// Whether a block cannot be decoded without its base.
fn needs_base(block: &[u8], shared: Option<&SharedRecipe>) -> Result<bool> {
    let mut input = Reader::new(block);
    Ok(match BlockPrefix::read(&mut input)?.kind {
        BlockKind::Stored | BlockKind::Constant => false,
        BlockKind::Same => true,
        BlockKind::Coded => AnyRecipe::read(&mut input)?.needs_base(),
        BlockKind::Shared => shared.is_some_and(|shared| shared.recipe().needs_base()),
    })
}

pub(super) fn piece(bytes: &[u8]) -> Piece {
    Piece { len: bytes.len() as u64, hash: hash(bytes) }
}
