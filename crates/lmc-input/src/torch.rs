//! The contents of a file of torch.save or TorchScript: a zip file with a pickle and, stored
//! uncompressed, the bytes of each storage.
//!
//! Any file goes in. Out come items that cover it, and the tensors in them. Nothing is ever
//! unpickled: the pickle is read as data.

pub use crate::source::ReadAt;

use crate::pickle::{PICKLE_LEN_MAX, Pickle};
use crate::source::Source;
use crate::torch_state::{self, Description, StorageKind, Walk, element_len};
use crate::zip::{Entry, Zip};
use crate::{LayoutItem, TensorInfo};
use lmc_format::Dtype;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;

/// The pickles that are read, with the folders of their storages. TorchScript has both.
const PICKLES: [(&str, &str); 2] = [("data.pkl", "data"), ("constants.pkl", "constants")];
/// The order of bytes that we have types for.
const LITTLE_ENDIAN: &[u8] = b"little";

/// A file of torch.
#[derive(Clone, Debug)]
pub struct TorchFile {
    /// The items, back to back; together they cover the file. A storage that is not empty is an
    /// item; what lies between storages is bytes.
    pub items: Vec<LayoutItem>,
    /// Which items are storages.
    pub storages: Vec<usize>,
    /// Tensors whose bytes are together and in order, by each path to them in the pickle. They may
    /// overlap: several can share a storage.
    pub tensors: Vec<TensorInfo>,
    /// Tensors that are not, or that cannot be found.
    pub others: Vec<OtherTensor>,
    /// Whether these are all tensors: the file may have been written in the other order of bytes,
    /// have a pickle that is not understood, or more paths than are followed.
    pub is_complete: bool,
}

/// A tensor that is not a range of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherTensor {
    /// Its name.
    pub name: String,
    /// Its element type; None if it is one that we do not have.
    pub dtype: Option<Dtype>,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// Why it is not a range.
    pub reason: Reason,
}

/// Why a tensor is not a range of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its storage is not in the file.
    Missing,
    /// Its storage is compressed or encrypted.
    Packed,
    /// Its storage is not as long as the pickle says.
    WrongLength,
    /// We do not have its type.
    UnknownType,
    /// Its elements do not follow each other in the order of its dimensions.
    Strided,
    /// It goes beyond the end of its storage.
    Outside,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Missing => "its storage is not in the file",
            Self::Packed => "its storage is compressed or encrypted",
            Self::WrongLength => "its storage has another length",
            Self::UnknownType => "its type is unknown",
            Self::Strided => "it is a view with other strides",
            Self::Outside => "it goes beyond its storage",
        })
    }
}

/// Looks for the contents of a file of `len` bytes, of which only parts are read; None if it is not
/// of torch, or if anything about its directory is odd. An error is one of `read`.
pub fn find(read: &ReadAt, len: u64) -> io::Result<Option<TorchFile>> {
    let source = Source::new(read, len);
    let found = find_in(&source);
    source.finish(found)
}

fn find_in(source: &Source) -> Option<TorchFile> {
    let zip = Zip::read(source)?;
    let archive = Archive::new(&zip)?;
    let mut storages = archive.storages();
    let (mut tensors, mut others) = (Vec::new(), Vec::new());
    let mut is_complete = archive.is_little_endian(source);
    if is_complete {
        for (pickle_name, folder) in PICKLES {
            let Some(entry) = archive.entry(pickle_name.as_bytes()) else { continue };
            let Some(pickle) = read_pickle(source, &zip.entries()[entry]) else {
                is_complete = false;
                continue;
            };
            let part = Part { archive: &archive, pickle: &pickle, folder };
            part.describe(&mut storages);
            let root = if folder == "data" { "" } else { folder };
            let walk = Walk::new(&pickle, root);
            is_complete &= walk.is_complete;
            for torch_state::Named { name, tensor } in walk.found {
                let (dtype, shape) = (tensor.dtype, counted_by_value(&tensor));
                match (part.place(&tensor), dtype) {
                    (Ok(range), Some(dtype)) => {
                        tensors.push(TensorInfo { name, dtype, shape, range });
                    }
                    (placed, _) => {
                        let reason = placed.err().unwrap_or(Reason::UnknownType);
                        others.push(OtherTensor { name, dtype, shape, reason });
                    }
                }
            }
        }
    }
    let (items, storages) = items(&zip, &storages, source.len());
    Some(TorchFile { items, storages, tensors, others, is_complete })
}

fn read_pickle(source: &Source, entry: &Entry) -> Option<Pickle> {
    let is_readable = entry.is_plain() && entry.data.end - entry.data.start <= PICKLE_LEN_MAX;
    Pickle::read(source.bytes(is_readable.then(|| entry.data.clone())?)?)
}

