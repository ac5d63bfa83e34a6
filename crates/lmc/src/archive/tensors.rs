//! The tensors of an archive, by name.

use crate::archive::Archive;
use crate::items::{own_error, stretches};
use crate::span::check_hash;
use crate::view::arranged;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Dtype, Error, ErrorKind, Hash, Item, Reference, Result, SourceKind, hash};
use lmc_input::{Contents, Data, FileLayout, HEADER_LEN_MAX, LayoutItem, TensorInfo};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A tensor in an archive.
#[derive(Clone, Debug)]
pub struct ArchiveTensor {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// Its bytes in the original.
    pub range: Range<u64>,
    /// Its checksum; none if it is only a part of what was stored as one, or in several parts.
    pub hash: Option<u128>,
    /// Its share of the coded bytes.
    pub coded_len: u64,
    /// The recipe it is coded with, in words; tensors that share a span share it.
    pub recipe: Arc<str>,
    /// The reference of the tensor or of a part of it.
    pub reference: Option<Reference>,
}

/// The tensors of bases, by their names.
#[derive(Debug)]
pub struct BaseNotes(HashMap<String, TensorInfo>);

impl BaseNotes {
    /// Says in words how a tensor that has no reference differs from the tensor of the same name in
    /// a base; none if it does not differ, or if there is no such tensor.
    pub fn of(&self, tensor: &ArchiveTensor) -> Option<String> {
        let old = self.0.get(&tensor.name).filter(|_| tensor.reference.is_none())?;
        if old.shape != tensor.shape {
            return Some(format!("base differs: shape {:?}", old.shape));
        }
        (old.dtype != tensor.dtype).then(|| format!("base differs: dtype {}", old.dtype.label()))
    }
}

/// What many tensors need to know of spans, each of which is looked at once.
struct KnownSpans {
    /// The recipes of spans that were described, in words.
    recipes: HashMap<usize, Arc<str>>,
    /// For each span, the first one from it on that has a reference.
    next_reference: Vec<u32>,
}

impl KnownSpans {
    fn new(archive: &Archive) -> Result<Self> {
        let index = &archive.index;
        let mut next_reference = vec![u32::MAX; index.span_count()];
        let mut next = u32::MAX;
        for i in (0..index.span_count()).rev() {
            if index.reference(i)?.is_some() {
                // The largest index has fewer spans than this can count.
                next = i as u32;
            }
            next_reference[i] = next;
        }
        Ok(Self { recipes: HashMap::new(), next_reference })
    }
}

impl Archive {
    /// What the original holds, as far as its format is known. Nothing is known if a base is needed
    /// to tell, and is not there.
    pub fn contents(&self) -> Result<&Contents> {
        self.contents.get(|| {
            let budget = self.budget(&self.own_bases.context());
            let read = |at: u64, out: &mut [u8]| {
                budget.extend(out.len() as u64, 1);
                self.read_original(at, out, budget.effort()).map_err(io::Error::other)
            };
            match lmc_input::contents(&read, self.original_len()).map_err(own_error) {
                Err(e) if e.kind == ErrorKind::NotFound => Ok(Contents::without_base()),
                found => found,
            }
        })
    }

    /// The tensors in the order of their bytes, or of their names in the original; none if its
    /// format has no tensors or is not known.
    pub fn tensors(&self) -> Result<Vec<ArchiveTensor>> {
        let mut known = KnownSpans::new(self)?;
        if self.is_safetensors() {
            let tensors = self.original_tensors()?.into_iter().zip(self.index.items().skip(1));
            let tensor = |(tensor, item): (_, Result<Item>)| {
                self.tensor(tensor, Some(item?.hash), &mut known)
            };
            return tensors.map(tensor).collect();
        }
        let tensor = |tensor: &TensorInfo| {
            let item = self.index.order.find(&tensor.range);
            let hash = item.map(|(i, _)| Ok(self.index.item(i + 1)?.hash)).transpose()?;
            self.tensor(tensor.clone(), hash, &mut known)
        };
        self.contents()?.tensors.iter().map(tensor).collect()
    }

    /// The items but the first as tensors, with their arranged positions; none if the original has
    /// no tensors.
    pub(crate) fn item_tensors(&self) -> Result<Vec<TensorInfo>> {
        if self.is_safetensors() {
            return self.original_tensors();
        }
        if self.index.kind != SourceKind::Arranged || self.contents()?.data.is_empty() {
            return Ok(Vec::new());
        }
        let order = &self.index.order;
        let mut at = order.first_len();
        let tensor = |data: Data| {
            let len = data.range.end - data.range.start;
            at += len;
            let (name, shape, range) = (data.name, data.shape, at - len..at);
            TensorInfo { name, dtype: data.dtype.unwrap_or(Dtype::Bytes), shape, range }
        };
        Ok(self.stretches()?.into_iter().map(tensor).collect())
    }

    /// The stretches of the original, as far as they are known: another version may have found
    /// others.
    fn stretches(&self) -> Result<Vec<Data>> {
        let order = &self.index.order;
        let known = stretches(self.contents()?, self.original_len());
        let known: HashMap<Range<u64>, Data> =
            known.into_iter().map(|data| (data.range.clone(), data)).collect();
        let ranges = (0..order.count()).filter_map(|i| order.stretch(i));
        let data = |range: Range<u64>| {
            known.get(&range).cloned().unwrap_or_else(|| {
                let (name, shape) =
                    (format!("byte {}", range.start), vec![range.end - range.start]);
                Data { range, dtype: None, row_len: 0, name, shape }
            })
        };
        Ok(ranges.map(data).collect())
    }

