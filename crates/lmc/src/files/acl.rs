//! Access lists (POSIX ACLs) of files and folders.
//!
//! If a file has an access list, its group permissions show the mask of the list, which is the most
//! that anyone named in it may do. So the group permissions do not tell what the group may do, and
//! they must not be set while the list remains.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::io;

const ACCESS: &str = "system.posix_acl_access";
/// Anything created in a folder inherits this list.
const DEFAULT: &str = "system.posix_acl_default";
/// Most bytes of a list that are read: some 500 entries.
const LEN_MAX: usize = 4096;
/// A version; then come entries of a tag, permissions and an id.
const HEADER_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
const TAG_OWNER: u8 = 0x01;
const TAG_MASK: u8 = 0x10;
const TAG_OTHERS: u8 = 0x20;

/// The permissions (three bits) that the access list of an open file gives to everyone but its
/// owner, if it has a list. A list that is too long gives none.
pub(crate) fn for_everyone(file: impl AsFd) -> Option<u32> {
    let mut bytes = [0; LEN_MAX];
    match rustix::fs::fgetxattr(file, ACCESS, &mut bytes) {
        Ok(len) => Some(common(&bytes[HEADER_LEN.min(len)..len])),
        Err(Errno::RANGE) => Some(0),
        Err(_) => None,
    }
}

fn common(entries: &[u8]) -> u32 {
    let entries = || entries.chunks_exact(ENTRY_LEN).map(|entry| (entry[0], u32::from(entry[2])));
    let mask = entries().find(|(tag, _)| *tag == TAG_MASK).map_or(0o7, |(_, mask)| mask);
    entries().fold(0o7, |all, (tag, allowed)| match tag {
        TAG_OWNER | TAG_MASK => all,
        TAG_OTHERS => all & allowed,
        _ => all & allowed & mask,
    })
}

/// Removes the lists that a new file or folder inherited from its folder.
pub(crate) fn remove(made: impl AsFd) -> io::Result<()> {
    for name in [ACCESS, DEFAULT] {
        // Only lists that are there: some systems refuse to remove lists that they do not know.
        if rustix::fs::fgetxattr_query(&made, name).is_ok() {
            rustix::fs::fremovexattr(&made, name)?;
        }
    }
    Ok(())
}
