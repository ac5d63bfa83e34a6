//! An open `.lmc` file: its index, and access to any part of the original.

pub(crate) mod describe;
pub(crate) mod original;
pub(crate) mod restore;
pub(crate) mod tensors;
pub(crate) mod update;

use crate::archive::restore::restore;
use crate::base::budget::{Budget, Cost, Effort};
use crate::base::decode_cache::DecodeCache;
use crate::base::lookup::OwnBases;
use crate::base::reference;
use crate::base::{Base, BaseSet};
use crate::io::{ByteSource, Input, ReadAt, SourceFile, zeroed};
use crate::once::Once;
use crate::pipeline::Buffer;
use crate::span::{self, PIECE_LEN, SpanDecoder, SpanPart, blocks_of, check, first_part};
use crate::view::read_original;
use crate::{Context, Reference};
use lmc_codec::{Decoder, RecipeShape};
use lmc_format::file::FOOTER_LEN;
use lmc_format::{
    Advice, Error, ErrorKind, Footer, HEADER_LEN, Piece, Result, SourceKind, Span, StoredIndex,
};
use lmc_input::Contents;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An original that is longer than this, and this many times longer than its file, deserves a
/// warning.
const FAR_LEN: u64 = 1 << 30;
const FAR_TIMES: u64 = 100;

/// Fails if the result of a restore would have more than `max_size` bytes.
pub fn check_size(len: u64, max_size: Option<u64>) -> Result<()> {
    match max_size {
        Some(most) if len > most => {
            let message = format!("{len} bytes would be restored, more than the limit of {most}");
            Err(Error::new(ErrorKind::LimitExceeded, message).with_advice(Advice::RaiseMaxSize))
        }
        _ => Ok(()),
    }
}

/// The recipe of a block is nearly always within this many bytes of its start.
const HEAD_LEN: u64 = 1 << 13;

/// An open `.lmc` file. Its index has been read and checked; everything else is checked when it is
/// read.
#[derive(Debug)]
pub struct Archive {
    pub(crate) source: ByteSource<'static>,
    pub(crate) index: StoredIndex,
    own_bases: OwnBases,
    cache: Arc<DecodeCache>,
    /// The number of this file in the cache.
    number: usize,
    original_len: u64,
    file_len: u64,
    contents: Once<Contents>,
}

