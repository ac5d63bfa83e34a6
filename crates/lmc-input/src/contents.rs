//! What a file of any format holds.

use crate::safetensors_contents;
use crate::source::{ReadAt, Source};
use crate::{LayoutItem, TensorInfo, archive, gguf, hdf5, npy, onnx, torch_legacy};
use lmc_format::Dtype;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;

/// What a file holds, as far as its format is known.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The format that was recognised.
    pub format: Format,
    /// The stretches of the file that hold values: in order, not empty, not overlapping.
    pub data: Vec<Data>,
    /// Tensors whose bytes are together and in order, by each of their names. They may overlap:
    /// several can share a stretch.
    pub tensors: Vec<TensorInfo>,
    /// Tensors that are not, or that cannot be found.
    pub others: Vec<OtherTensor>,
    /// Whether these are all tensors.
    pub is_complete: bool,
    /// Why a file that begins like one of a known format is taken as bytes, or only in part. The
    /// text follows on "the file": "is a zip file, but its directory is damaged".
    pub note: Option<String>,
}

/// A stretch of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its bytes in the file.
    pub range: Range<u64>,
    /// Element type; None if it is unknown, and may be guessed.
    pub dtype: Option<Dtype>,
    /// Words in a row, 0 if it is not a matrix.
    pub row_len: u64,
    /// What it is called, which no other stretch of the file is. This is the name of the first
    /// tensor that covers it, or else something that stays the same from one training step to the
    /// next where there is such a thing.
    pub name: String,
    /// The dimensions of the tensor that covers it, or else the number of elements.
    pub shape: Vec<u64>,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Anything else; also a damaged file of a known format.
    Unknown,
    /// safetensors, whether or not the file ends where its tensors do.
    Safetensors,
    /// The zip file of torch.save.
    Torch,
    /// The zip file of torch.jit.save.
    TorchScript,
    /// What torch.save wrote before it wrote zip files.
    TorchLegacy,
    /// A file of torch.distributed.checkpoint.
    Dcp,
    /// An array of NumPy.
    Npy,
    /// A zip file of arrays of NumPy.
    Npz,
    /// A model of llama.cpp.
    Gguf,
    /// A model of ONNX.
    Onnx,
    /// HDF5, as of Keras.
    Hdf5,
    /// The zip file of Keras, with HDF5 in it.
    Keras,
}

impl Format {
    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "bytes",
            Self::Safetensors => "safetensors",
            Self::Torch => "torch.save",
            Self::TorchScript => "TorchScript",
            Self::TorchLegacy => "torch.save (legacy)",
            Self::Dcp => "torch.distributed.checkpoint",
            Self::Npy => "NumPy npy",
            Self::Npz => "NumPy npz",
            Self::Gguf => "GGUF",
            Self::Onnx => "ONNX",
            Self::Hdf5 => "HDF5",
            Self::Keras => "Keras",
        }
    }
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
#[non_exhaustive]
pub enum Reason {
    /// Its storage is not in the file.
    Missing,
    /// Its storage is compressed or encrypted.
    Packed,
    /// It is in another file.
    Elsewhere,
    /// Its values are written as numbers of variable length, or in several parts.
    Encoded,
    /// Its storage is not as long as the file says elsewhere.
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
            Self::Elsewhere => "it is in another file",
            Self::Encoded => "its values are not stored as they are in memory",
            Self::WrongLength => "its storage has another length",
            Self::UnknownType => "its type is unknown",
            Self::Strided => "it is a view with other strides",
            Self::Outside => "it goes beyond its storage",
        })
    }
}

/// What the name of a stretch begins with of which only a part is known.
pub(crate) const STORAGE_OF: &str = "storage of ";

/// Looks for the contents of a file of `len` bytes, of which only parts are read: a few small ones
/// if its format is unknown. An error is one of `read`.
pub fn contents(read: &ReadAt, len: u64) -> io::Result<Contents> {
    let source = Source::new(read, len);
    let found = find(&source).unwrap_or_else(Contents::unknown);
    source.finish(found)
}

/// Bytes at the start of a file by which its format is recognised.
const START_LEN: u64 = 32;

