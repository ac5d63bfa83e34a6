//! The names in a folder, and what is under each of them.

use super::{DiskStat, id, kind};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;

/// Calls `see` for every name in a folder.
pub(super) fn for_each_name(
    folder: &OwnedFd,
    mut see: impl FnMut(&CStr, FileType) -> io::Result<()>,
) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            see(entry.file_name(), entry.file_type())?;
        }
    }
    Ok(())
}

/// A name as text, with U+FFFD for bytes that are not UTF-8.
pub(super) fn shown(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

pub(super) fn is_utf8(name: &CStr) -> bool {
    name.to_str().is_ok()
}

/// What is known about a name in a folder; none if it is gone.
pub(super) fn look_at(folder: &OwnedFd, name: &CStr) -> io::Result<Option<DiskStat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(disk_stat(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn disk_stat(stat: &rustix::fs::Stat) -> DiskStat {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0).unsigned_abs();
    let size = if kind(stat) == FileType::RegularFile { stat.st_size } else { 0 };
    DiskStat {
        size: u64::try_from(size).unwrap_or(0),
        modified_ms: seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000),
        is_dir: kind(stat) == FileType::Directory,
        id: id(stat),
    }
}
