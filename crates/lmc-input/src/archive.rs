//! The contents of a zip file, of whichever library.

use crate::contents::{Contents, Format};
use crate::source::Source;
use crate::torch;
use crate::torch_state::Extra;
use crate::zip::Zip;
use crate::{dcp, hdf5, npy};

/// The most HDF5 files in a zip file. Keras has one.
const FILES_MAX: usize = 4;

/// The contents of a file that begins like a zip file.
pub(crate) fn find(source: &Source) -> Contents {
    match Zip::read(source) {
        // Several, one after the other.
        None => dcp::find(source, &[]).unwrap_or_else(|| {
            Contents::noted("begins like a zip file, but its directory is damaged or missing")
        }),
        Some(zip) => torch::find(source, &zip, Extra::ALONE)
            .or_else(|| npy::find_in(source, &zip))
            .or_else(|| find_hdf5(source, &zip))
            .unwrap_or_else(|| Contents::noted("is a zip file, but not of torch, NumPy or Keras")),
    }
}

/// The contents of the HDF5 files in a zip file; None if there are none.
fn find_hdf5(source: &Source, zip: &Zip) -> Option<Contents> {
    let mut found = Contents::new(Format::Keras);
    let mut count = 0;
    for entry in zip.entries() {
        let name = zip.name(entry);
        if !name.ends_with(b".h5") {
            continue;
        }
        count += 1;
        let name = String::from_utf8_lossy(name);
        let part = source.part(entry.data.clone())?;
        if count > FILES_MAX {
            found.miss("has more HDF5 files in it than are looked at");
        } else if !entry.is_plain() {
            found.miss(format!("has a part, {name}, that is compressed or encrypted"));
        } else {
            let mut inner = hdf5::find(&part);
            inner.is_complete &= inner.format != Format::Unknown;
            found.add_part(inner, entry.data.start, &name);
        }
    }
    (count > 0).then_some(found)
}
