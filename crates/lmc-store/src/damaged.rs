//! What a repair moved away: it may come back, and then it needs its packs and its tags. So a prune
//! looks through it for the names of packs, whether it can be understood or not. What is too long to
//! be a manifest is not read: it may name any pack, and all of them stay.

use crate::Store;
use crate::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::names::{DAMAGED, PackName};
use lmc_format::{ErrorKind, Result};
use std::collections::HashSet;

/// What lies in `damaged/`.
#[derive(Debug, Default)]
pub(crate) struct Damaged {
    /// As run, page and name.
    pub keys: HashSet<String>,
    /// Objects of packs that it names.
    pub packs: HashSet<String>,
    /// Objects that cannot be understood.
    pub unreadable: Vec<String>,
    /// Objects that are too long to be read: whatever packs there are, these may name them.
    pub too_long: Vec<String>,
}

/// Objects of packs whose names, or what looks like them, stand in these bytes.
fn packs_in(bytes: &[u8]) -> HashSet<String> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let words = bytes.split(|byte| !is_part(byte)).filter_map(|word| str::from_utf8(word).ok());
    words.filter_map(PackName::parse).map(|name| name.object()).collect()
}

impl Store {
    /// What lies in `damaged/` and the packs that it names.
    pub(crate) fn look_at_damaged(&self) -> Result<Damaged> {
        let mut damaged = Damaged::default();
        for entry in self.list_of(DAMAGED)? {
            let read = match entry.stat.size > MANIFEST_LEN_MAX {
                true => Ok(None),
                false => self.storage.read_all(&entry.name, MANIFEST_LEN_MAX).map(Some),
            };
            match read {
                Ok(bytes) => {
                    damaged.keys.insert(damaged_key(&entry.name).to_string());
                    let Some(bytes) = bytes else {
                        damaged.too_long.push(entry.name);
                        continue;
                    };
                    damaged.packs.extend(packs_in(&bytes));
                    if Manifest::parse(&bytes).is_err() {
                        damaged.unreadable.push(entry.name);
                    }
                }
                // Another repair has brought it back, under a lease that names its packs.
                Err(e) if e.kind == ErrorKind::NotFound => {}
                Err(e) => return Err(e.at(format_args!("{}, so nothing was removed", entry.name))),
            }
        }
        Ok(damaged)
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

    /// Names are found wherever they stand, and nothing else is.
    #[test]
    fn names_in_bytes() {
        let (one, two) = (PackName::of(b"1", 0), PackName::of(b"2", u32::MAX));
        let longer = format!("{}0", two.as_str());
        let text = format!("[\"{}\",5]{longer}\0{}x {}", one.as_str(), one.as_str(), two.as_str());
        assert_eq!(packs_in(text.as_bytes()), HashSet::from([one.object(), two.object()]));
        assert_eq!(packs_in(one.as_str().as_bytes()), HashSet::from([one.object()]));
        assert_eq!(packs_in(b"\xff-"), HashSet::new());
    }
}
