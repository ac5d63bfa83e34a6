//! The tensors of an archive, by name.

use crate::archive::Archive;
use crate::span::check_hash;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Dtype, Error, Hash, Reference, Result, hash};
use lmc_input::HEADER_LEN_MAX;
use std::collections::HashMap;
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
    /// Its checksum.
    pub hash: u128,
    /// Its share of the coded bytes.
    pub coded_len: u64,
    /// The recipe it is coded with, in words; tensors that share a span share it.
    pub recipe: Arc<str>,
    /// The reference of the tensor or of a part of it.
    pub reference: Option<Reference>,
}

/// The tensors of bases, by their names.
#[derive(Debug)]
pub struct BaseNotes(HashMap<String, lmc_input::TensorInfo>);

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

impl Archive {
    /// The tensors in the order of their bytes; none if the original is not a safetensors file.
    pub fn tensors(&self) -> Result<Vec<ArchiveTensor>> {
        if !self.is_safetensors() {
            return Ok(Vec::new());
        }
        let mut described: Option<(usize, Arc<str>)> = None;
        let tensors = self.original_tensors()?.into_iter().zip(self.index.items().skip(1));
        tensors.map(|(tensor, item)| self.tensor(tensor, item?.hash, &mut described)).collect()
    }

    /// The tensors as the header of the original describes them.
    pub(crate) fn original_tensors(&self) -> Result<Vec<lmc_input::TensorInfo>> {
        if !self.is_safetensors() {
            return Ok(Vec::new());
        }
        let header = self.header()?;
        let tensors = lmc_input::tensors(&header, self.original_len()).ok_or_else(no_match)?;
        let lens = tensors.iter().map(|tensor| tensor.range.end - tensor.range.start);
        let items = self.index.items().skip(1).flatten();
        if !lens.eq(items.map(|item| item.len)) {
            return Err(no_match());
        }
        Ok(tensors)
    }

    /// The layout of the original.
    pub(crate) fn layout(&self) -> Result<lmc_input::FileLayout> {
        if !self.is_safetensors() {
            return Ok(lmc_input::FileLayout::bytes(self.original_len()));
        }
        lmc_input::parse(&self.header()?, self.original_len()).ok_or_else(no_match)
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
        tensor: lmc_input::TensorInfo,
        hash: Hash,
        described: &mut Option<(usize, Arc<str>)>,
    ) -> Result<ArchiveTensor> {
        let spans = self.spans_of(&tensor.range);
        // Small tensors share a span, which is described only once.
        let recipe = match described {
            _ if spans.is_empty() => Arc::from(""),
            Some((span, recipe)) if *span == spans.start => recipe.clone(),
            _ => {
                let recipe: Arc<str> = self.describe_first(spans.start)?.into();
                *described = Some((spans.start, recipe.clone()));
                recipe
            }
        };
        let mut references = spans.clone().map(|i| self.index.reference(i));
        let reference = references.find_map(Result::transpose).transpose()?;
        let coded_len = spans.map(|i| self.share(i, &tensor.range)).sum();
        let lmc_input::TensorInfo { name, dtype, shape, range } = tensor;
        Ok(ArchiveTensor { name, dtype, shape, range, hash, coded_len, recipe, reference })
    }

    /// Information about the tensors of its bases, as far as the bases can be found.
    pub fn base_notes(&self) -> BaseNotes {
        let mut known: HashMap<String, lmc_input::TensorInfo> = HashMap::new();
        for base in self.likely_bases() {
            for tensor in base.tensors().into_iter().flatten() {
                known.entry(tensor.name.clone()).or_insert_with(|| tensor.clone());
            }
        }
        BaseNotes(known)
    }

    /// The spans that hold the original bytes `range`.
    pub(crate) fn spans_of(&self, range: &Range<u64>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        self.index.span_at(range.start)..self.index.span_at(range.end - 1) + 1
    }

    /// The share of span `i`'s coded bytes that belongs to the original bytes `range`.
    fn share(&self, i: usize, range: &Range<u64>) -> u64 {
        let (own, raw_len) = (self.index.raw_start(i), self.index.raw_len(i));
        let start = range.start.max(own);
        let end = range.end.min(own + raw_len);
        let share = u128::from(self.index.coded_len(i)) * u128::from(end - start);
        (share / u128::from(raw_len)) as u64
    }

    /// The bytes of a tensor, checked against its checksum.
    pub fn read_tensor(&self, tensor: &ArchiveTensor) -> Result<Vec<u8>> {
        let bytes = self.read(tensor.range.clone())?;
        let found = self.item_hash(&tensor.range, &bytes);
        check_hash(found, tensor.hash, &format!("tensor {}", tensor.name))?;
        Ok(bytes)
    }

    /// The checksum of the item at `range` of the original, which has these bytes.
    fn item_hash(&self, range: &Range<u64>, bytes: &[u8]) -> Hash {
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
