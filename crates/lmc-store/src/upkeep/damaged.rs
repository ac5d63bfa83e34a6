//! Manifests that a repair moved away. They may come back, and then they need their packs and their
//! tags. A whole manifest names them. In any other, no byte is certain, nor where a name begins and
//! ends: it may need any pack, so all packs stay.

use crate::Store;
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::layout::names::{DAMAGED, SnapshotName, is_unreachable};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// The contents of `damaged/`.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    /// Snapshots as run, page and name.
    pub keys: HashSet<String>,
    /// Objects of packs that whole manifests name.
    pub packs: HashSet<String>,
    /// Objects that are not whole manifests: they may need any pack.
    pub unreadable: Vec<String>,
    /// The same for objects that are too long to be read.
    pub too_long: Vec<String>,
    /// Objects that were listed but gone when they were read, as run, page and name.
    pub gone: Vec<String>,
}

impl Damaged {
    /// Leaves out objects whose snapshots exist or were forgotten: a snapshot of which that is
    /// known does not need packs that only its damaged manifest names.
    pub(crate) fn forgive(&mut self, is_known: impl Fn(&str) -> bool) {
        let may_come_back = |object: &String| !is_known(damaged_key(object));
        self.unreadable.retain(may_come_back);
        self.too_long.retain(may_come_back);
    }

    /// Whether an object may need any pack, so that all packs stay.
    pub(crate) fn keeps_all(&self) -> bool {
        !self.unreadable.is_empty() || !self.too_long.is_empty()
    }
}

impl Store {
    /// The contents of `damaged/`, and the packs that they name.
    pub(crate) fn look_at_damaged(&self) -> Result<Damaged> {
        let mut damaged = Damaged::default();
        for entry in self.list_of(DAMAGED)? {
            let key = damaged_key(&entry.name).to_string();
            if is_unreachable(&entry.name) {
                damaged.unreadable.push(entry.name);
                continue;
            }
            let read = match entry.stat.size > MANIFEST_LEN_MAX {
                true => Ok(None),
                false => self.storage.read_all(&entry.name, MANIFEST_LEN_MAX).map(Some),
            };
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(e) if e.kind == ErrorKind::NotFound => {
                    damaged.gone.push(key);
                    continue;
                }
                Err(e) => return Err(e.at(format_args!("{}, so nothing was removed", entry.name))),
            };
            let name = SnapshotName::parse(&key);
            damaged.keys.insert(key);
            let Some(bytes) = bytes else {
                damaged.too_long.push(entry.name);
                continue;
            };
            match name.and_then(|name| Manifest::read(&bytes, &name).ok()) {
                Some(whole) => {
                    damaged.packs.extend(whole.packs.iter().map(|pack| pack.name.object()));
                }
                None => damaged.unreadable.push(entry.name),
            }
        }
        self.refuse_folders()?;
        Ok(damaged)
    }

    /// Fails if a folder has the name of an object (a name after a run and a page): no list shows
    /// the folder, and it may hold something that somebody needs.
    fn refuse_folders(&self) -> Result<()> {
        let mut above = vec![DAMAGED.to_string()];
        for _ in 0..3 {
            let mut folders = Vec::new();
            for folder in &above {
                let below = self.storage.folders(folder)?;
                folders.extend(below.iter().map(|name| format!("{folder}/{name}")));
            }
            above = folders;
        }
        // Other folders are not ours.
        let is_object = |object: &&String| SnapshotName::parse(damaged_key(object)).is_some();
        match above.iter().find(is_object) {
            None => Ok(()),
            Some(object) => {
                let message = format!("{object} is a folder, not a file, so nothing was removed");
                Err(Error::corrupt(message))
            }
        }
    }
}

/// Run, page and name of the manifest that was moved to this object. The names of snapshots contain
/// no dot. A manifest that was moved away again has a dot and a number after its name.
pub(crate) fn damaged_key(object: &str) -> &str {
    let key = object.get(DAMAGED.len() + 1..).unwrap_or_default();
    match key.rsplit_once('.') {
        Some((first, number)) if number.bytes().all(|c| c.is_ascii_digit()) => first,
        _ => key,
    }
}
