//! The storages of a file of torch: what its pickle says of them, and the tensors in them.

use crate::TensorInfo;
use crate::contents::{Contents, Data, OtherTensor, Reason, STORAGE_OF};
use crate::pickle::{Node, Pickle};
use crate::torch_state::{self, Description, Extra, Named, StorageKind, Walk, element_len};
use lmc_format::Dtype;
use std::ops::Range;

/// A storage that is in the file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Its bytes.
    pub range: Range<u64>,
    dtype: Option<Dtype>,
    row_len: u64,
    /// Bytes of the tensor that said so.
    weight: u64,
    title: Option<Title>,
}

/// What a storage is called after.
#[derive(Clone, Debug)]
enum Title {
    /// A tensor that covers it, in the order of its dimensions.
    Whole(String, Vec<u64>),
    /// A tensor that covers it in another order.
    Turned(String, Vec<u64>),
    /// A tensor that is somewhere in it.
    Part(String),
}

impl Stored {
    /// A storage of which only its place is known.
    pub(crate) fn new(range: Range<u64>) -> Self {
        Self { range, dtype: None, row_len: 0, weight: 0, title: None }
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The storage as data; `name` is used if no tensor is in it.
    pub(crate) fn data(self, name: impl FnOnce() -> String) -> Data {
        let len = self.len();
        let (dtype, row_len) = match self.dtype {
            // Only a tensor that covers the storage says how long its rows are.
            Some(dtype) if len.is_multiple_of(dtype.width() as u64) => {
                (Some(dtype), if self.weight == len { self.row_len } else { 0 })
            }
            Some(_) => (Some(Dtype::Bytes), 0),
            None => (None, 0),
        };
        let count = || vec![len.saturating_mul(8) / dtype.map_or(8, Dtype::bits)];
        let (name, shape) = match self.title {
            Some(Title::Whole(name, shape) | Title::Turned(name, shape)) => (name, shape),
            Some(Title::Part(name)) => (format!("{STORAGE_OF}{name}"), count()),
            None => (name(), count()),
        };
        Data { range: self.range, dtype, row_len, name, shape }
    }
}

/// A pickle, and how the storages that it names are found.
pub(crate) struct Part<'a> {
    pub pickle: &'a Pickle,
    /// The place of the storage with a key among all.
    pub find: &'a dyn Fn(&[u8]) -> Result<usize, Reason>,
    pub extra: Extra,
}

