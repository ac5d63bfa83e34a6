//! Encodes bytes to the pieces of a span, with their checksums.

use super::CodedSpan;
use crate::Reference;
use lmc_codec::{Block, Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};
use lmc_format::limits::{BLOCK_LOG2_MIN, CODED_BLOCK_LEN_MAX};
use lmc_format::{
    AnyRecipe, BlockKind, BlockPrefix, Error, ErrorKind, Hash, Piece, Reader, Result, Span,
    ZstdBody, hash, varint,
};

/// How many ordinary blocks are joined into one where hardly anything differs from the base: there,
/// a block costs more in the index than it saves by being short.
const SPARSE_BLOCKS: usize = 4;
/// In a sample of this many words of 8 bytes, fewer than one in `SPARSE_SHARE` differs there.
const SPARSE_SAMPLE: usize = 1 << 12;
const SPARSE_SHARE: usize = 8;

/// Bytes of the sample by which two plans are compared, and the least part of a span that it is.
const SAMPLE_LEN: usize = 1 << 17;
const SAMPLE_SHARE: usize = 16;
/// A plan is clearly better if it makes a sample smaller by one part in this many.
const CLEAR_SHARE: usize = 100;

/// Encodes spans; one for each thread.
#[derive(Debug)]
pub(crate) struct SpanEncoder {
    level: Level,
    verify: bool,
    encoder: Encoder,
    decoder: Decoder,
    back: Vec<u8>,
    /// For a second coding of a span.
    other: Vec<u8>,
}

/// What a span is coded from.
struct Job<'a> {
    spec: &'a TensorSpec,
    raw: &'a [u8],
    base: Option<(Reference, &'a [u8])>,
    plan: &'a Plan,
}

/// A coded block, and what it is decoded with and to.
#[derive(Clone, Copy)]
struct CodedBlock<'a> {
    coded: &'a [u8],
    shared: Option<&'a SharedRecipe>,
    base: Option<&'a [u8]>,
    raw: &'a [u8],
}

impl Default for SpanEncoder {
    fn default() -> Self {
        Self::new(Level::Default, true)
    }
}

impl SpanEncoder {
    pub(crate) fn new(level: Level, verify: bool) -> Self {
        let (encoder, decoder) = (Encoder::new(), Decoder::new());
        Self { level, verify, encoder, decoder, back: Vec::new(), other: Vec::new() }
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
        let tensor = Block { bytes: raw, base: base.map(|(_, base)| base) };
        let plan = Plan::new(spec, self.level, tensor);
        let mut job = Job { spec, raw, base, plan: &plan };
        let clear = self.clear_choice(&job);
        if let Some(plan) = clear {
            job.plan = plan;
        }
        if clear.is_some() || plan.cheaper().is_none() {
            let verify = self.verify;
            let coded = self.encode_by(&job, bytes, u64::MAX, |own, block| {
                if verify {
                    own.check(block)?;
                    seen(&own.back);
                } else {
                    seen(block.raw);
                }
                Ok(())
            })?;
            return coded.ok_or_else(too_long);
        }
        // What is seen must be what is stored, so nothing is seen before that is known.
        let mut best = self.encode_by(&job, bytes, u64::MAX, |_, _| Ok(()))?;
        while let Some(cheaper) = job.plan.cheaper() {
            job.plan = cheaper;
            let limit = best.as_ref().map_or(u64::MAX, stored_len);
            bytes = std::mem::take(&mut self.other);
            if let Some(coded) = self.encode_by(&job, bytes, limit, |_, _| Ok(()))?
                && let Some(larger) = best.replace(coded)
            {
                self.other = larger.bytes;
            }
        }
        let best = best.ok_or_else(too_long)?;
        self.see_blocks(&best, &job, seen)?;
        Ok(best)
    }

