//! The contents of a file of torch.save or TorchScript: a zip file with a pickle and, stored
//! uncompressed, the bytes of each storage.
//!
//! Nothing is ever unpickled: the pickle is read as data.

use crate::contents::{Contents, Format, Reason, counted};
use crate::pickle::{PICKLE_LEN_MAX, Pickle};
use crate::source::Source;
use crate::torch_state::Extra;
use crate::torch_storages::{Part, Stored};
use crate::zip::{Entry, Zip};
use std::collections::HashMap;

/// The pickles that are read, with the folders of their storages. TorchScript has both.
const PICKLES: [(&str, &str); 2] = [("data.pkl", "data"), ("constants.pkl", "constants")];
/// The order of bytes that we have types for.
const LITTLE_ENDIAN: &[u8] = b"little";

/// The contents of a zip file; None if it is not one of torch.
pub(crate) fn find(source: &Source, zip: &Zip, extra: Extra) -> Option<Contents> {
    let archive = Archive::new(zip)?;
    let is_script = archive.entry(PICKLES[1].0.as_bytes()).is_some();
    let mut found = Contents::new(if is_script { Format::TorchScript } else { Format::Torch });
    let mut storages = archive.storages();
    let packed = archive.packed();
    if packed > 0 {
        found.miss(format!("has {} compressed or encrypted", counted(packed, "storage")));
    }
    if archive.is_little_endian(source) {
        archive.read_pickles(source, extra, &mut found, &mut storages);
    } else {
        found.miss("was written in the other order of bytes");
    }
    for (entry, storage) in zip.entries().iter().zip(storages) {
        if let Some(storage) = storage {
            let path = || String::from_utf8_lossy(archive.path(entry)).into_owned();
            found.data.push(storage.data(path));
        }
    }
    Some(found)
}

fn read_pickle(source: &Source, entry: &Entry) -> Option<Pickle> {
    let is_readable = entry.is_plain() && entry.data.end - entry.data.start <= PICKLE_LEN_MAX;
    Pickle::read(source.bytes(is_readable.then(|| entry.data.clone())?)?)
}

/// The entries of a file of torch by name.
struct Archive<'z> {
    zip: &'z Zip,
    /// Bytes of the folder that everything is in, with its slash.
    root_len: usize,
    /// Entries by their paths below that folder.
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
        let archive = Self { zip, root_len: slash + 1, by_path };
        let data = archive.entry(PICKLES[0].0.as_bytes())?;
        zip.entries()[data].is_plain().then_some(archive)
    }

    /// The entry at a path below the folder.
    fn entry(&self, path: &[u8]) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// The path of an entry below the folder.
    fn path(&self, entry: &Entry) -> &'z [u8] {
        self.zip.name(entry).get(self.root_len..).unwrap_or_default()
    }

    fn is_little_endian(&self, source: &Source) -> bool {
        // Files of older versions do not say it.
        let Some(i) = self.entry(b"byteorder") else { return true };
        let Entry { data, .. } = &self.zip.entries()[i];
        let is_short = data.end - data.start == LITTLE_ENDIAN.len() as u64;
        is_short && source.bytes(data.clone()).is_some_and(|bytes| bytes == LITTLE_ENDIAN)
    }

    /// Entries that are storages by their names.
    fn storage_entries(&self) -> impl Iterator<Item = usize> {
        self.by_path.iter().filter_map(|(path, &i)| {
            let is_in = |folder: &str| {
                path.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
            };
            PICKLES.iter().any(|(_, folder)| is_in(folder)).then_some(i)
        })
    }

    /// The storages, by entry.
    fn storages(&self) -> Vec<Option<Stored>> {
        let entries = self.zip.entries();
        let mut storages = vec![None; entries.len()];
        for i in self.storage_entries().filter(|&i| entries[i].is_plain()) {
            storages[i] = Some(Stored::new(entries[i].data.clone()));
        }
        storages
    }

    /// How many storages are not stored as they are.
    fn packed(&self) -> u64 {
        self.storage_entries().filter(|&i| !self.zip.entries()[i].is_plain()).count() as u64
    }

    fn read_pickles(
        &self,
        source: &Source,
        extra: Extra,
        found: &mut Contents,
        storages: &mut [Option<Stored>],
    ) {
        for (pickle_name, folder) in PICKLES {
            let Some(entry) = self.entry(pickle_name.as_bytes()) else { continue };
            let Some(pickle) = read_pickle(source, &self.zip.entries()[entry]) else {
                found.miss(format!("has a pickle that is not understood, {pickle_name}"));
                continue;
            };
            let find = |key: &[u8]| {
                let path = [folder.as_bytes(), b"/", key].concat();
                let i = self.entry(&path).ok_or(Reason::Missing)?;
                if self.zip.entries()[i].is_plain() { Ok(i) } else { Err(Reason::Packed) }
            };
            let root = if folder == "data" { "" } else { folder };
            Part { pickle: &pickle, find: &find, extra }.add_to(found, root, storages);
        }
    }
}
