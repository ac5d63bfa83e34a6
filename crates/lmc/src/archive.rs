//! An open `.lmc` file: its index, and any part of what it holds.

use crate::base::{Base, Bases, Links};
use crate::decompress::restore;
use crate::effort;
use crate::io::{Input, ReadAt, Source, SourceFile, io_error, zeroed};
use crate::pipeline::{Buffer, Pool};
use crate::reference;
use crate::span::{self, SpanDecoder, blocks_of, check};
use crate::{Progress, Reference};
use lmc_codec::SharedRecipe;
use lmc_format::file::FOOTER_LEN;
use lmc_format::{
    AnyRecipe, BaseUse, BlockKind, BlockPrefix, Error, ErrorKind, Footer, HEADER_LEN, Hash, Index,
    Piece, Reader, Result, SourceKind, Span, dtype,
};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An open `.lmc` file. Its index has been read and checked; the rest is checked when it is read.
#[derive(Debug)]
pub struct Archive {
    pub(crate) source: Source<'static>,
    pub(crate) index: Index,
    pub(crate) places: Vec<SpanPlace>,
    links: Links,
    decoders: Pool<SpanDecoder>,
    original_len: u64,
    file_len: u64,
}

/// Where a span is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanPlace {
    /// In the original.
    pub raw: u64,
    /// In the file.
    pub file: u64,
}

/// What of a span is decoded.
pub(crate) struct SpanPart<'a> {
    /// Its number.
    pub i: usize,
    /// The pieces that hold the part.
    pub coded: &'a [u8],
    /// The part, in the span.
    pub wanted: Range<u64>,
}

/// A span, as `lmc inspect` shows it.
#[derive(Clone, Debug)]
pub struct SpanInfo {
    /// Place in the original.
    pub start: u64,
    /// Bytes of the original.
    pub raw_len: u64,
    /// Bytes in the file.
    pub coded_len: u64,
    /// What the bytes were taken for.
    pub dtype: String,
    /// What its blocks may be coded against.
    pub reference: Option<Reference>,
    /// Bytes of the recipe that the blocks share.
    pub recipe_len: u64,
    /// The blocks, without kind and recipe.
    pub blocks: Vec<BlockInfo>,
}

/// A block, as `lmc inspect` shows it.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// Place in the file.
    pub offset: u64,
    /// Bytes of the original.
    pub raw_len: u64,
    /// Bytes in the file.
    pub coded_len: u64,
    /// Checksum of the bytes in the file.
    pub hash: u128,
    /// Stored, constant, coded or shared; empty if the block has not been read.
    pub kind: String,
    /// What its planes are coded with; empty if the block has not been read.
    pub recipe: String,
}

