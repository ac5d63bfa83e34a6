//! Access lists (POSIX ACLs) of files and folders.
//!
//! A file that has one shows its mask, the most that anyone named in it may do, as the permissions
//! of its group. So these neither tell what the group may do, nor may they be set where a list is
//! left.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::io;

const ACCESS: &str = "system.posix_acl_access";
/// What is made in a folder gets this one.
const DEFAULT: &str = "system.posix_acl_default";
/// Bytes of a list that is looked at: some 500 entries.
const LEN_MAX: usize = 4096;
/// A version, then entries of a tag, permissions and an id.
const HEADER_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
const TAG_OWNER: u8 = 0x01;
const TAG_MASK: u8 = 0x10;
const TAG_OTHERS: u8 = 0x20;

/// The permissions (three bits) that the list of an open file gives to each and everyone but its
/// owner, if it has a list. One that is too long gives none.
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

/// Removes the lists that a new file or folder got from the folder that it was made in.
pub(crate) fn remove(made: impl AsFd) -> io::Result<()> {
    for name in [ACCESS, DEFAULT] {
        // Only what is there: some systems refuse the removal of what they do not know.
        if rustix::fs::fgetxattr_query(&made, name).is_ok() {
            rustix::fs::fremovexattr(&made, name)?;
        }
    }
    Ok(())
}