    /// The plan that codes a sample of a span so much smaller than the cheaper one, or the other
    /// way round, that the whole span need not be coded by both. The highest level has the time.
    fn clear_choice<'p>(&mut self, job: &Job<'p>) -> Option<&'p Plan> {
        let cheaper = job.plan.cheaper().filter(|_| self.level == Level::Default)?;
        let width = job.spec.dtype.width();
        let len = (job.raw.len() / SAMPLE_SHARE).min(SAMPLE_LEN) / width * width;
        let place = job.raw.len() / 2 / width * width;
        let sample = Block {
            bytes: &job.raw[place..][..len],
            base: job.base.map(|(_, base)| &base[place..][..len]),
        };
        let mut coded_len = |plan: &Plan| {
            self.other.clear();
            self.encoder.encode_block(plan, (place / width) as u64, sample, &mut self.other);
            self.other.len()
        };
        let (own, other) = (coded_len(job.plan), coded_len(cheaper));
        let is_clear = own.abs_diff(other) > own.min(other) / CLEAR_SHARE;
        is_clear.then_some(if own < other { job.plan } else { cheaper })
    }

    /// Codes a span by a plan; None if that takes `limit` bytes or more. `done` gets each block.
    fn encode_by(
        &mut self,
        job: &Job,
        mut bytes: Vec<u8>,
        limit: u64,
        mut done: impl FnMut(&mut Self, CodedBlock) -> Result<()>,
    ) -> Result<Option<CodedSpan>> {
        let Job { spec, raw, base, plan } = *job;
        bytes.clear();
        let recipe = plan.shared_recipe();
        bytes.extend_from_slice(recipe);
        let shared = match recipe {
            [] => None,
            _ if self.verify || base.is_some() => Some(SharedRecipe::parse(recipe)?),
            _ => None,
        };
        let block_len = match base {
            Some((_, base)) if self.level != Level::Paper && hardly_differs(raw, base) => {
                (SPARSE_BLOCKS * plan.block_len()).min(CODED_BLOCK_LEN_MAX)
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
            let first_value = (place / spec.dtype.width()) as u64;
            let own_base = base.map(|(_, base)| &base[place..][..block.len()]);
            let own = Block { bytes: block, base: own_base };
            self.encoder.encode_block(plan, first_value, own, &mut bytes);
            place += block.len();
            let coded = &bytes[start..];
            let shared = shared.as_ref();
            if let (Some((reference, _)), None) = (base, span.reference)
                && needs_base(coded, shared)?
            {
                span.reference = Some(reference);
            }
            done(self, CodedBlock { coded, shared, base: own_base, raw: block })?;
            span.blocks.push(piece(&bytes[start..]));
            if bytes.len() as u64 >= limit {
                self.other = bytes;
                return Ok(None);
            }
        }
        let coded = CodedSpan { bytes, span };
        if stored_len(&coded) >= limit {
            self.other = coded.bytes;
            return Ok(None);
        }
        Ok(Some(coded))
    }

    /// Passes the blocks of a coded span to `seen`.
    fn see_blocks(
        &mut self,
        coded: &CodedSpan,
        job: &Job,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let CodedSpan { bytes, span } = coded;
        let recipe_len = span.recipe.map_or(0, |piece| piece.len) as usize;
        let (recipe, mut rest) = bytes.split_at(recipe_len);
        let shared = if recipe.is_empty() { None } else { Some(SharedRecipe::parse(recipe)?) };
        let mut place = 0;
        for (piece, raw) in span.blocks.iter().zip(job.raw.chunks(1 << span.block_log2)) {
            let (coded, after) = rest.split_at(piece.len as usize);
            rest = after;
            let base = job.base.map(|(_, base)| &base[place..][..raw.len()]);
            place += raw.len();
            if self.verify {
                self.check(CodedBlock { coded, shared: shared.as_ref(), base, raw })?;
                seen(&self.back);
            } else {
                seen(raw);
            }
        }
        Ok(())
    }

    /// Fails unless a block decodes to its original bytes.
    fn check(&mut self, block: CodedBlock) -> Result<()> {
        let CodedBlock { coded, shared, base, raw } = block;
        self.back.resize(raw.len(), 0);
        let decoded = self.decoder.decode_block(coded, shared, base, &mut self.back);
        if decoded.is_ok() && self.back == raw {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            "a coded block does not give its bytes back: the input changed while it was read, or \
             memory or lmc is at fault; nothing was written",
        ))
    }
}

/// The bytes of a coded span and of its entry in the index, as far as they depend on its plan.
fn stored_len(coded: &CodedSpan) -> u64 {
    let CodedSpan { bytes, span } = coded;
    let pieces = span.recipe.iter().chain(&span.blocks);
    let pieces: usize = pieces.map(|piece| varint::len(piece.len) + size_of::<Hash>()).sum();
    let reference = span
        .reference
        .map_or(0, |reference| varint::len(reference.source) + varint::len(reference.start) + 1);
    (bytes.len() + pieces + reference) as u64
}

fn too_long() -> Error {
    Error::new(ErrorKind::LimitExceeded, "a span is longer than any limit")
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
        BlockKind::Zstd => ZstdBody::read_flags(&mut input)?,
        BlockKind::Coded => AnyRecipe::read(&mut input)?.needs_base(),
        BlockKind::Shared => shared.is_some_and(|shared| shared.recipe().needs_base()),
    })
}

pub(super) fn piece(bytes: &[u8]) -> Piece {
    Piece { len: bytes.len() as u64, hash: hash(bytes) }
}