fn find(source: &Source) -> Option<Contents> {
    let start = source.bytes(0..source.len().min(START_LEN))?;
    let mut found = match &start[..] {
        [b'P', b'K', 3, 4, ..] => archive::find(source),
        [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => {
            Contents::noted("is a zip file that is empty or in several parts")
        }
        [0x93, ..] if start.starts_with(npy::MAGIC) => npy::find(source),
        [b'G', ..] if start.starts_with(gguf::MAGIC) => gguf::find(source),
        [0x89, ..] if start.starts_with(hdf5::MAGIC) => hdf5::find(source),
        [0x80, ..] if torch_legacy::is_legacy(&start) => torch_legacy::find(source),
        [0x80, 0..=5, ..] if is_pickle(source)? => Contents::noted("is a plain pickle"),
        _ => {
            let is_json = start.get(8) == Some(&b'{');
            let safetensors = is_json.then(|| safetensors_contents::find(source, &start)).flatten();
            match safetensors {
                Some(found) => found,
                None if onnx::may_be_model(&start) => onnx::find(source)?,
                None => return None,
            }
        }
    };
    found.tidy(source.len());
    Some(found)
}

/// Whether a file that begins like a pickle also ends like one.
fn is_pickle(source: &Source) -> Option<bool> {
    let end = source.bytes(source.len() - 1..source.len())?;
    Some(end == b".")
}

impl Contents {
    /// Nothing is known.
    pub(crate) fn unknown() -> Self {
        Self::new(Format::Unknown)
    }

    /// Nothing is known, because what is read needs a base that is not there.
    pub fn without_base() -> Self {
        Self::noted("shows what is in it only beside its base")
    }

    /// Nothing is known, and why.
    pub(crate) fn noted(note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::unknown() }
    }

    /// A file of a known format in which nothing has been found so far.
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            data: Vec::new(),
            tensors: Vec::new(),
            others: Vec::new(),
            is_complete: format != Format::Unknown,
            note: None,
        }
    }

    /// Marks that something could not be read; of several notes the first stays.
    pub(crate) fn miss(&mut self, note: impl Into<String>) {
        self.is_complete = false;
        self.note.get_or_insert_with(|| note.into());
    }

    /// About the bytes that all this takes, with `more` in each name.
    pub(crate) fn listing_len(&self, more: usize) -> usize {
        let one = |name: &str, shape: &[u64]| {
            size_of::<Data>() + 2 * (name.len() + more) + size_of_val(shape)
        };
        let data = self.data.iter().map(|data| one(&data.name, &data.shape));
        let tensors = self.tensors.iter().map(|tensor| one(&tensor.name, &tensor.shape));
        let others = self.others.iter().map(|other| one(&other.name, &other.shape));
        data.chain(tensors).chain(others).sum()
    }

    /// Adds what was found in a part of the file that begins at `start`, under `name`.
    pub(crate) fn add_part(&mut self, part: Self, start: u64, name: &str) {
        // Positions in a part that is in the file do not overflow.
        let shift = |range: Range<u64>| start + range.start..start + range.end;
        let below = |path: String| {
            if path.is_empty() { name.to_owned() } else { format!("{name}.{path}") }
        };
        self.data.extend(part.data.into_iter().map(|data| {
            let name = match data.name.strip_prefix(STORAGE_OF) {
                Some(path) => format!("{STORAGE_OF}{}", below(path.into())),
                None => below(data.name),
            };
            Data { range: shift(data.range), name, ..data }
        }));
        self.tensors.extend(part.tensors.into_iter().map(|tensor| TensorInfo {
            range: shift(tensor.range),
            name: below(tensor.name),
            ..tensor
        }));
        let others = part.others.into_iter();
        self.others.extend(others.map(|other| OtherTensor { name: below(other.name), ..other }));
        self.is_complete &= part.is_complete;
        if let Some(note) = part.note {
            self.note.get_or_insert(format!("has a part, {name}, that {note}"));
        }
    }

    /// Puts the data in order and gives each stretch a name of its own.
    pub(crate) fn tidy(&mut self, len: u64) {
        self.data.sort_by_key(|data| data.range.start);
        let mut end = 0;
        // Formats check this where they can say what is wrong; here it is made sure of.
        self.data.retain(|data| {
            let Range { start, end: data_end } = data.range;
            let is_next = end <= start && start < data_end && data_end <= len;
            end = if is_next { data_end } else { end };
            is_next
        });
        let mut counts: HashMap<String, u64> =
            self.data.iter().map(|data| (data.name.clone(), 0)).collect();
        for data in &mut self.data {
            while let Some(count) = counts.get_mut(&data.name) {
                *count += 1;
                if *count == 1 {
                    break;
                }
                let name = format!("{} ({count})", data.name);
                if !counts.contains_key(&name) {
                    counts.insert(name.clone(), 1);
                    data.name = name;
                    break;
                }
            }
        }
    }

    /// The items of a file of `len` bytes, back to back: data, and the bytes between.
    pub fn items(&self, len: u64) -> Vec<LayoutItem> {
        let mut items = Vec::new();
        let mut at = 0;
        let between = |len| LayoutItem { len, dtype: Some(Dtype::Bytes), row_len: 0 };
        for data in &self.data {
            let Range { start, end } = data.range;
            if at < start {
                items.push(between(start - at));
            }
            items.push(LayoutItem { len: end - start, dtype: data.dtype, row_len: data.row_len });
            at = end;
        }
        if at < len {
            items.push(between(len - at));
        }
        items
    }
}

impl Data {
    /// The stretch of a tensor that has it for itself.
    pub(crate) fn of(tensor: &TensorInfo) -> Self {
        let TensorInfo { name, dtype, shape, range } = tensor.clone();
        let row_len = row_len(dtype, &shape, range.end - range.start);
        Self { range, dtype: Some(dtype), row_len, name, shape }
    }
}

/// Such as "1 storage that is" or "2 storages that are".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun} that is") } else { format!("{count} {noun}s that are") }
}

/// Words in a row of a tensor of `len` bytes that is stored row by row, 0 if it is not a matrix.
pub(crate) fn row_len(dtype: Dtype, shape: &[u64], len: u64) -> u64 {
    let &[.., rows, columns] = shape else { return 0 };
    let bits = columns.saturating_mul(dtype.bits());
    let width = 8 * dtype.width() as u64;
    // With a packed type, a row may end within a byte; then there are no usable rows.
    if rows == 0 || len == 0 || !bits.is_multiple_of(width) { 0 } else { bits / width }
}
