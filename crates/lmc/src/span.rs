//! One span each way: bytes to pieces with their checksums, and back.

use lmc_codec::{Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};
use lmc_format::{Error, ErrorKind, Hash, Piece, Result, Span, dtype, hash};
use std::ops::Range;

/// A span as it was coded: what goes to the body, and what the index says of it.
#[derive(Debug)]
pub(crate) struct CodedSpan {
    pub bytes: Vec<u8>,
    pub span: Span,
}

/// Encodes spans; one for each thread.
#[derive(Debug)]
pub(crate) struct SpanEncoder {
    level: Level,
    verify: bool,
    encoder: Encoder,
    decoder: Decoder,
    back: Vec<u8>,
}

impl SpanEncoder {
    pub(crate) fn new(level: Level, verify: bool) -> Self {
        let (encoder, decoder) = (Encoder::new(), Decoder::new());
        Self { level, verify, encoder, decoder, back: Vec::new() }
    }

    /// The level.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Codes `raw` into `bytes`, whose contents are replaced; `seen` gets each block of `raw` while
    /// it is in the cache.
    pub(crate) fn encode(
        &mut self,
        spec: &TensorSpec,
        raw: &[u8],
        mut bytes: Vec<u8>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<CodedSpan> {
        bytes.clear();
        let plan = Plan::new(spec, self.level, raw);
        let recipe = plan.shared_recipe();
        bytes.extend_from_slice(recipe);
        let shared = match recipe {
            [] => None,
            _ if self.verify => Some(SharedRecipe::parse(recipe)?),
            _ => None,
        };
        let mut span = Span {
            raw_len: raw.len() as u64,
            dtype: dtype_id(spec.dtype),
            block_log2: plan.block_len().trailing_zeros() as u8,
            recipe: (!recipe.is_empty()).then(|| piece(recipe)),
            blocks: Vec::with_capacity(raw.len().div_ceil(plan.block_len())),
        };
        let mut first_value = 0;
        for block in raw.chunks(plan.block_len()) {
            let start = bytes.len();
            seen(block);
            self.encoder.encode_block(&plan, first_value, block, &mut bytes);
            first_value += (block.len() / spec.dtype.width()) as u64;
            if self.verify {
                self.check(&bytes[start..], shared.as_ref(), block)?;
            }
            span.blocks.push(piece(&bytes[start..]));
        }
        Ok(CodedSpan { bytes, span })
    }

    /// Fails unless `coded` decodes to `block`.
    fn check(&mut self, coded: &[u8], shared: Option<&SharedRecipe>, block: &[u8]) -> Result<()> {
        self.back.resize(block.len(), 0);
        let decoded = self.decoder.decode_block(coded, shared, &mut self.back);
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

fn piece(bytes: &[u8]) -> Piece {
    Piece { len: bytes.len() as u64, hash: hash(bytes) }
}

/// Decodes part of a span whose pieces `coded` are in order; all that is read is checked.
///
/// `wanted` is a range of the span's original bytes, `out` as long as that. `coded` starts with the
/// recipe, if there is one, and goes on with the blocks from the one that holds `wanted.start` on.
/// `seen` gets what was decoded, block by block, while it is in the cache.
pub(crate) fn decode(
    decoder: &mut Decoder,
    span: &Span,
    coded: &[u8],
    wanted: Range<u64>,
    out: &mut [u8],
    mut seen: impl FnMut(&[u8]),
) -> Result<()> {
    let mut rest = coded;
    let recipe = match &span.recipe {
        Some(piece) => {
            let bytes = take(&mut rest, piece, "shared recipe")?;
            Some(SharedRecipe::parse(bytes).map_err(|e| e.at("shared recipe"))?)
        }
        None => None,
    };
    let mut out = out;
    for i in blocks_of(span, &wanted) {
        let place = format_args!("block {i}").to_string();
        let block = take(&mut rest, &span.blocks[i], &place)?;
        let bounds = block_bounds(span, i);
        if Decoder::raw_len(block).map_err(|e| e.at(&place))? as u64 != bounds.end - bounds.start {
            return Err(Error::corrupt(format!("{place} has another length than the index says")));
        }
        let part = wanted.start.max(bounds.start)..wanted.end.min(bounds.end);
        let (to, after) = out.split_at_mut((part.end - part.start) as usize);
        out = after;
        let done = if part == bounds {
            decoder.decode_block(block, recipe.as_ref(), to)
        } else {
            let range = (part.start - bounds.start) as usize..(part.end - bounds.start) as usize;
            decoder.decode_range(block, recipe.as_ref(), range, to)
        };
        done.map_err(|e| e.at(&place))?;
        seen(to);
    }
    Ok(())
}

/// The original bytes of block `i`.
pub(crate) fn block_bounds(span: &Span, i: usize) -> Range<u64> {
    let start = (i as u64) << span.block_log2;
    start..span.raw_len.min(start + (1 << span.block_log2))
}

/// The blocks that hold the original bytes `wanted`.
pub(crate) fn blocks_of(span: &Span, wanted: &Range<u64>) -> Range<usize> {
    if wanted.is_empty() {
        return 0..0;
    }
    (wanted.start >> span.block_log2) as usize..((wanted.end - 1) >> span.block_log2) as usize + 1
}

fn take<'a>(rest: &mut &'a [u8], piece: &Piece, what: &str) -> Result<&'a [u8]> {
    let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
    let (bytes, after) = rest
        .split_at_checked(len)
        .ok_or_else(|| Error::truncated(format!("{what} is not all there")))?;
    *rest = after;
    check(bytes, piece.hash, what)?;
    Ok(bytes)
}

/// Fails unless `bytes` have the checksum `expected`.
pub(crate) fn check(bytes: &[u8], expected: Hash, what: &str) -> Result<()> {
    check_hash(hash(bytes), expected, what)
}

/// Fails unless both checksums are the same.
pub(crate) fn check_hash(found: Hash, expected: Hash, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{what} is damaged: checksum {found:032x}, {expected:032x} expected; get another copy"
    )))
}

/// The index's id of a codec type.
fn dtype_id(of: Dtype) -> u8 {
    let name = match of {
        Dtype::Bytes => "bytes",
        Dtype::Bf16 => "bf16",
        Dtype::F16 => "f16",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
        Dtype::F8E4M3 => "f8_e4m3",
        Dtype::F8E5M2 => "f8_e5m2",
        Dtype::F8E4M3Fnuz => "f8_e4m3fnuz",
        Dtype::F8E5M2Fnuz => "f8_e5m2fnuz",
        Dtype::F8E8M0 => "f8_e8m0",
        Dtype::I8 => "i8",
        Dtype::I16 => "i16",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::U8 => "u8",
        Dtype::U16 => "u16",
        Dtype::U32 => "u32",
        Dtype::U64 => "u64",
        Dtype::Bool => "bool",
        Dtype::Complex32 => "c32",
        Dtype::Complex64 => "c64",
        Dtype::Complex128 => "c128",
    };
    dtype::id(name).unwrap_or(0)
}
