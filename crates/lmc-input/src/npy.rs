//! The contents of the files of NumPy: an array with a header in front of it (npy), or a zip file
//! of those (npz).

use crate::TensorInfo;
use crate::contents::{Contents, Data, Format, OtherTensor, Reason, counted, row_len};
use crate::npy_header::{Header, Kind};
use crate::source::Source;
use crate::zip::Zip;
use std::ops::Range;

pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// What an array is called that has no name in its file.
const NAME: &str = "array";
/// How the names of entries end that are arrays.
const ENDING: &[u8] = b".npy";

/// The contents of a file that starts with [`MAGIC`].
pub(crate) fn find(source: &Source) -> Contents {
    let mut found = Contents::new(Format::Npy);
    match Array::read(source, 0..source.len()) {
        None => Contents::noted("begins like a NumPy file, but its header is not understood"),
        Some(array) => {
            array.add_to(&mut found, NAME.into());
            found
        }
    }
}

/// The contents of a zip file; None if no entry is an array.
pub(crate) fn find_in(source: &Source, zip: &Zip) -> Option<Contents> {
    let mut found = Contents::new(Format::Npz);
    let mut packed = 0_u64;
    let mut is_npz = false;
    for entry in zip.entries() {
        let Some(name) = zip.name(entry).strip_suffix(ENDING) else { continue };
        is_npz = true;
        let name = String::from_utf8_lossy(name).into_owned();
        if !entry.is_plain() {
            packed += 1;
            let (dtype, shape, reason) = (None, Vec::new(), Reason::Packed);
            found.others.push(OtherTensor { name, dtype, shape, reason });
        } else if let Some(array) = Array::read(source, entry.data.clone()) {
            array.add_to(&mut found, name);
        } else {
            found.miss(format!("has an array whose header is not understood, {name}"));
        }
    }
    if packed > 0 {
        let note = || format!("has {} compressed", counted(packed, "array"));
        found.note.get_or_insert_with(note);
    }
    is_npz.then_some(found)
}

/// An array in a part of a file.
struct Array {
    header: Header,
    /// The part of the file behind the header.
    place: Range<u64>,
}

impl Array {
    fn read(source: &Source, place: Range<u64>) -> Option<Self> {
        let (header, start) = Header::read(source, place.clone())?;
        Some(Self { header, place: start..place.end })
    }

    fn add_to(self, found: &mut Contents, name: String) {
        let Header { kind, size, fortran_order, shape } = self.header;
        let count = shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim));
        let count = if shape.contains(&0) { Some(0) } else { count };
        let end = count
            .and_then(|count| count.checked_mul(size?))
            .and_then(|len| len.checked_add(self.place.start));
        let place = self.place;
        // Only numbers have a type. Others may still be words for whoever compresses them.
        let dtype = match kind {
            Kind::Number(dtype) => Some(dtype),
            _ => None,
        };
        let in_order = !fortran_order || shape.iter().filter(|&&dim| dim != 1).count() < 2;
        let other = |shape, reason| OtherTensor { name: name.clone(), dtype, shape, reason };
        if kind == Kind::Objects {
            found.others.push(other(shape, Reason::UnknownType));
            found.note.get_or_insert_with(|| "holds a pickle of Python objects".into());
            return;
        }
        let Some(end) = end.filter(|&end| end <= place.end) else {
            found.others.push(other(shape, Reason::Missing));
            found.note.get_or_insert_with(|| "is cut off: an array is not whole".into());
            return;
        };
        if end < place.end {
            let more = place.end - end;
            found.note.get_or_insert_with(|| format!("has {more} bytes behind an array"));
        }
        let range = place.start..end;
        let words = match kind {
            Kind::Number(dtype) | Kind::Words(dtype) => Some(dtype),
            Kind::Objects | Kind::Unknown => None,
        };
        let len = end - place.start;
        // Rows are those in memory: in the order of Fortran, the first dimension is the innermost.
        let memory: Vec<u64> =
            if in_order { shape.clone() } else { shape.iter().rev().copied().collect() };
        let row_len = dtype.map_or(0, |dtype| row_len(dtype, &memory, len));
        let data = Data { range: range.clone(), dtype: words, row_len, name, shape };
        let (name, shape) = (data.name.clone(), data.shape.clone());
        match dtype {
            Some(dtype) if in_order => found.tensors.push(TensorInfo { name, dtype, shape, range }),
            _ => {
                let reason = if dtype.is_none() { Reason::UnknownType } else { Reason::Strided };
                found.others.push(OtherTensor { name, dtype, shape, reason });
            }
        }
        found.data.push(data);
    }
}
