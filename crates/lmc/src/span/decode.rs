//! Decodes the pieces of a span; only little of the base is in memory at any time.

use super::{PIECE_LEN, block_bounds, blocks_of, check};
use crate::Reference;
use crate::base::budget::{Effort, HASHED_FOR_ONE};
use crate::io::zeroed;
use crate::pipeline::Buffer;
use lmc_codec::{BasePart, Decoder, Need, RecipeShape, SharedRecipe};
use lmc_format::limits::CODED_BLOCK_LEN_MAX;
use lmc_format::{BlockKind, BlockPrefix, Error, Piece, Reader, Result, Span};
use std::ops::Range;

/// Decodes spans; one for each thread.
#[derive(Debug, Default)]
pub(crate) struct SpanDecoder {
    decoder: Decoder,
    base: Buffer,
    wide: Buffer,
}

/// Checks a part of a span as far as possible without decoding it: checksums, lengths, and the
/// cost.
pub(crate) fn check_part(part: &SpanPart, effort: Effort) -> Result<()> {
    CheckedBlocks::read(part, effort).map(|_| ())
}

/// The part of a span to decode.
pub(crate) struct SpanPart<'a> {
    /// The span.
    pub span: &'a Span,
    /// Its recipe, if there is one, and its blocks from the one that holds `wanted.start` on.
    pub coded: &'a [u8],
    /// The part, relative to the span.
    pub wanted: Range<u64>,
}

/// A block to decode.
struct CodedBlock<'a> {
    number: usize,
    coded: &'a [u8],
    /// Its range in the span.
    bounds: Range<u64>,
    /// The wanted part of it, relative to the span.
    part: Range<u64>,
    /// The cost of decoding it.
    need: Need,
    /// Whether it is equal to its base.
    is_same: bool,
}

impl CodedBlock<'_> {
    /// The range of the base that it needs, relative to the span.
    fn base(&self) -> Option<Range<u64>> {
        self.need.base.as_ref().map(|base| self.in_span(base))
    }

    fn in_span(&self, range: &Range<usize>) -> Range<u64> {
        self.bounds.start + range.start as u64..self.bounds.start + range.end as u64
    }

    /// The number of wanted bytes.
    fn len(&self) -> usize {
        (self.part.end - self.part.start) as usize
    }

    /// How much of it is decoded in one go, if it needs more of its base than is read in one go.
    fn piece_len(&self) -> usize {
        (PIECE_LEN as usize / self.need.unit * self.need.unit).max(self.need.unit)
    }

    /// The total cost: that of the wanted part, and the fixed cost again for each piece after the
    /// first.
    fn cost(&self) -> u64 {
        let Need { writes, fixed, base, .. } = &self.need;
        let pieces = match base {
            Some(base) if !self.is_same => base.len().div_ceil(self.piece_len()).max(1),
            _ => 1,
        };
        writes.saturating_add(fixed.saturating_mul(pieces - 1)) as u64
    }

    /// The first piece to decode of the wanted part from byte `start` of the span on.
    fn piece(&self, start: u64, recipe: Option<&SharedRecipe>) -> Result<Self> {
        let piece_len = self.piece_len() as u64;
        let end = self.bounds.start + ((start - self.bounds.start) / piece_len + 1) * piece_len;
        let part = start..end.min(self.part.end);
        let need = need(self.coded, recipe, &self.bounds, &part)?;
        Ok(Self { part, need, bounds: self.bounds.clone(), ..*self })
    }
}

/// The cost of the part `part` of a block; both ranges are relative to the span.
fn need(
    coded: &[u8],
    recipe: Option<&SharedRecipe>,
    bounds: &Range<u64>,
    part: &Range<u64>,
) -> Result<Need> {
    let range = (part.start - bounds.start) as usize..(part.end - bounds.start) as usize;
    Decoder::need(coded, recipe.map(SharedRecipe::shape).as_ref(), &range)
}

/// Blocks of a span whose checksums are right, and their recipe.
struct CheckedBlocks<'a> {
    recipe: Option<SharedRecipe>,
    blocks: Vec<CodedBlock<'a>>,
}

impl<'a> CheckedBlocks<'a> {
    /// Reads the wanted part of a span. Counts the cost of decoding it before anything is decoded.
    fn read(part: &SpanPart<'a>, effort: Effort) -> Result<Self> {
        let SpanPart { span, coded, wanted } = part;
        let mut rest = *coded;
        let recipe = match &span.recipe {
            Some(piece) => {
                let bytes = take(&mut rest, piece, "shared recipe", effort)?;
                let parse = || {
                    effort.decode(RecipeShape::parse(bytes)?.cost() as u64)?;
                    SharedRecipe::parse(bytes)
                };
                Some(parse().map_err(|e| e.at("shared recipe"))?)
            }
            None => None,
        };
        let read = |i| read_block(span, i, wanted, &mut rest, recipe.as_ref(), effort);
        let blocks = blocks_of(span, wanted).map(read).collect::<Result<Vec<CodedBlock>>>()?;
        Ok(Self { recipe, blocks })
    }
}