/// The shape with packed values counted one by one; torch counts them by the byte.
fn counted_by_value(tensor: &Description) -> Vec<u64> {
    let mut shape = tensor.shape.clone();
    let values = tensor.dtype.map_or(1, |dtype| 8 / dtype.bits().min(8));
    if values > 1 {
        match shape.last_mut() {
            Some(last) => *last = last.saturating_mul(values),
            None => shape.push(values),
        }
    }
    shape
}

/// The entries of a file of torch by name.
struct Archive<'z> {
    zip: &'z Zip,
    /// Entries by their paths below the folder that everything is in.
    by_path: HashMap<&'z [u8], usize>,
}

impl<'z> Archive<'z> {
    /// The folder is that of the first entry, as in torch itself.
    fn new(zip: &'z Zip) -> Option<Self> {
        let first = zip.name(zip.entries().first()?);
        let slash = first.iter().position(|&b| b == b'/')?;
        let mut by_path = HashMap::with_capacity(zip.entries().len());
        for (i, entry) in zip.entries().iter().enumerate() {
            if let Some(path) = zip.name(entry).strip_prefix(&first[..=slash])
                && by_path.insert(path, i).is_some()
            {
                return None;
            }
        }
        let archive = Self { zip, by_path };
        let data = archive.entry(PICKLES[0].0.as_bytes())?;
        zip.entries()[data].is_plain().then_some(archive)
    }

    /// The entry at a path below the folder.
    fn entry(&self, path: &[u8]) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    fn is_little_endian(&self, source: &Source) -> bool {
        // Files of older versions do not say it.
        let Some(i) = self.entry(b"byteorder") else { return true };
        let Entry { data, .. } = &self.zip.entries()[i];
        let is_short = data.end - data.start == LITTLE_ENDIAN.len() as u64;
        is_short && source.bytes(data.clone()).is_some_and(|bytes| bytes == LITTLE_ENDIAN)
    }

    /// What is known of each entry from its name alone.
    fn storages(&self) -> Vec<Option<Contents>> {
        let mut storages = vec![None; self.zip.entries().len()];
        for (path, &i) in &self.by_path {
            let is_in = |folder: &str| {
                path.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
            };
            let is_storage = PICKLES.iter().any(|(_, folder)| is_in(folder));
            if is_storage && self.zip.entries()[i].is_plain() {
                storages[i] = Some(Contents::UNKNOWN);
            }
        }
        storages
    }
}

/// What is known of a storage.
#[derive(Clone, Copy)]
struct Contents {
    dtype: Option<Dtype>,
    row_len: u64,
    /// Bytes of the tensor that said so.
    weight: u64,
}

impl Contents {
    const UNKNOWN: Self = Self { dtype: None, row_len: 0, weight: 0 };
}

/// A pickle, and the folder that its storages are in.
struct Part<'a> {
    archive: &'a Archive<'a>,
    pickle: &'a Pickle,
    folder: &'static str,
}

impl Part<'_> {
    /// The entry of a storage, if the storage is there as the pickle has it.
    fn entry(&self, storage: torch_state::Storage) -> Result<usize, Reason> {
        let key = self.pickle.text(storage.key);
        let path = [self.folder.as_bytes(), b"/", key].concat();
        let i = self.archive.entry(&path).ok_or(Reason::Missing)?;
        let entry = &self.archive.zip.entries()[i];
        if !entry.is_plain() {
            return Err(Reason::Packed);
        }
        let width = match storage.kind {
            StorageKind::Typed(dtype) => element_len(dtype),
            StorageKind::Untyped => 1,
            StorageKind::Unknown => return Err(Reason::UnknownType),
        };
        let len = storage.count.checked_mul(width);
        if len == Some(entry.data.end - entry.data.start) {
            Ok(i)
        } else {
            Err(Reason::WrongLength)
        }
    }

    /// The bytes of a tensor in the file.
    fn place(&self, tensor: &Description) -> Result<Range<u64>, Reason> {
        let data = &self.archive.zip.entries()[self.entry(tensor.storage)?].data;
        let width = element_len(tensor.dtype.ok_or(Reason::UnknownType)?);
        if !is_contiguous(tensor) {
            return Err(Reason::Strided);
        }
        if tensor.shape.contains(&0) {
            // It may begin anywhere, even beyond the end.
            return Ok(data.start..data.start);
        }
        let place = || {
            let start = data.start.checked_add(tensor.offset.checked_mul(width)?)?;
            let end = start.checked_add(count(&tensor.shape)?.checked_mul(width)?)?;
            (end <= data.end).then_some(start..end)
        };
        place().ok_or(Reason::Outside)
    }

    /// Adds what the pickle says of each storage, named or not. The largest tensor decides, the
    /// first of several that are as large.
    fn describe(&self, storages: &mut [Option<Contents>]) {
        for node in self.pickle.nodes() {
            if let Some(storage) = torch_state::storage(self.pickle, node) {
                let dtype = match storage.kind {
                    StorageKind::Typed(dtype) => Some(dtype),
                    StorageKind::Untyped => None,
                    StorageKind::Unknown => Some(Dtype::Bytes),
                };
                self.note(storages, storage, |known| known.dtype = known.dtype.or(dtype));
            }
            let crate::pickle::Node::Object(object) = node else { continue };
            let Some(tensor) = torch_state::tensor(self.pickle, object) else { continue };
            let dtype = tensor.dtype.unwrap_or(Dtype::Bytes);
            let len = count(&tensor.shape).and_then(|n| n.checked_mul(element_len(dtype)));
            self.note(storages, tensor.storage, |known| {
                let is_largest = len.is_some_and(|len| len > known.weight);
                if let (true, Some(len)) = (is_largest, len) {
                    known.weight = len;
                    known.dtype = Some(dtype);
                    known.row_len = 0;
                }
                if known.row_len == 0 && known.dtype == Some(dtype) && len == Some(known.weight) {
                    known.row_len = row_len(&tensor, dtype);
                }
            });
        }
    }

    /// Notes something about a storage that is there.
    fn note(
        &self,
        storages: &mut [Option<Contents>],
        storage: torch_state::Storage,
        note: impl FnOnce(&mut Contents),
    ) {
        // A storage of elements that we do not have is there too, with any length.
        let known_kind = match storage.kind {
            StorageKind::Unknown => torch_state::Storage { kind: StorageKind::Untyped, ..storage },
            _ => storage,
        };
        if let Ok(i) = self.entry(known_kind)
            && let Some(known) = &mut storages[i]
        {
            note(known);
        }
    }
}