impl Archive {
    /// Opens the file at `path`. If it is on bases, they are looked for beside it when they are
    /// needed.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_on(path, &Bases::default())
    }

    /// The same with `bases` that it may be on, which are tried first.
    pub fn open_on(path: &Path, bases: &Bases) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error("cannot open it", &e))?;
        Self::from_file(file, path.parent(), bases)
    }

    /// Opens a file; one without a length, a pipe, is kept in a temporary file first. Its bases may
    /// be in `folder`.
    pub fn from_file(file: File, folder: Option<&Path>, bases: &Bases) -> Result<Self> {
        Self::of_file(file, Links::with(folder.map(Path::to_path_buf), bases))
    }

    fn of_file(file: File, links: Links) -> Result<Self> {
        match Source::new(Input::File(&file))? {
            Source::File(SourceFile::Owned(spooled)) => Self::of_file(spooled, links),
            _ => Self::new(Source::File(SourceFile::Owned(file)), links),
        }
    }

    /// Opens a file that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::from_bytes_on(bytes, &Bases::default())
    }

    /// The same with `bases` that it may be on.
    pub fn from_bytes_on(bytes: Vec<u8>, bases: &Bases) -> Result<Self> {
        Self::new(Source::Owned(bytes), Links::with(None, bases))
    }

    /// Opens a file that is kept elsewhere, with `bases` that it may be on.
    pub fn from_elsewhere(bytes: Arc<dyn ReadAt>, bases: &Bases) -> Result<Self> {
        Self::new(Source::Elsewhere(bytes), Links::with(None, bases))
    }

    pub(crate) fn new(source: Source<'static>, links: Links) -> Result<Self> {
        let file_len = source.len()?;
        let start = source.read_vec(0, file_len.min(HEADER_LEN as u64))?;
        let end_len = file_len.min(FOOTER_LEN as u64);
        let end = source.read_vec(file_len - end_len, end_len)?;
        let footer = Footer::read(&start, &end, file_len)?;
        let bytes = source.read_vec(HEADER_LEN as u64 + footer.body_len, footer.index_len)?;
        check(&bytes, footer.index_hash, "the index")?;
        let index =
            Index::read(&bytes, footer.body_len, footer.original_len).map_err(|e| e.at("index"))?;
        let (mut raw, mut file) = (0, HEADER_LEN as u64);
        let place = |span: &Span| {
            let place = SpanPlace { raw, file };
            raw += span.raw_len;
            file += span.coded_len();
            place
        };
        let places = index.spans.iter().map(place).collect();
        let links = links.sized(index.bases.len());
        let (decoders, original_len) = (Pool::default(), footer.original_len);
        Ok(Self { source, index, places, links, decoders, original_len, file_len })
    }

    /// Bytes of the original.
    pub fn original_len(&self) -> u64 {
        self.original_len
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// The name of the original by its content (`docs/format.md`, section 7.4).
    pub fn content_hash(&self) -> u128 {
        self.index.content_hash()
    }

    /// The bases that it is on, as it names them.
    pub fn bases(&self) -> &[lmc_format::Base] {
        &self.index.bases
    }

    /// A reference in words: what it is to, and what is done with it.
    pub fn describe_reference(&self, reference: &Reference) -> String {
        let base = (reference.source as usize).checked_sub(1).and_then(|i| self.index.bases.get(i));
        let source = base.map_or("this file", |base| &base.name);
        match reference.conversion.name() {
            "" => source.to_string(),
            conversion => format!("{source} ({conversion})"),
        }
    }

    /// Files that may be bases of this one, by their names and lengths.
    pub(crate) fn likely_bases(&self) -> Vec<Arc<Base>> {
        self.links.likely(&self.index.bases)
    }

    /// Whether the original is a safetensors file.
    pub fn is_safetensors(&self) -> bool {
        self.index.kind == SourceKind::Safetensors
    }

    /// Reads and checks everything.
    pub fn test(&self, threads: usize, progress: Progress) -> Result<()> {
        restore(self, None, threads, progress)
    }

    /// The original bytes `range`, of which only the blocks that hold them are read and checked.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.check_range(&range)?;
        let mut out = zeroed(range.end - range.start)?;
        self.read_into(range.start, &mut out, 0)?;
        Ok(out)
    }

    /// Fails unless the original has these bytes.
    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start > range.end || range.end > self.original_len {
            return Err(Error::invalid(format!(
                "bytes {} to {} of {}",
                range.start, range.end, self.original_len
            )));
        }
        Ok(())
    }

    /// Fills `out` with the original bytes from `start` on, which must be there. `depth` is how many
    /// files stand on this one here.
    pub(crate) fn read_into(&self, start: u64, out: &mut [u8], depth: usize) -> Result<()> {
        let range = start..start + out.len() as u64;
        let mut rest = out;
        let mut decoder = self.decoders.take();
        let first = self.places.partition_point(|place| place.raw <= range.start).saturating_sub(1);
        for (i, place) in self.places.iter().enumerate().skip(first) {
            let span = &self.index.spans[i];
            let start = range.start.max(place.raw);
            let end = range.end.min(place.raw + span.raw_len);
            if start >= end {
                break;
            }
            let (to, after) = rest.split_at_mut((end - start) as usize);
            rest = after;
            let wanted = start - place.raw..end - place.raw;
            let coded = self.read_coded(i, &wanted)?;
            let part = SpanPart { i, coded: &coded, wanted };
            self.decode_span(&mut decoder, part, to, depth, |_| ())?;
        }
        self.decoders.give(decoder);
        Ok(())
    }

    /// Decodes part of a span, as [`SpanDecoder::decode`] does.
    pub(crate) fn decode_span(
        &self,
        decoder: &mut SpanDecoder,
        part: SpanPart,
        out: &mut [u8],
        depth: usize,
        seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let SpanPart { i, coded, wanted } = part;
        let span = &self.index.spans[i];
        let read = |reference: &Reference, part, wide: &mut _, out: &mut [u8]| {
            reference::read(reference, part, wide, out, |start, out| {
                self.read_source(reference.source, start, out, depth)
            })
        };
        decoder.decode(span, coded, wanted, out, read, seen).map_err(|e| match e.kind {
            // About a whole chain, not about this place in it.
            ErrorKind::LimitExceeded if depth > 0 => e,
            _ => e.at(self.span_name(i)),
        })
    }

    /// Fills `out` from what references name by a number.
    fn read_source(&self, source: u64, start: u64, out: &mut [u8], depth: usize) -> Result<()> {
        let _spent = effort::spend(out.len())?;
        match (source as usize).checked_sub(1) {
            None => self.read_into(start, out, depth),
            Some(i) => self.links.get(i, &self.index.bases[i])?.read(start, out, depth + 1),
        }
    }

    /// Fails unless every base that a span refers to is there, and all that those need.
    pub(crate) fn check_bases(&self, depth: usize) -> Result<()> {
        let mut is_used = vec![false; self.index.bases.len()];
        for reference in self.index.spans.iter().filter_map(|span| span.reference) {
            if let Some(i) = (reference.source as usize).checked_sub(1) {
                is_used[i] = true;
            }
        }
        for (i, base) in self.index.bases.iter().enumerate().filter(|(i, _)| is_used[*i]) {
            self.links.check(i, base, depth)?;
        }
        Ok(())
    }

    /// Fails unless every base that it names is there, and all that those need, whether or not
    /// anything refers to it; and if it names none.
    pub fn check_named_bases(&self) -> Result<()> {
        if self.index.bases.is_empty() {
            return Err(Error::invalid("it names no base that it was made on"));
        }
        let mut bases = self.index.bases.iter().enumerate();
        bases.try_for_each(|(i, base)| self.links.check(i, base, 0))
    }

    /// The pieces that hold the original bytes `wanted` of span `i`, recipe first.
    fn read_coded(&self, i: usize, wanted: &Range<u64>) -> Result<Vec<u8>> {
        let (span, at) = (&self.index.spans[i], self.places[i].file);
        let blocks = blocks_of(span, wanted);
        let recipe_len = span.recipe.map_or(0, |recipe| recipe.len);
        let mut coded = self.source.read_vec(at, recipe_len)?;
        let len = |blocks: &[Piece]| blocks.iter().map(|block| block.len).sum::<u64>();
        let before = len(&span.blocks[..blocks.start]);
        let own = self.source.read_vec(at + recipe_len + before, len(&span.blocks[blocks]))?;
        coded.extend_from_slice(&own);
        Ok(coded)
    }

    /// All pieces of span `i`, in `buffer` if they are not in memory.
    pub(crate) fn span_bytes<'b>(&'b self, i: usize, buffer: &'b mut Buffer) -> Result<&'b [u8]> {
        self.source.bytes(self.places[i].file, self.index.spans[i].coded_len(), buffer)
    }

    /// Has the system read span `i` ahead, if there is one.
    pub(crate) fn read_ahead(&self, i: usize) {
        if let (Some(span), Some(place)) = (self.index.spans.get(i), self.places.get(i)) {
            self.source.read_ahead(place.file, span.coded_len());
        }
    }

    pub(crate) fn span_name(&self, i: usize) -> String {
        let place = self.places[i];
        format!("span {i}, at byte {} of the file", place.file)
    }

    /// The spans, as the index has them.
    pub fn spans(&self) -> Vec<SpanInfo> {
        (0..self.places.len()).map(|i| self.span_info(i)).collect()
    }

    fn span_info(&self, i: usize) -> SpanInfo {
        let (span, place) = (&self.index.spans[i], self.places[i]);
        let recipe_len = span.recipe.map_or(0, |recipe| recipe.len);
        let mut offset = place.file + recipe_len;
        let block = |(b, piece): (usize, &Piece)| {
            let bounds = span::block_bounds(span, b);
            let info = BlockInfo {
                offset,
                raw_len: bounds.end - bounds.start,
                coded_len: piece.len,
                hash: piece.hash,
                kind: String::new(),
                recipe: String::new(),
            };
            offset += piece.len;
            info
        };
        SpanInfo {
            start: place.raw,
            raw_len: span.raw_len,
            coded_len: span.coded_len(),
            dtype: dtype::name(span.dtype).unwrap_or_default().to_string(),
            reference: span.reference,
            recipe_len,
            blocks: span.blocks.iter().enumerate().map(block).collect(),
        }
    }

    /// The blocks of span `i` with their kinds and recipes, for which they are read and checked.
    pub fn describe(&self, i: usize) -> Result<Vec<BlockInfo>> {
        let mut blocks = self.span_info(i).blocks;
        let shared = self.shared_recipe(i)?;
        for (info, piece) in blocks.iter_mut().zip(&self.index.spans[i].blocks) {
            (info.kind, info.recipe) = self.describe_block(info, piece.hash, shared.as_deref())?;
        }
        Ok(blocks)
    }

    /// What the first block of span `i` is coded with.
    pub(crate) fn describe_first(&self, i: usize) -> Result<String> {
        if let Some(shared) = self.shared_recipe(i)? {
            return Ok(shared);
        }
        let info = &self.span_info(i).blocks[0];
        let (kind, recipe) = self.describe_block(info, info.hash, None)?;
        Ok(if recipe.is_empty() { kind } else { recipe })
    }

    fn shared_recipe(&self, i: usize) -> Result<Option<String>> {
        let Some(piece) = &self.index.spans[i].recipe else { return Ok(None) };
        let bytes = self.source.read_vec(self.places[i].file, piece.len)?;
        check(&bytes, piece.hash, "shared recipe").map_err(|e| e.at(self.span_name(i)))?;
        Ok(Some(words(&SharedRecipe::parse(&bytes)?.recipe())))
    }

    fn describe_block(
        &self,
        info: &BlockInfo,
        hash: Hash,
        shared: Option<&str>,
    ) -> Result<(String, String)> {
        let bytes = self.source.read_vec(info.offset, info.coded_len)?;
        check(&bytes, hash, "block").map_err(|e| e.at(format!("byte {}", info.offset)))?;
        let mut input = Reader::new(&bytes);
        let (kind, recipe) = match BlockPrefix::read(&mut input)?.kind {
            BlockKind::Stored => ("stored", String::new()),
            BlockKind::Constant => ("constant", String::new()),
            BlockKind::Coded => ("coded", words(&AnyRecipe::read(&mut input)?)),
            BlockKind::Shared => ("shared", shared.unwrap_or_default().to_string()),
            BlockKind::Same => ("same", String::new()),
        };
        Ok((kind.to_string(), recipe))
    }
}

/// A recipe in a few words: the coders of its planes, and what comes before them.
fn words(recipe: &AnyRecipe) -> String {
    let mut words: Vec<String> = Vec::new();
    match recipe {
        AnyRecipe::Planes(recipe) => {
            match recipe.base {
                BaseUse::None => {}
                BaseUse::Xor => words.push("xor".to_string()),
                BaseUse::Difference => words.push("difference".to_string()),
            }
            words.extend(recipe.flags.as_ref().map(|_| "sparse".to_string()));
            words.extend(recipe.columns.as_ref().map(|_| "offsets".to_string()));
            let symbol = recipe.planes.first().map(|coder| coder.name()).unwrap_or_default();
            words.push(format!("{symbol}{}", recipe.symbol_bits));
            words.extend(recipe.planes.iter().skip(1).map(|coder| coder.name().to_string()));
        }
        AnyRecipe::Classes(recipe) => {
            words.push(format!("classes{}", recipe.contexts.len()));
            // The context of most values is in the middle.
            words.push(recipe.contexts[recipe.contexts.len() / 2].name().to_string());
            words.extend((recipe.raw_bytes > 0).then(|| format!("raw{}", recipe.raw_bytes)));
        }
    }
    words.join("+")
}
