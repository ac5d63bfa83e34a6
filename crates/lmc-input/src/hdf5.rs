//! The contents of an HDF5 file, as Keras writes them: groups of datasets.
//!
//! Datasets that are stored in one piece are found, in groups of the old kind and in small ones of
//! the new kind. Chunked ones and large groups of the new kind are not followed.

use crate::TensorInfo;
use crate::contents::{Contents, Data, Format, OtherTensor, Reason, counted};
use crate::hdf5_group::{self, Links};
use crate::hdf5_object::{Header, Layout, UNDEFINED};
use crate::little_endian::u64_at;
use crate::source::Source;
use crate::torch_state::LISTING_MAX;
use std::collections::HashSet;
use std::ops::Range;

pub(crate) const MAGIC: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// The most groups and datasets, and the deepest group.
const OBJECTS_MAX: u32 = 1 << 20;
const DEPTH_MAX: usize = 64;
/// The longest path and the longest name in one, and the most bytes of all names.
const PATH_LEN_MAX: usize = 1 << 12;
pub(crate) const NAME_LEN_MAX: usize = 1 << 12;
const NAMES_LEN_MAX: usize = 1 << 27;
/// The most bytes that are read of everything that is not a dataset. Several links may lead to the
/// same object.
const BYTES_MAX: u64 = 1 << 28;
/// What it costs to read at all, in bytes.
const READ_COST: u64 = 256;

/// A file of which only so much is read.
pub(crate) struct File<'s> {
    source: &'s Source<'s>,
    bytes_left: u64,
    names_left: usize,
}

impl File<'_> {
    /// The bytes of a range that should be in the file.
    pub(crate) fn bytes(&mut self, start: u64, len: u64) -> Option<Vec<u8>> {
        let end = start.checked_add(len).filter(|&end| end <= self.source.len())?;
        let left = self.bytes_left.checked_sub(len.saturating_add(READ_COST));
        self.bytes_left = left.unwrap_or(0);
        left?;
        self.source.bytes(start..end)
    }

    /// A name that will be kept for a while.
    pub(crate) fn name(&mut self, bytes: &[u8]) -> Option<String> {
        self.names_left = self.names_left.checked_sub(bytes.len())?;
        (bytes.len() <= NAME_LEN_MAX).then(|| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The contents of a file that should start with [`MAGIC`].
pub(crate) fn find(source: &Source) -> Contents {
    let mut file = File { source, bytes_left: BYTES_MAX, names_left: NAMES_LEN_MAX };
    let Some((root, end)) = root(&mut file) else {
        return Contents::noted("is HDF5 of a kind that is not understood");
    };
    let mut walk = Walk {
        file,
        found: Contents::new(Format::Hdf5),
        groups: HashSet::new(),
        objects_left: OBJECTS_MAX,
        listing_left: LISTING_MAX,
        damaged: 0,
        packed: 0,
    };
    if walk.visit(root, &mut String::new(), 0).is_none() {
        walk.found.miss("has more groups and datasets than are looked at");
    }
    if end > source.len() {
        let missing = end - source.len();
        walk.found.note = Some(format!("is cut off: {missing} bytes are missing at its end"));
    }
    if walk.damaged > 0 {
        walk.found.miss(format!("has {} damaged", counted(walk.damaged, "object")));
    }
    if walk.packed > 0 {
        let note = format!("has {} compressed or in chunks", counted(walk.packed, "dataset"));
        walk.found.note.get_or_insert(note);
    }
    walk.found
}

/// The address of the root group, and where the file should end. Addresses must have 64 bits and
/// count from the start of the file.
fn root(file: &mut File) -> Option<(u64, u64)> {
    let head = file.bytes(0, 8 + 88.min(file.source.len().checked_sub(8)?))?;
    let (sizes, base_at, end_at, root_at) = match head.get(8)? {
        0 => (13, 24, 40, 64),
        1 => (13, 28, 44, 68),
        2 | 3 => (9, 12, 28, 36),
        _ => return None,
    };
    let is_known = head.starts_with(MAGIC)
        && head.get(sizes..sizes + 2)? == [8, 8]
        && u64_at(&head, base_at)? == 0;
    is_known.then_some((u64_at(&head, root_at)?, u64_at(&head, end_at)?))
}

struct Walk<'s> {
    file: File<'s>,
    found: Contents,
    /// Those that have been visited: each is, once.
    groups: HashSet<u64>,
    objects_left: u32,
    listing_left: usize,
    damaged: u64,
    packed: u64,
}

impl Walk<'_> {
    /// Looks at the object at an address; None once there has been enough.
    fn visit(&mut self, address: u64, path: &mut String, depth: usize) -> Option<()> {
        self.objects_left = self.objects_left.checked_sub(1)?;
        let Some(header) = Header::read(&mut self.file, address) else {
            self.damaged += 1;
            return (self.file.bytes_left > 0).then_some(());
        };
        if header.is_dataset() {
            return self.add(&header, path);
        }
        if !self.groups.insert(address) {
            return Some(());
        }
        if depth == DEPTH_MAX {
            self.found.miss("has deeper groups than are looked at");
            return Some(());
        }
        let Links { links, is_complete } = hdf5_group::links(&mut self.file, &header);
        if !is_complete {
            self.found.miss("has a group whose list of members is not understood");
        }
        let path_len = path.len();
        for (name, address) in links {
            if path_len > 0 {
                path.push('/');
            }
            path.push_str(&name);
            if path.len() <= PATH_LEN_MAX {
                self.visit(address, path, depth + 1)?;
            } else {
                self.found.miss("has longer paths than are followed");
            }
            path.truncate(path_len);
        }
        Some(())
    }

    /// Adds a dataset.
    fn add(&mut self, header: &Header, path: &str) -> Option<()> {
        let Some(dataset) = header.dataset() else {
            self.damaged += 1;
            return Some(());
        };
        let cost = 2 * (path.len() + size_of::<Data>() + 8 * dataset.shape.len());
        self.listing_left = self.listing_left.checked_sub(cost)?;
        let (name, dtype, shape) = (path.to_owned(), dataset.dtype, dataset.shape);
        let count = shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim));
        let count = if shape.contains(&0) { Some(0) } else { count };
        let len = count.and_then(|count| count.checked_mul(dataset.size));
        let place = match dataset.layout {
            _ if len == Some(0) => Ok(0..0),
            Layout::Whole(Range { start: UNDEFINED, .. }) => Err(Reason::Missing),
            Layout::Whole(place) => match len.and_then(|len| place.start.checked_add(len)) {
                Some(end) if end > place.end => Err(Reason::WrongLength),
                Some(end) if end <= self.file.source.len() => Ok(place.start..end),
                _ => Err(Reason::Missing),
            },
            Layout::Elsewhere => Err(Reason::Elsewhere),
            Layout::Chunks { is_packed } => {
                self.packed += 1;
                Err(if is_packed { Reason::Packed } else { Reason::Encoded })
            }
        };
        let reason = match (place, dtype) {
            (Ok(range), Some(dtype)) => {
                let tensor = TensorInfo { name, dtype, shape, range };
                self.found.data.push(Data::of(&tensor));
                self.found.tensors.push(tensor);
                return Some(());
            }
            (Ok(range), None) => {
                let len = vec![range.end - range.start];
                let (data_name, row_len) = (name.clone(), 0);
                let data = Data { range, dtype: None, row_len, name: data_name, shape: len };
                self.found.data.push(data);
                Reason::UnknownType
            }
            (Err(reason), _) => reason,
        };
        self.found.others.push(OtherTensor { name, dtype, shape, reason });
        Some(())
    }
}
