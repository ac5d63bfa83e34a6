//! Emptying a folder, however deep what is in it goes.

use crate::folder::{FileKind, Folder, Links};
use crate::leftover::random_name;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;

/// Folders one in the other that are open at once while they are removed.
const CLEAR_DEPTH: usize = 4;

impl Folder {
    /// Removes all that is in it. What is deep inside is moved up first, so that few folders are open
    /// at once however deep they are.
    pub(crate) fn clear(&self) -> io::Result<()> {
        while !self.names()?.is_empty() {
            self.clear_below(self, CLEAR_DEPTH)?;
        }
        Ok(())
    }

    /// Removes what is in it down to this depth, and moves what is deeper to `top`. Where the system
    /// lets so few files be open that this is too deep, more is moved.
    fn clear_below(&self, top: &Self, depth: usize) -> io::Result<()> {
        for name in self.names()? {
            if self.look(&name, Links::Kept)?.kind != FileKind::Folder {
                self.unlink(&name)?;
                continue;
            }
            let is_top = depth == CLEAR_DEPTH;
            match self.clear_folder(&name, top, depth) {
                Ok(true) => rustix::fs::unlinkat(self, &name, AtFlags::REMOVEDIR)?,
                Err(e) if is_top || !is_too_many(&e) => return Err(e),
                Ok(false) | Err(_) => {
                    let free = random_name(".lmc-", ".gone");
                    rustix::fs::renameat(self, &name, top, &free)?;
                }
            }
        }
        Ok(())
    }

    /// Removes what is in a folder of this one; says whether that is not too deep.
    fn clear_folder(&self, name: &OsStr, top: &Self, depth: usize) -> io::Result<bool> {
        let below = self.folder(name, Links::Kept)?;
        // It may be closed to writing already.
        let _ = below.set_mode(0o700);
        if depth > 0 {
            below.clear_below(top, depth - 1)?;
        }
        Ok(depth > 0)
    }
}

/// Whether an error says that too many files are open.
fn is_too_many(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is much deeper than files may be open is removed.
    #[test]
    fn deep_folders_are_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        let mut folder = top.again().expect("open");
        for i in 0..1200 {
            folder.make_file(OsStr::new("file"), 0o600).expect("a file");
            if i % 7 == 0 {
                folder.make_folder(OsStr::new("beside")).expect("a folder");
            }
            folder = folder.make_folder(OsStr::new("d")).expect("a folder");
        }
        top.clear().expect("nothing is left of it");
        assert!(top.names().expect("open").is_empty());
    }
}
