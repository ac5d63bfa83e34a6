//! A save by several processes: two parts, and a commit that has the rest of the files.

use super::sources::Content;
use lmc_store::{MemoryFile, PartialSnapshot, RelPath, Result, SaveOptions, Saved, Store};

const PARTS: usize = 2;

/// Saves plain files in parts; an error ends what was begun, as far as that can be.
pub fn save_together(store: &Store, content: &Content, options: &SaveOptions) -> Result<Saved> {
    let files: Vec<MemoryFile> = content
        .iter()
        .filter(|(_, (kind, ..))| *kind == 'f')
        .map(|(path, (.., bytes))| MemoryFile {
            path: RelPath::new(path).expect("a path"),
            parts: vec![bytes],
            like: Vec::new(),
        })
        .collect();
    let share = |own: usize| -> Vec<MemoryFile> {
        files.iter().skip(own).step_by(PARTS + 1).cloned().collect()
    };
    let mut parts: Vec<PartialSnapshot> = Vec::new();
    let mut save = || {
        for own in 0..PARTS {
            parts.push(store.save_part(&share(own), options)?);
        }
        store.commit_parts(&parts, &share(PARTS), options)
    };
    let saved = save();
    if saved.is_err() {
        let _ = store.abandon_parts(&parts);
    }
    saved
}
