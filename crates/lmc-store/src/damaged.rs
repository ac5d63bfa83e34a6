//! What a repair moved away: it may come back, and then it needs its packs and its tags. So a prune
//! looks through all of it for the names of packs, however long it is and whether it can be
//! understood or not.

use crate::Store;
use crate::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::names::{DAMAGED, PackName};
use crate::storage::Entry;
use lmc_format::{ErrorKind, Result};
use std::collections::HashSet;

/// Bytes that are looked through at once of what is too long to be a manifest.
const PIECE_LEN: u64 = 16 << 20;
/// Longest name of a pack, in bytes: a hash and a number.
const PACK_NAME_LEN_MAX: usize = 64 + 1 + 10;

/// What lies in `damaged/`.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    /// As run, page and name.
    pub keys: HashSet<String>,
    /// Objects of packs that it names.
    pub packs: HashSet<String>,
    /// Objects that cannot be understood.
    pub unreadable: Vec<String>,
}

/// What looks like the name of a pack in bytes that come piece by piece.
#[derive(Default)]
struct Names {
    /// The start of a word, as much of it as a name can be long and one byte more.
    word: Vec<u8>,
    /// Objects of packs.
    packs: HashSet<String>,
}

impl Names {
    fn add(&mut self, bytes: &[u8]) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        for piece in bytes.split_inclusive(|byte| !is_part(byte)) {
            let is_over = piece.last().is_some_and(|last| !is_part(last));
            let word = &piece[..piece.len() - usize::from(is_over)];
            let room = PACK_NAME_LEN_MAX + 1 - self.word.len();
            self.word.extend_from_slice(&word[..word.len().min(room)]);
            if is_over {
                self.end_word();
            }
        }
    }

    fn end_word(&mut self) {
        let name = std::str::from_utf8(&self.word).ok().and_then(PackName::parse);
        self.packs.extend(name.map(|name| name.object()));
        self.word.clear();
    }
}

impl Store {
    /// What lies in `damaged/` and the packs that it names.
    pub(crate) fn look_at_damaged(&self) -> Result<Damaged> {
        let mut damaged = Damaged::default();
        for entry in self.list_of(DAMAGED)? {
            match self.scan(&entry) {
                Ok((packs, is_manifest)) => {
                    damaged.packs.extend(packs);
                    if !is_manifest {
                        damaged.unreadable.push(entry.name.clone());
                    }
                    damaged.keys.insert(damaged_key(&entry.name).to_string());
                }
                // Another repair has brought it back, under a lease that names its packs.
                Err(e) if e.kind == ErrorKind::NotFound => {}
                Err(e) => return Err(e.at(format_args!("{}, so nothing was removed", entry.name))),
            }
        }
        Ok(damaged)
    }

    /// The packs that an object names, and whether it can be understood.
    fn scan(&self, entry: &Entry) -> Result<(HashSet<String>, bool)> {
        let size = entry.stat.size;
        let may_be_manifest = size <= MANIFEST_LEN_MAX;
        let piece_len = if may_be_manifest { size } else { PIECE_LEN };
        let (mut names, mut bytes, mut start) = (Names::default(), Vec::new(), 0);
        loop {
            let len = piece_len.min(size - start);
            bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
            self.storage.read(&entry.name, start, &mut bytes)?;
            names.add(&bytes);
            start += len;
            if start == size {
                break;
            }
        }
        names.end_word();
        Ok((names.packs, may_be_manifest && Manifest::parse(&bytes).is_ok()))
    }
}

/// Run, page and name of what was moved to this object. The names of snapshots have no dot in them;
/// what was moved away again has a number behind one.
pub(crate) fn damaged_key(object: &str) -> &str {
    let key = object.get(DAMAGED.len() + 1..).unwrap_or_default();
    match key.rsplit_once('.') {
        Some((first, number)) if !number.contains('/') => first,
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are found wherever the pieces are cut, and nothing else is.
    #[test]
    fn names_in_pieces() {
        let (one, two) = (PackName::of(b"1", 0), PackName::of(b"2", u32::MAX));
        let longer = format!("{}0", two.as_str());
        let text = format!("[\"{}\",5]{longer}\0{}x {}", one.as_str(), one.as_str(), two.as_str());
        for cut in 0..=text.len() {
            let mut names = Names::default();
            let (before, after) = text.as_bytes().split_at(cut);
            names.add(before);
            names.add(after);
            names.end_word();
            assert_eq!(names.packs, HashSet::from([one.object(), two.object()]), "{cut}");
        }
    }
}