    /// The tensors as the header of a safetensors file describes them.
    fn original_tensors(&self) -> Result<Vec<TensorInfo>> {
        let header = self.header()?;
        let tensors = lmc_input::tensors(&header, self.original_len()).ok_or_else(no_match)?;
        let lens = tensors.iter().map(|tensor| tensor.range.end - tensor.range.start);
        let items = self.index.items().skip(1).flatten();
        if !lens.eq(items.map(|item| item.len)) {
            return Err(no_match());
        }
        Ok(tensors)
    }

    /// The layout of the original, in arranged order.
    pub(crate) fn layout(&self) -> Result<FileLayout> {
        let (kind, len) = (self.index.kind, self.original_len());
        match kind {
            SourceKind::Bytes => Ok(FileLayout::bytes(len)),
            SourceKind::Safetensors => lmc_input::parse(&self.header()?, len).ok_or_else(no_match),
            SourceKind::Arranged => {
                let item = |data: Data| {
                    let Data { range, dtype, row_len, .. } = data;
                    LayoutItem { len: range.end - range.start, dtype, row_len }
                };
                let first_len = self.index.order.first_len();
                let first = LayoutItem { len: first_len, dtype: Some(Dtype::Bytes), row_len: 0 };
                let items = self.stretches()?.into_iter().map(item);
                Ok(FileLayout { kind, items: std::iter::once(first).chain(items).collect() })
            }
        }
    }

    /// The safetensors header of the original.
    fn header(&self) -> Result<Vec<u8>> {
        let head = self.index.item(0)?;
        if head.len > HEADER_LEN_MAX {
            return Err(no_match());
        }
        let header = self.read(0..head.len)?;
        let found = self.item_hash(&(0..head.len), &header);
        check_hash(found, head.hash, "the safetensors header")?;
        Ok(header)
    }

    fn tensor(
        &self,
        tensor: TensorInfo,
        hash: Option<Hash>,
        known: &mut KnownSpans,
    ) -> Result<ArchiveTensor> {
        let arranged = self.arranged(&tensor.range);
        let spans = self.spans_of(&arranged);
        // Tensors that share a span share its recipe.
        let recipe = match known.recipes.get(&spans.start) {
            _ if spans.is_empty() => Arc::from(""),
            Some(recipe) => recipe.clone(),
            None => {
                let recipe: Arc<str> = self.describe_first(spans.start)?.into();
                known.recipes.insert(spans.start, recipe.clone());
                recipe
            }
        };
        let next = known.next_reference.get(spans.start).map(|&i| i as usize);
        let reference = match next.filter(|next| spans.contains(next)) {
            Some(next) => self.index.reference(next)?,
            None => None,
        };
        let coded_len = self.coded_share(&spans, &arranged);
        let TensorInfo { name, dtype, shape, range } = tensor;
        Ok(ArchiveTensor { name, dtype, shape, range, hash, coded_len, recipe, reference })
    }

    /// Information about the tensors of its bases, as far as the bases can be found.
    pub fn base_notes(&self) -> BaseNotes {
        let mut known: HashMap<String, TensorInfo> = HashMap::new();
        for base in self.likely_bases() {
            for tensor in base.tensors().into_iter().flatten() {
                known.entry(tensor.name.clone()).or_insert_with(|| tensor.clone());
            }
        }
        BaseNotes(known)
    }

    /// The arranged bytes of a stretch or a part of one. Where bytes outside stretches are among
    /// them, they are left out.
    fn arranged(&self, range: &Range<u64>) -> Range<u64> {
        let [outside, data] = arranged(&self.index.order, range.clone());
        if data.is_empty() { outside } else { data }
    }

    /// The spans that hold the arranged bytes `range`.
    pub(crate) fn spans_of(&self, range: &Range<u64>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        self.index.span_at(range.start)..self.index.span_at(range.end - 1) + 1
    }

    /// The share of the coded bytes of these spans that belongs to the arranged bytes `range`.
    fn coded_share(&self, spans: &Range<usize>, range: &Range<u64>) -> u64 {
        if spans.is_empty() {
            return 0;
        }
        let all = self.index.body_start(spans.end) - self.index.body_start(spans.start);
        // The parts of the first and the last span that are outside.
        let outside = |i: usize, len: u64| {
            let share = u128::from(self.index.coded_len(i)) * u128::from(len);
            (share / u128::from(self.index.raw_len(i))) as u64
        };
        let before = outside(spans.start, range.start - self.index.raw_start(spans.start));
        let after = outside(spans.end - 1, self.index.raw_start(spans.end) - range.end);
        all.saturating_sub(before + after)
    }

    /// The bytes of a tensor, checked against its checksum.
    pub fn read_tensor(&self, tensor: &ArchiveTensor) -> Result<Vec<u8>> {
        let bytes = self.read(tensor.range.clone())?;
        if let Some(expected) = tensor.hash {
            let found = self.item_hash(&self.arranged(&tensor.range), &bytes);
            check_hash(found, expected, &format!("tensor {}", tensor.name))?;
        }
        Ok(bytes)
    }

    /// The checksum of the item at the arranged `range`, which has these bytes.
    pub(crate) fn item_hash(&self, range: &Range<u64>, bytes: &[u8]) -> Hash {
        let spans = self.spans_of(range);
        if spans.len() < 2 {
            return hash(bytes);
        }
        let mut rest = bytes;
        let take = |i: usize| {
            let (own, after) = rest.split_at(self.index.raw_len(i) as usize);
            rest = after;
            hash(own)
        };
        hash_of_hashes(&spans.map(take).collect::<Vec<_>>())
    }
}

fn no_match() -> Error {
    Error::corrupt("the index does not fit the safetensors header that the file holds")
}