impl Part<'_> {
    /// Adds the tensors of the pickle to `found`, with their paths below `root`, and what it says
    /// of storages to those.
    pub(crate) fn add_to(&self, found: &mut Contents, root: &str, storages: &mut [Option<Stored>]) {
        self.describe(storages);
        let walk = Walk::new(self.pickle, root, self.extra);
        if !walk.is_complete {
            found.miss("has more or longer paths to its tensors than are followed");
        }
        for named in walk.found {
            self.entitle(&named, storages);
            let Named { name, tensor } = named;
            let (dtype, shape) = (tensor.dtype, counted_by_value(&tensor));
            match (self.place(&tensor, storages), dtype) {
                (Ok(range), Some(dtype)) => {
                    found.tensors.push(TensorInfo { name, dtype, shape, range });
                }
                (placed, _) => {
                    let reason = placed.err().unwrap_or(Reason::UnknownType);
                    found.others.push(OtherTensor { name, dtype, shape, reason });
                }
            }
        }
    }

    /// The place of a storage among all, if it is there as the pickle has it.
    fn find(
        &self,
        storage: torch_state::Storage,
        storages: &[Option<Stored>],
    ) -> Result<usize, Reason> {
        let i = (self.find)(self.pickle.text(storage.key))?;
        let stored = storages.get(i).and_then(Option::as_ref).ok_or(Reason::Missing)?;
        let width = torch_state::width(storage.kind).ok_or(Reason::UnknownType)?;
        let len = storage.count.checked_mul(width);
        if len == Some(stored.len()) { Ok(i) } else { Err(Reason::WrongLength) }
    }

    /// The bytes of a tensor in the file.
    fn place(
        &self,
        tensor: &Description,
        storages: &[Option<Stored>],
    ) -> Result<Range<u64>, Reason> {
        let i = self.find(tensor.storage, storages)?;
        let data = &storages[i].as_ref().ok_or(Reason::Missing)?.range;
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
    fn describe(&self, storages: &mut [Option<Stored>]) {
        for node in self.pickle.nodes() {
            if let Some(storage) = torch_state::storage(self.pickle, node) {
                let dtype = match storage.kind {
                    StorageKind::Typed(dtype) => Some(dtype),
                    StorageKind::Untyped => None,
                    StorageKind::Unknown => Some(Dtype::Bytes),
                };
                self.note(storages, storage, |known| known.dtype = known.dtype.or(dtype));
            }
            let Node::Object(object) = node else { continue };
            let Some(tensor) = torch_state::tensor(self.pickle, object) else { continue };
            let dtype = tensor.dtype.unwrap_or(Dtype::Bytes);
            let len = byte_len(&tensor, dtype);
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

    /// Calls the storage of a tensor after it, unless a better name is known.
    fn entitle(&self, Named { name, tensor }: &Named, storages: &mut [Option<Stored>]) {
        self.note(storages, tensor.storage, |known| {
            let len = tensor.dtype.and_then(|dtype| byte_len(tensor, dtype));
            let is_whole = len == Some(known.len())
                && known.dtype == tensor.dtype
                && tensor.offset == 0
                && innermost(tensor).is_some();
            let title = |new: fn(String, Vec<u64>) -> Title| {
                Some(new(name.clone(), counted_by_value(tensor)))
            };
            match known.title {
                Some(Title::Whole(..)) => {}
                _ if is_whole && is_contiguous(tensor) => known.title = title(Title::Whole),
                Some(Title::Turned(..)) => {}
                _ if is_whole => known.title = title(Title::Turned),
                None if len != Some(0) => known.title = Some(Title::Part(name.clone())),
                _ => {}
            }
        });
    }

    /// Notes something about a storage that is there.
    fn note(
        &self,
        storages: &mut [Option<Stored>],
        storage: torch_state::Storage,
        note: impl FnOnce(&mut Stored),
    ) {
        // A storage of elements that we do not have is there too, with any length.
        let known_kind = match storage.kind {
            StorageKind::Unknown => torch_state::Storage { kind: StorageKind::Untyped, ..storage },
            _ => storage,
        };
        if let Ok(i) = self.find(known_kind, storages)
            && let Some(known) = &mut storages[i]
        {
            note(known);
        }
    }
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

/// The number of elements of a shape, if it fits in 64 bits.
fn count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim))
}

fn byte_len(tensor: &Description, dtype: Dtype) -> Option<u64> {
    count(&tensor.shape)?.checked_mul(element_len(dtype))
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

/// The elements that follow each other along one dimension, in a tensor that has no gaps in memory,
/// in whatever order its dimensions are; None if it has gaps.
fn innermost(tensor: &Description) -> Option<u64> {
    let Description { shape, stride, .. } = tensor;
    if is_contiguous(tensor) {
        return Some(shape.last().copied().unwrap_or(1));
    }
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
    dims.first().filter(|_| is_dense).map(|&(_, dim)| dim)
}

/// Words in a row of a tensor that fills its storage, 0 if it is not a matrix. Rows are those in
/// memory: a matrix may be stored column by column.
fn row_len(tensor: &Description, dtype: Dtype) -> u64 {
    if tensor.shape.len() < 2 {
        return 0;
    }
    let last = innermost(tensor).unwrap_or(0);
    last.saturating_mul(element_len(dtype)) / dtype.width() as u64
}
