//! Whether a manifest has room for everything that is to be saved. The user is told before the work
//! or as soon as it is certain, and not only when all the work is done.

use crate::layout::manifest::{ArchiveInfo, MANIFEST_LEN_MAX};
use crate::save::files::entry;
use crate::save::source::{Leaf, What};
use lmc_format::{Error, ErrorKind, Result};
use serde::Serialize;
use std::collections::HashSet;
use std::io::{self, Write};

/// The fewest bytes that an archive takes in a manifest.
const ARCHIVE_LEN_MIN: u64 = 100;

/// The bytes that are still free in a manifest.
#[derive(Debug)]
pub(crate) struct Room {
    entries: usize,
    left: u64,
}

impl Room {
    /// The room that the names of all entries leave; fails if it is not enough for their archives.
    pub(crate) fn beside(leaves: &[Leaf]) -> Result<Self> {
        Self::of(leaves, MANIFEST_LEN_MAX)
    }

    fn of(leaves: &[Leaf], len_max: u64) -> Result<Self> {
        let mut room = Self { entries: leaves.len(), left: len_max };
        // Files of different sizes are different, and each has its own archive.
        let mut sizes = HashSet::new();
        for leaf in leaves {
            room.take(&entry(leaf, 0))?;
            if let What::File(file) = &leaf.what {
                sizes.insert(file.size);
            }
        }
        if sizes.len() as u64 * ARCHIVE_LEN_MIN > room.left {
            return Err(room.too_small());
        }
        Ok(room)
    }

    /// Takes room for an archive.
    pub(crate) fn take_archive(&mut self, archive: &ArchiveInfo) -> Result<()> {
        self.take(archive)
    }

    fn take(&mut self, part: &impl Serialize) -> Result<()> {
        let mut len = Len(0);
        serde_json::to_writer(&mut len, part)
            .map_err(|e| Error::invalid(format!("cannot write the manifest: {e}")))?;
        match self.left.checked_sub(len.0) {
            Some(left) => self.left = left,
            None => return Err(self.too_small()),
        }
        Ok(())
    }

    fn too_small(&self) -> Error {
        let message = format!(
            "{} files and folders are more than one snapshot can list in {} MiB; save them as \
             several snapshots",
            self.entries,
            MANIFEST_LEN_MAX >> 20
        );
        Error::new(ErrorKind::LimitExceeded, message)
    }
}

/// Counts bytes.
struct Len(u64);

impl Write for Len {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::path::RelPath;
    use crate::save::source::{MemoryFile, in_memory};

    /// Names that fit are accepted and leave the right room; names that do not fit are refused
    /// before anything else is done.
    #[test]
    fn names_are_counted_before_the_work() {
        let bytes = [0; 64];
        let file = |i: usize| {
            let path = RelPath::new(format!("folder/file{i:05}").as_bytes()).unwrap();
            // Each file has a different size.
            MemoryFile { path, parts: vec![&bytes[..i % 64]], like: Vec::new() }
        };
        let files: Vec<MemoryFile> = (0..1000).map(file).collect();
        let leaves = in_memory(&files, 0).unwrap();
        let names =
            serde_json::to_vec(&leaves.iter().map(|leaf| entry(leaf, 0)).collect::<Vec<_>>());
        let names = names.unwrap().len() as u64;
        let archives = 64 * ARCHIVE_LEN_MIN;
        let room = Room::of(&leaves, names + archives).unwrap();
        // Except for the commas between them.
        assert!((archives..archives + 1100).contains(&room.left), "{room:?}");
        for len_max in [names / 2, names, names + archives - 1100] {
            let error = Room::of(&leaves, len_max).unwrap_err();
            assert_eq!(error.kind, ErrorKind::LimitExceeded);
            assert!(error.to_string().contains("1001 files"), "{error}");
        }
    }

    /// Archives are counted as they come.
    #[test]
    fn archives_are_counted_as_they_come() {
        let mut room = Room { entries: 1, left: 500 };
        let archive = ArchiveInfo {
            hash: 1,
            size: 2,
            stored: 3,
            alone: 4,
            read: 5,
            rent: 6,
            bases: Vec::new(),
            extents: Vec::new(),
            blake3: None,
        };
        let taken = (0..100).take_while(|_| room.take_archive(&archive).is_ok()).count();
        assert!((2..=5).contains(&taken), "{taken}");
        assert!(serde_json::to_vec(&archive).unwrap().len() as u64 >= ARCHIVE_LEN_MIN);
    }
}