impl Archive {
    /// Opens the file at `path`. If it is a delta, its bases are looked for in the same folder when
    /// they are needed.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_on(path, &BaseSet::default())
    }

    /// The same with `bases` that it may need, which are tried first.
    pub fn open_on(path: &Path, bases: &BaseSet) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("cannot open it", e))?;
        Self::from_file(file, path.parent(), bases)
    }

    /// Opens a file. A pipe, which has no length, is copied to a temporary file first. Its bases
    /// may be in `folder`.
    pub fn from_file(file: File, folder: Option<&Path>, bases: &BaseSet) -> Result<Self> {
        Self::of_file(file, OwnBases::of_file(folder.map(Path::to_path_buf), bases))
    }

    fn of_file(file: File, own_bases: OwnBases) -> Result<Self> {
        match ByteSource::new(Input::File(&file))? {
            ByteSource::File(SourceFile::Owned(spooled)) => Self::of_file(spooled, own_bases),
            _ => Self::new(ByteSource::File(SourceFile::Owned(file)), own_bases),
        }
    }

    /// Opens a file that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::from_bytes_on(bytes, &BaseSet::default())
    }

    /// The same with `bases` that it may need.
    pub fn from_bytes_on(bytes: Vec<u8>, bases: &BaseSet) -> Result<Self> {
        Self::new(ByteSource::Owned(bytes), OwnBases::of_file(None, bases))
    }

    /// Opens a file that is stored elsewhere, with `bases` that it may need.
    pub fn from_elsewhere(bytes: Arc<dyn ReadAt>, bases: &BaseSet) -> Result<Self> {
        Self::new(ByteSource::Elsewhere(bytes), OwnBases::of_file(None, bases))
    }

    pub(crate) fn new(source: ByteSource<'static>, own_bases: OwnBases) -> Result<Self> {
        let file_len = source.len()?;
        let start = source.read_vec(0, file_len.min(HEADER_LEN as u64))?;
        let end_len = file_len.min(FOOTER_LEN as u64);
        let end = source.read_vec(file_len - end_len, end_len)?;
        let footer = Footer::read(&start, &end, file_len)?;
        let bytes = source.read_vec(HEADER_LEN as u64 + footer.body_len, footer.index_len)?;
        check(&bytes, footer.index_hash, "the index")?;
        let index = StoredIndex::read(bytes, footer.body_len, footer.original_len)
            .map_err(|e| e.at("index"))?;
        let own_bases = own_bases.sized(index.bases.len());
        let (cache, original_len) = (own_bases.cache(), footer.original_len);
        let number = cache.number();
        let contents = Once::default();
        Ok(Self { source, index, own_bases, cache, number, original_len, file_len, contents })
    }

    /// Bytes of the original.
    pub fn original_len(&self) -> u64 {
        self.original_len
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Fails if the original has more than `max_size` bytes: a small file can claim any length.
    pub fn check_size(&self, max_size: Option<u64>) -> Result<()> {
        check_size(self.original_len, max_size)
    }

    /// Whether the original is so much larger than the file that the user should be told before it
    /// is restored.
    pub fn expands_far(&self) -> bool {
        self.original_len > FAR_LEN && self.original_len / FAR_TIMES > self.file_len
    }

    /// Bytes of all spans in the file.
    pub fn body_len(&self) -> u64 {
        self.index.body_start(self.span_count())
    }

    /// The content hash of the original, which identifies it (`docs/format.md`, section 7.4).
    pub fn content_hash(&self) -> u128 {
        self.index.content_hash()
    }

    /// The bases that the index lists.
    pub fn bases(&self) -> &[lmc_format::BaseId] {
        &self.index.bases
    }

    /// A reference in words: its source, and the conversion.
    pub fn describe_reference(&self, reference: &Reference) -> String {
        let base = (reference.source as usize).checked_sub(1).and_then(|i| self.index.bases.get(i));
        let source = base.map_or("this file", |base| &base.name);
        match reference.conversion.name() {
            "" => source.to_string(),
            conversion => format!("{source} ({conversion})"),
        }
    }

    /// Files that may be bases of this one, judging by their names and lengths.
    pub(crate) fn likely_bases(&self) -> impl Iterator<Item = Arc<Base>> {
        self.own_bases.likely(&self.index.bases)
    }

    /// Whether the original is a safetensors file.
    pub fn is_safetensors(&self) -> bool {
        self.index.kind == SourceKind::Safetensors
    }

    /// Reads and checks everything.
    pub fn test(&self, context: &Context) -> Result<()> {
        restore(self, None, context)
    }

    /// The original bytes `range`. Only the blocks that hold them are read and checked.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.check_range(&range)?;
        let mut out = zeroed(range.end - range.start)?;
        let budget = self.budget(&self.own_bases.context());
        self.read_original(range.start, &mut out, budget.effort())?;
        Ok(out)
    }

    /// The budget of one restore or one read of this file.
    pub(crate) fn budget(&self, context: &Context) -> Budget {
        Budget::new(self.original_len, self.span_count(), context)
    }

    /// Fails unless the original has all bytes of this range.
    pub(crate) fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start > range.end || range.end > self.original_len {
            return Err(Error::invalid(format!(
                "bytes {} to {} of {}",
                range.start, range.end, self.original_len
            )));
        }
        Ok(())
    }

    /// Fills `out` with bytes of the original from `start` on, which must exist.
    pub(crate) fn read_original(&self, start: u64, out: &mut [u8], effort: Effort) -> Result<()> {
        let read = |at: u64, out: &mut [u8]| self.read_into(at, out, effort);
        read_original(&self.index.order, start, out, read)
    }

    /// Fills `out` with the arranged bytes of the original from `start` on, which must exist.
    pub(crate) fn read_into(&self, start: u64, out: &mut [u8], effort: Effort) -> Result<()> {
        let mut reader = self.cache.readers.take();
        let done = self.read_parts(&mut reader, start, out, effort);
        self.cache.readers.give(reader);
        done
    }

    fn read_parts(
        &self,
        reader: &mut PartReader,
        start: u64,
        out: &mut [u8],
        effort: Effort,
    ) -> Result<()> {
        let end = start + out.len() as u64;
        let mut rest = out;
        while !rest.is_empty() {
            let at = end - rest.len() as u64;
            let count = match self.cache.copy(self.number, at, rest) {
                0 => self.read_part(reader, at, rest, effort)?,
                count => {
                    effort.find()?;
                    count
                }
            };
            rest = &mut rest[count..];
        }
        Ok(())
    }

    /// Fills the start of `out` with the original bytes from `start` on: as much as is decoded in
    /// one go. Returns the number of bytes.
    fn read_part(
        &self,
        PartReader { decoder, coded }: &mut PartReader,
        start: u64,
        out: &mut [u8],
        effort: Effort,
    ) -> Result<usize> {
        let i = self.index.span_at(start);
        let span = self.index.span(i)?;
        effort.look(span.blocks.len())?;
        let at = start - self.index.raw_start(i);
        let end = span.raw_len.min(at.saturating_add(out.len() as u64));
        let (wanted, is_partial) = first_part(&span, &(at..end));
        let len = (wanted.end - wanted.start) as usize;
        let coded = self.read_coded(i, &span, &wanted, coded)?;
        let part = SpanPart { span: &span, coded, wanted };
        if !is_partial {
            self.decode_span(decoder, i, &part, &mut out[..len], effort, |_| ())?;
            return Ok(len);
        }
        let read_base = self.base_reader(effort);
        let (first, bytes) = decoder
            .decode_wide(&part, effort, read_base)
            .map_err(|e| self.in_span(e, i, effort))?;
        let own = &bytes[(at - first) as usize..];
        out[..len].copy_from_slice(&own[..len]);
        if bytes.len() > len {
            let first = self.index.raw_start(i) + first;
            self.cache.keep(self.number, first, bytes, effort.kept_max());
        }
        Ok(len)
    }

    /// Decodes part of span `i`, as [`SpanDecoder::decode`] does.
    pub(crate) fn decode_span(
        &self,
        decoder: &mut SpanDecoder,
        i: usize,
        part: &SpanPart,
        out: &mut [u8],
        effort: Effort,
        seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let done = decoder.decode(part, out, effort, self.base_reader(effort), seen);
        done.map_err(|e| self.in_span(e, i, effort))
    }

    /// The reader for the bases of spans.
    fn base_reader<'a>(
        &'a self,
        effort: Effort<'a>,
    ) -> impl FnMut(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()> + 'a {
        move |reference, part, wide, out| {
            reference::read(reference, part, wide, out, |start, out| {
                self.read_source(reference.source, start, out, effort)
            })
        }
    }

    /// Adds the position of span `i` to an error, unless the error is about a whole base chain.
    fn in_span(&self, error: Error, i: usize, effort: Effort) -> Error {
        match error.kind {
            ErrorKind::LimitExceeded if effort.depth > 0 => error,
            _ => error.at(self.span_name(i)),
        }
    }

    /// Fills `out` from the source of a reference, which is given by its number.
    fn read_source(&self, source: u64, start: u64, out: &mut [u8], effort: Effort) -> Result<()> {
        match (source as usize).checked_sub(1) {
            None => self.read_into(start, out, effort),
            Some(i) => {
                let (base, order) =
                    (self.base_in(i, effort.context())?, &self.index.base_orders[i]);
                base.read_in(order, start, out, effort.deeper())
            }
        }
    }

    fn base(&self, i: usize) -> Result<&Base> {
        self.base_in(i, &self.own_bases.context())
    }

    fn base_in(&self, i: usize, context: &Context) -> Result<&Base> {
        self.own_bases.get(i, &self.index.bases[i], context)
    }

    /// The depth of the base chain below this file. Fails unless every base that a span refers to
    /// is there, with everything that those bases need.
    pub(crate) fn height(&self, depth: usize, context: &Context) -> Result<usize> {
        let bases = self.index.bases.iter().enumerate().filter(|(i, _)| self.index.is_used(*i));
        bases
            .map(|(i, base)| self.own_bases.height(i, base, depth, context))
            .try_fold(0, |most, height| Ok(most.max(height?)))
    }

    /// The bases that spans refer to.
    pub(crate) fn needed(&self) -> Result<Vec<&Base>> {
        let used = (0..self.index.bases.len()).filter(|&i| self.index.is_used(i));
        used.map(|i| self.base(i)).collect()
    }

    /// Fails unless every base that it names is there, with everything that those bases need, even
    /// if no span refers to it. Also fails if the file names no base.
    pub fn check_named_bases(&self, context: &Context) -> Result<()> {
        if self.index.bases.is_empty() {
            return Err(Error::invalid("it names no base"));
        }
        let mut bases = self.index.bases.iter().enumerate();
        bases.try_for_each(|(i, base)| self.own_bases.height(i, base, 0, context).map(|_| ()))
    }

    /// Adds up what decoders will write to read the arranged bytes `range`, if nothing of it is
    /// kept from an earlier read. Anything that cannot be read counts at its highest possible cost.
    pub(crate) fn cost(&self, range: Range<u64>, depth: usize, cost: &mut Cost) -> Result<()> {
        let mut at = range.start;
        let id = std::ptr::from_ref(self).addr();
        while at < range.end && !cost.is_too_much() {
            if let Some(kept) = cost.kept(id, at) {
                at = kept.end;
                continue;
            }
            let i = self.index.span_at(at);
            let span = self.index.span(i)?;
            let start = self.index.raw_start(i);
            let end = span.raw_len.min(range.end - start);
            let (part, is_partial) = first_part(&span, &(at - start..end));
            at = start + part.end;
            let Need { whole, writes, base } = match is_partial {
                true => self.partial_cost(i, &span, &part)?,
                false => Need::all(part),
            };
            if is_partial {
                cost.keep(id, start + whole.start..start + whole.end);
            }
            // A delta against this span reads it piece by piece.
            let looks = 1 + (whole.end - whole.start) / PIECE_LEN;
            cost.add(depth, span.blocks.len(), looks, span.recipe.is_some(), writes);
            let (Some(reference), Some(base)) = (span.reference, base) else { continue };
            let source_start = reference.start + reference.conversion.source_len(base.start);
            let source_end = reference.end(base.end);
            match (reference.source as usize).checked_sub(1) {
                None => self.cost(source_start..source_end, depth, cost)?,
                Some(i) => {
                    // A missing base costs nothing; reading it will give the error.
                    if let Ok(base) = self.base(i) {
                        let order = &self.index.base_orders[i];
                        base.cost_in(order, source_start..source_end, depth + 1, cost)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The cost of decoding a part of a block.
    fn partial_cost(&self, i: usize, span: &Span, part: &Range<u64>) -> Result<Need> {
        let block = (part.start >> span.block_log2) as usize;
        let bounds = span::block_bounds(span, block);
        let recipe_len = span.recipe.map_or(0, |recipe| recipe.len);
        let recipe = self.source.read_vec(self.file_start(i), recipe_len)?;
        let shared = RecipeShape::parse(&recipe).ok();
        let before: u64 = span.blocks[..block].iter().map(|block| block.len).sum();
        let head_len = span.blocks[block].len.min(HEAD_LEN);
        let head = self.source.read_vec(self.file_start(i) + recipe_len + before, head_len)?;
        let range = (part.start - bounds.start) as usize..(part.end - bounds.start) as usize;
        let Ok(need) = Decoder::need(&head, shared.as_ref(), &range) else {
            return Ok(Need::all(bounds));
        };
        let in_span =
            |part: Range<usize>| bounds.start + part.start as u64..bounds.start + part.end as u64;
        let (whole, base) = (in_span(need.whole), need.base.map(in_span));
        Ok(Need { whole, writes: need.writes as u64, base })
    }

    /// Position of span `i` in the file.
    pub(crate) fn file_start(&self, i: usize) -> u64 {
        HEADER_LEN as u64 + self.index.body_start(i)
    }

    /// The pieces that hold the original bytes `wanted` of span `i`, recipe first.
    fn read_coded<'b>(
        &self,
        i: usize,
        span: &Span,
        wanted: &Range<u64>,
        buffer: &'b mut Buffer,
    ) -> Result<&'b [u8]> {
        let at = self.file_start(i);
        let blocks = blocks_of(span, wanted);
        let recipe_len = span.recipe.map_or(0, |recipe| recipe.len);
        let len = |blocks: &[Piece]| blocks.iter().map(|block| block.len).sum::<u64>();
        let before = len(&span.blocks[..blocks.start]);
        let coded = buffer.sized(recipe_len + len(&span.blocks[blocks]))?;
        let (recipe, own) = coded.split_at_mut(recipe_len as usize);
        self.source.read(at, recipe)?;
        self.source.read(at + recipe_len + before, own)?;
        Ok(buffer.bytes())
    }

    /// All pieces of span `i`, in `buffer` if they are not in memory.
    pub(crate) fn span_bytes<'b>(&'b self, i: usize, buffer: &'b mut Buffer) -> Result<&'b [u8]> {
        self.source.bytes(self.file_start(i), self.index.coded_len(i), buffer)
    }

    /// Asks the system to read span `i` ahead, if there is such a span.
    pub(crate) fn read_ahead(&self, i: usize) {
        if i < self.index.span_count() {
            self.source.read_ahead(self.file_start(i), self.index.coded_len(i));
        }
    }

    pub(crate) fn span_name(&self, i: usize) -> String {
        format!("span {i}, at byte {} of the file", self.file_start(i))
    }

    /// The number of spans.
    pub fn span_count(&self) -> usize {
        self.index.span_count()
    }
}

/// What reading parts of an archive needs, for use with one part after the other.
#[derive(Debug, Default)]
pub(crate) struct PartReader {
    decoder: SpanDecoder,
    coded: Buffer,
}

/// The cost of decoding a part of a span: the range that is decoded along with it, the bytes that
/// are written, and the range of the base that is needed. Both ranges are relative to the span.
struct Need {
    whole: Range<u64>,
    writes: u64,
    base: Option<Range<u64>>,
}

impl Need {
    /// The highest cost that a part can have.
    fn all(part: Range<u64>) -> Self {
        Self { writes: part.end - part.start, base: Some(part.clone()), whole: part }
    }
}
