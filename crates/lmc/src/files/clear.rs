//! Empties a folder of any depth. Several threads may empty the same folder: an entry that another
//! thread has removed is gone, which is all that is wanted.

use crate::files::folder::{FileKind, Folder, Links, is_ours};
use crate::files::leftover::random_name;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;

/// Nested folders that are open at the same time while they are removed.
const CLEAR_DEPTH: usize = 4;

impl Folder {
    /// Removes everything in it. Deeply nested folders are moved up first, so that few folders are
    /// open at the same time, whatever the depth.
    pub(crate) fn clear(&self) -> io::Result<()> {
        // It may already have its final mode, which may lock us out or let others in.
        let _ = self.set_mode(0o700);
        let mut before = Vec::new();
        loop {
            let names = self.names_left()?;
            if names.is_empty() {
                return Ok(());
            }
            if names == before {
                // The system lists an entry that is not there.
                return Err(io::ErrorKind::NotFound.into());
            }
            self.clear_below(self, CLEAR_DEPTH)?;
            before = names;
        }
    }

    /// The names in it; none if the folder itself was removed.
    fn names_left(&self) -> io::Result<Vec<OsString>> {
        Ok(unless_gone(self.names())?.unwrap_or_default())
    }

    /// Removes everything in it down to this depth, and moves anything deeper to `top`. If the
    /// system allows too few open files for this depth, more is moved.
    fn clear_below(&self, top: &Self, depth: usize) -> io::Result<()> {
        for name in self.names_left()? {
            unless_gone(self.clear_name(&name, top, depth))?;
        }
        Ok(())
    }

    /// Removes the entry with this name, or moves it to `top` if it is too deep.
    fn clear_name(&self, name: &OsStr, top: &Self, depth: usize) -> io::Result<()> {
        if self.look(name, Links::Kept)?.kind != FileKind::Folder {
            return self.unlink(name);
        }
        let is_top = depth == CLEAR_DEPTH;
        match self.clear_folder(name, top, depth) {
            Ok(true) => Ok(rustix::fs::unlinkat(self, name, AtFlags::REMOVEDIR)?),
            Err(e) if is_top || !is_too_many(&e) => Err(e),
            cleared => {
                if cleared.is_err() {
                    let _ = self.unlock(name);
                }
                let free = random_name(".lmc-", ".gone");
                Ok(rustix::fs::renameat(self, name, top, &free)?)
            }
        }
    }

    /// Removes everything in a folder of this one; returns false if that is too deep.
    fn clear_folder(&self, name: &OsStr, top: &Self, depth: usize) -> io::Result<bool> {
        let below = match self.folder(name, Links::Kept) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                self.unlock(name)?;
                self.folder(name, Links::Kept)?
            }
            opened => opened?,
        };
        // It may already be closed to writing.
        let _ = below.set_mode(0o700);
        if depth > 0 {
            below.clear_below(top, depth - 1)?;
        }
        Ok(depth > 0)
    }

    /// Gives us access to a folder in this one by its name, since it cannot be opened. This is done
    /// only where nobody else can put a link there in the meantime, which would lead to another
    /// folder.
    fn unlock(&self, name: &OsStr) -> io::Result<()> {
        let (stat, below) = (rustix::fs::fstat(self)?, self.look(name, Links::Kept)?);
        let is_closed = is_ours(&stat) && stat.st_mode & 0o022 == 0;
        if !is_closed || below.kind != FileKind::Folder {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(rustix::fs::chmodat(self, name, Mode::RWXU, AtFlags::empty())?)
    }
}

/// The result, or none if the file was not there.
pub(crate) fn unless_gone<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
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
    use crate::files::leftover::Leftover;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::sync::Barrier;

    /// Folders that are nested much deeper than the limit on open files are removed.
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

    /// Two threads remove one directory at the same time: both succeed, and nothing is left.
    #[test]
    fn what_two_remove_at_once_is_gone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for _ in 0..60 {
            let top = Folder::open(dir.path()).expect("it is there");
            let leftover = Leftover::make_directory(top, ".lmc-").expect("a directory");
            let mut folder = leftover.content().expect("a directory").again().expect("open");
            for _ in 0..2 * CLEAR_DEPTH {
                for name in ["a", "b", "c"] {
                    folder.make_file(OsStr::new(name), 0o600).expect("a file");
                }
                folder.make_folder(OsStr::new("beside")).expect("a folder");
                folder = folder.make_folder(OsStr::new("d")).expect("a folder");
            }
            let start = Barrier::new(2);
            let remove = || {
                start.wait();
                leftover.remove()
            };
            std::thread::scope(|scope| {
                let threads = [scope.spawn(remove), scope.spawn(remove)];
                for thread in threads {
                    thread.join().expect("no panic").expect("nothing is left of it");
                }
            });
            assert_eq!(std::fs::read_dir(dir.path()).expect("open").count(), 0);
        }
    }

    /// Runs a test of this module again as a user who is bound by modes; false if the current user
    /// already is.
    fn is_done_as_another(test: &str) -> bool {
        if !rustix::process::geteuid().is_root() {
            return false;
        }
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", &format!("files::clear::tests::{test}")]).uid(12_345).gid(12_345);
        match command.current_dir("/").output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(e) => lmc_testkit::skip(
                lmc_testkit::Missing::Root,
                &format!("another user cannot run this test: {e}"),
            ),
        }
        true
    }

    /// Folders that are closed to their owner are removed with their contents, however deep.
    #[test]
    fn closed_folders_are_removed() {
        if is_done_as_another("closed_folders_are_removed") {
            return;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        for mode in [0o000, 0o100, 0o200, 0o400, 0o500, 0o077] {
            let mut folders = vec![top.again().expect("open")];
            for _ in 0..3 * CLEAR_DEPTH {
                let last = folders.last().expect("one");
                last.make_file(OsStr::new("file"), 0o600).expect("a file");
                folders.push(last.make_folder(OsStr::new("d")).expect("a folder"));
            }
            folders.iter().rev().for_each(|folder| folder.set_mode(mode).expect("ours"));
            top.clear().expect("nothing is left of it");
            assert!(top.names().expect("open").is_empty(), "{mode:o}");
        }
    }

    /// Where others may write, no mode is set by name, because the name could be a link by then.
    #[test]
    fn no_mode_is_set_by_a_name_that_others_may_replace() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        let below = top.make_folder(OsStr::new("d")).expect("a folder");
        below.set_mode(0o500).expect("ours");
        top.make_link(OsStr::new("link"), OsStr::new("d")).expect("a link");
        for mode in [0o777, 0o770, 0o702] {
            top.set_mode(mode).expect("ours");
            top.unlock(OsStr::new("d")).expect_err("others may write there");
        }
        top.set_mode(0o700).expect("ours");
        top.unlock(OsStr::new("link")).expect_err("a link");
        assert_eq!(below.state().expect("open").mode, 0o500);
        top.unlock(OsStr::new("d")).expect("ours alone");
        assert_eq!(below.state().expect("open").mode, 0o700);
    }
}
