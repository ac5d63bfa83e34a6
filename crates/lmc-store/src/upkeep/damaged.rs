//! What a repair moved away: it may come back, and then it needs its packs and its tags. A manifest
//! that is whole names them. Of any other, no byte is certain, nor where a name begins and ends: it
//! may need any pack, and all of them stay.

use crate::Store;
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::layout::names::{DAMAGED, SnapshotName, is_unreachable};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::HashSet;

/// What lies in `damaged/`.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    /// As run, page and name.
    pub keys: HashSet<String>,
    /// Objects of packs that whole manifests name.
    pub packs: HashSet<String>,
    /// Objects that are not whole manifests: whatever packs there are, these may need them.
    pub unreadable: Vec<String>,
    /// The same of objects that are too long to be read.
    pub too_long: Vec<String>,
    /// What was listed and not there any more when it was read, as run, page and name.
    pub gone: Vec<String>,
}

impl Store {
    /// What lies in `damaged/` and the packs that it names.
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

    /// Fails if a folder is in the place of an object, which has a run and a page before its name:
    /// no list shows it, and it may hold what somebody needs.
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
        // Other folders are nobody's.
        let is_object = |object: &&String| SnapshotName::parse(damaged_key(object)).is_some();
        match above.iter().find(is_object) {
            None => Ok(()),
            Some(object) => {
                let message = format!("{object} is a folder and no file, so nothing was removed");
                Err(Error::corrupt(message))
            }
        }
    }
}

/// Run, page and name of what was moved to this object. The names of snapshots have no dot in them;
/// what was moved away again has a number behind one.
pub(crate) fn damaged_key(object: &str) -> &str {
    let key = object.get(DAMAGED.len() + 1..).unwrap_or_default();
    match key.rsplit_once('.') {
        Some((first, number)) if number.bytes().all(|c| c.is_ascii_digit()) => first,
        _ => key,
    }
}