impl SpanDecoder {
    /// Decodes part of a span. Everything that is read is checked, and `effort` counts the cost.
    ///
    /// `out` is as long as the wanted part. `read_base` reads a part of the span's base, only as
    /// much as the blocks need. `seen` gets the decoded bytes, block by block, while they are in
    /// the cache.
    pub(crate) fn decode(
        &mut self,
        part: &SpanPart,
        out: &mut [u8],
        effort: Effort,
        read_base: impl FnMut(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
        seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let checked = CheckedBlocks::read(part, effort)?;
        self.decode_blocks(part.span, &checked, out, read_base, seen)
    }

    /// The same for a whole span whose base is in `out`, where the decoded bytes replace it.
    pub(crate) fn decode_in_place(
        &mut self,
        part: &SpanPart,
        out: &mut [u8],
        effort: Effort,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let CheckedBlocks { recipe, blocks } = CheckedBlocks::read(part, effort)?;
        let mut rest = out;
        for block in &blocks {
            let (to, behind) = rest.split_at_mut(block.len());
            rest = behind;
            // A block that equals its base is already there.
            if !block.is_same {
                self.replace_block(block, recipe.as_ref(), to)
                    .map_err(|e| e.at(format_args!("block {}", block.number)))?;
            }
            seen(to);
        }
        Ok(())
    }

    /// Decodes a whole block into `out`, which holds its base, in pieces: only the base of one
    /// piece is copied at a time.
    fn replace_block(
        &mut self,
        block: &CodedBlock,
        recipe: Option<&SharedRecipe>,
        out: &mut [u8],
    ) -> Result<()> {
        if block.need.base.as_ref().is_none_or(|base| base.len() <= block.piece_len()) {
            return self.replace_piece(block, recipe, out);
        }
        let (mut at, mut rest) = (block.part.start, out);
        while at < block.part.end {
            let piece = block.piece(at, recipe)?;
            let (own, behind) = rest.split_at_mut(piece.len());
            (at, rest) = (piece.part.end, behind);
            self.replace_piece(&piece, recipe, own)?;
        }
        Ok(())
    }

    fn replace_piece(
        &mut self,
        piece: &CodedBlock,
        recipe: Option<&SharedRecipe>,
        out: &mut [u8],
    ) -> Result<()> {
        if let Some(base) = piece.base() {
            if base.start < piece.part.start || base.end > piece.part.end {
                return Err(Error::corrupt("a block needs more of its base than its own length"));
            }
            self.base.sized(out.len() as u64)?.copy_from_slice(out);
        }
        self.decode_block(piece, recipe, piece.part.start, out)
    }

    /// Decodes a part of one block, and as much around it as costs nothing extra. Returns its start
    /// in the span, and its bytes.
    pub(crate) fn decode_wide(
        &mut self,
        part: &SpanPart,
        effort: Effort,
        read_base: impl FnMut(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
    ) -> Result<(u64, Vec<u8>)> {
        let mut checked = CheckedBlocks::read(part, effort)?;
        for block in &mut checked.blocks {
            block.part = block.in_span(&block.need.whole);
        }
        let start = checked.blocks.first().map_or(0, |block| block.part.start);
        let len: u64 = checked.blocks.iter().map(|block| block.part.end - block.part.start).sum();
        let mut out = zeroed(len)?;
        self.decode_blocks(part.span, &checked, &mut out, read_base, |_| ())?;
        Ok((start, out))
    }

    fn decode_blocks(
        &mut self,
        span: &Span,
        checked: &CheckedBlocks,
        out: &mut [u8],
        mut read_base: impl FnMut(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let recipe = checked.recipe.as_ref();
        let (mut rest, mut out) = (&checked.blocks[..], out);
        while !rest.is_empty() {
            let (run, after) = rest.split_at(run_len(span, rest));
            let (to, behind) = out.split_at_mut(run.iter().map(CodedBlock::len).sum());
            (rest, out) = (after, behind);
            match run {
                [block] if is_direct(span, block) => {
                    let reference = span.reference.as_ref().ok_or_else(no_reference)?;
                    read_base(reference, block.part.clone(), &mut self.wide, to)?;
                    seen(to);
                }
                [block]
                    if block
                        .need
                        .base
                        .as_ref()
                        .is_some_and(|base| base.len() > block.piece_len()) =>
                {
                    let (mut at, mut to) = (block.part.start, to);
                    while at < block.part.end {
                        let piece = block.piece(at, recipe)?;
                        let (own, behind) = to.split_at_mut(piece.len());
                        (at, to) = (piece.part.end, behind);
                        self.decode_run(span, recipe, &[piece], own, &mut read_base, &mut seen)?;
                    }
                }
                _ => self.decode_run(span, recipe, run, to, &mut read_base, &mut seen)?,
            }
        }
        Ok(())
    }

    /// Decodes blocks whose base is read in one go.
    fn decode_run(
        &mut self,
        span: &Span,
        recipe: Option<&SharedRecipe>,
        run: &[CodedBlock],
        mut out: &mut [u8],
        read_base: &mut impl FnMut(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
        seen: &mut impl FnMut(&[u8]),
    ) -> Result<()> {
        let based = read_hull(span, run);
        if !based.is_empty() {
            let reference = span.reference.as_ref().ok_or_else(no_reference)?;
            let base = self.base.sized(based.end - based.start)?;
            read_base(reference, based.clone(), &mut self.wide, base)?;
        }
        for block in run {
            let (to, after) = out.split_at_mut(block.len());
            out = after;
            self.decode_block(block, recipe, based.start, to)
                .map_err(|e| e.at(format_args!("block {}", block.number)))?;
            seen(to);
        }
        Ok(())
    }

    /// Decodes the wanted part of a block; the base has been read from byte `based` of the span on.
    fn decode_block(
        &mut self,
        block: &CodedBlock,
        recipe: Option<&SharedRecipe>,
        based: u64,
        to: &mut [u8],
    ) -> Result<()> {
        let base = block.base().map(|base| {
            &self.base.bytes()[(base.start - based) as usize..(base.end - based) as usize]
        });
        let CodedBlock { coded, bounds, part, .. } = block;
        if part == bounds {
            return self.decoder.decode_block(coded, recipe, base, to);
        }
        let needed = block.need.base.as_ref().zip(base);
        let base = needed.map(|(need, bytes)| BasePart { start: need.start, bytes });
        let range = (part.start - bounds.start) as usize..(part.end - bounds.start) as usize;
        self.decoder.decode_range(coded, recipe, base, range, to)
    }
}

/// Takes block `i` from `rest` and checks it.
fn read_block<'a>(
    span: &Span,
    i: usize,
    wanted: &Range<u64>,
    rest: &mut &'a [u8],
    recipe: Option<&SharedRecipe>,
    effort: Effort,
) -> Result<CodedBlock<'a>> {
    let place = format!("block {i}");
    let coded = take(rest, &span.blocks[i], &place, effort)?;
    let bounds = block_bounds(span, i);
    let raw_len = Decoder::raw_len(coded).map_err(|e| e.at(&place))?;
    if raw_len as u64 != bounds.end - bounds.start {
        return Err(Error::corrupt(format!(
            "{place} does not have the length that the index says"
        )));
    }
    let part = wanted.start.max(bounds.start)..wanted.end.min(bounds.end);
    let need = need(coded, recipe, &bounds, &part).map_err(|e| e.at(&place))?;
    let mut input = Reader::new(coded);
    let kind = BlockPrefix::read(&mut input).map_err(|e| e.at(&place))?.kind;
    let is_same = kind == BlockKind::Same;
    if is_same {
        input.finish("the block").map_err(|e| e.at(&place))?;
    }
    if raw_len > CODED_BLOCK_LEN_MAX && !matches!(kind, BlockKind::Same | BlockKind::Constant) {
        return Err(Error::corrupt(format!(
            "{place} holds {raw_len} bytes, at most {CODED_BLOCK_LEN_MAX} expected"
        )));
    }
    let block = CodedBlock { number: i, coded, bounds, part, need, is_same };
    effort.decode(block.cost())?;
    Ok(block)
}

/// Whether the base of a block can be read straight into the output as its result.
fn is_direct(span: &Span, block: &CodedBlock) -> bool {
    let is_whole = |at: u64| at.is_multiple_of(word_len(span));
    block.is_same && is_whole(block.part.start) && is_whole(block.part.end)
}

/// How many of these blocks have their base read in one go.
fn run_len(span: &Span, blocks: &[CodedBlock]) -> usize {
    let mut start = None;
    for (i, block) in blocks.iter().enumerate() {
        if is_direct(span, block) {
            return i.max(1);
        }
        let Some(base) = block.base() else { continue };
        if base.end - *start.get_or_insert(base.start) > PIECE_LEN {
            return i.max(1);
        }
    }
    blocks.len()
}

/// The range of the span's base that the blocks need, from the first to the last byte; whole words
/// if they are converted.
fn read_hull(span: &Span, blocks: &[CodedBlock]) -> Range<u64> {
    let mut bases = blocks.iter().filter_map(CodedBlock::base);
    let Some(first) = bases.next() else { return 0..0 };
    let end = bases.next_back().map_or(first.end, |last| last.end);
    let word = word_len(span);
    first.start / word * word..end.next_multiple_of(word).min(span.raw_len)
}

/// Bytes of the words of its base that are converted.
fn word_len(span: &Span) -> u64 {
    span.reference.map_or(1, |own| own.conversion.word_len())
}

fn no_reference() -> Error {
    Error::corrupt("a block needs a base, but its span refers to none")
}

fn take<'a>(rest: &mut &'a [u8], piece: &Piece, what: &str, effort: Effort) -> Result<&'a [u8]> {
    effort.decode(piece.len / HASHED_FOR_ONE)?;
    let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
    let (bytes, after) = rest
        .split_at_checked(len)
        .ok_or_else(|| Error::truncated(format!("{what} is incomplete")))?;
    *rest = after;
    check(bytes, piece.hash, what)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