/// The number of elements of a shape, if it fits in 64 bits.
fn count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim))
}

/// Whether the elements follow each other in the order of the dimensions.
fn is_contiguous(tensor: &Description) -> bool {
    if tensor.shape.contains(&0) {
        return true;
    }
    let mut expected = Some(1_u64);
    tensor.shape.iter().zip(&tensor.stride).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || Some(stride) == expected;
        expected = expected.and_then(|n| n.checked_mul(dim));
        fits
    })
}

/// Words in a row of a tensor that fills its storage, 0 if it is not a matrix. Rows are those in
/// memory: a matrix may be stored column by column.
fn row_len(tensor: &Description, dtype: Dtype) -> u64 {
    let Description { shape, stride, .. } = tensor;
    let Some(&last) = shape.last().filter(|_| shape.len() > 1) else { return 0 };
    let last = if is_contiguous(tensor) {
        last
    } else {
        let mut dims: Vec<(u64, u64)> =
            stride.iter().zip(shape).map(|(&stride, &dim)| (stride, dim)).collect();
        dims.retain(|&(_, dim)| dim != 1);
        dims.sort_unstable();
        let mut expected = Some(1_u64);
        let is_dense = dims.iter().all(|&(stride, dim)| {
            let fits = expected == Some(stride);
            expected = expected.and_then(|n| n.checked_mul(dim));
            fits
        });
        dims.first().filter(|_| is_dense).map_or(0, |&(_, dim)| dim)
    };
    last.saturating_mul(element_len(dtype)) / dtype.width() as u64
}

/// The items of a file, storages and what is between them, and which ones are storages.
fn items(zip: &Zip, storages: &[Option<Contents>], len: u64) -> (Vec<LayoutItem>, Vec<usize>) {
    let (mut items, mut places) = (Vec::new(), Vec::new());
    let mut at = 0;
    let between = |len| LayoutItem { len, dtype: Some(Dtype::Bytes), row_len: 0 };
    for i in zip.order() {
        let Range { start, end } = zip.entries()[i].data;
        let Some(contents) = storages[i].filter(|_| start < end) else { continue };
        if at < start {
            items.push(between(start - at));
        }
        places.push(items.len());
        items.push(item(contents, end - start));
        at = end;
    }
    if at < len {
        items.push(between(len - at));
    }
    (items, places)
}

fn item(contents: Contents, len: u64) -> LayoutItem {
    let Contents { dtype, row_len, weight } = contents;
    let is_whole = |dtype: Dtype| len.is_multiple_of(dtype.width() as u64);
    match dtype {
        Some(dtype) if is_whole(dtype) => {
            // Only a tensor that covers the storage says how long its rows are.
            let row_len = if weight == len { row_len } else { 0 };
            LayoutItem { len, dtype: Some(dtype), row_len }
        }
        Some(_) => LayoutItem { len, dtype: Some(Dtype::Bytes), row_len: 0 },
        None => LayoutItem { len, dtype: None, row_len: 0 },
    }
}
