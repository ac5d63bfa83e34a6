//! Removes a file that was read, and no other.
//!
//! Another file may get the name at any moment, even between a look at it and its removal. So the
//! file is first renamed to a name that nobody knows and checked there. It is removed only if it is
//! the file that was read. Any other file gets its name back.

use crate::files::folder::{FileState, Folder, Links};
use crate::files::leftover::random_name;
use crate::files::publish::prefix;
use lmc_format::{Error, ErrorKind, Result};
use std::ffi::OsStr;

/// The ending of the names that files have just before they are removed. A process that is killed
/// at this moment leaves such a file.
const ENDING: &str = ".rm";

/// Removes a file from a folder, if it still matches `seen`: a file that got its name since then
/// stays, and so does one that was written to.
pub fn remove_seen(folder: &Folder, name: &OsStr, seen: &FileState) -> Result<()> {
    let now = folder.look(name, Links::Kept);
    if !now.is_ok_and(|now| seen.is_unchanged(&now)) {
        let message = "changed or replaced while it was worked on, so it is kept";
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    move_and_remove(folder, name, seen)
}

/// Removes the file that has the name now, if it matches `seen`. Otherwise it gets its name back,
/// or the error says which name it has.
fn move_and_remove(folder: &Folder, name: &OsStr, seen: &FileState) -> Result<()> {
    let aside = random_name(&prefix(name), ENDING);
    let cannot = |e| Error::io("cannot remove it", e);
    folder.rename(name, &aside, true).map_err(cannot)?;
    let error = match folder.look(&aside, Links::Kept) {
        // The rename itself has changed the time of the last change.
        Ok(moved) if seen.has_content_of(&moved) => match folder.unlink(&aside) {
            Ok(()) => return Ok(()),
            Err(e) => cannot(e),
        },
        Ok(_) => Error::new(ErrorKind::Conflict, "replaced while it was worked on, so it is kept"),
        Err(e) => Error::io("cannot check it before it is removed, so it is kept", e),
    };
    Err(give_back(folder, &aside, name, error))
}

/// Gives a file that was moved aside its name back, but does not replace a file that has got the
/// name since then: in that case the error says where the first file is.
fn give_back(folder: &Folder, aside: &OsStr, name: &OsStr, error: Error) -> Error {
    if folder.rename(aside, name, false).is_ok() {
        return error;
    }
    let message = format!("{error}; it is next to it now, as {}", aside.display());
    Error::new(error.kind, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A folder with a file in it, and the state of the file.
    fn folder() -> (tempfile::TempDir, Folder, FileState) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("file"), b"read").expect("ours");
        let seen = FileState::of_name(&dir.path().join("file")).expect("there");
        let folder = Folder::open(dir.path()).expect("there");
        (dir, folder, seen)
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("there").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// A file that was read is removed, and leaves nothing.
    #[test]
    fn what_was_read_goes() {
        let (dir, folder, seen) = folder();
        remove_seen(&folder, OsStr::new("file"), &seen).expect("it is what was read");
        assert!(names(dir.path()).is_empty());
    }

    /// A file that is renamed over another after the last look keeps its name, whatever it is. So
    /// does the file itself if it was written to.
    #[test]
    fn what_came_after_the_look_stays() {
        type Change = fn(&Path);
        let changes: [(Change, &str); 4] = [
            (
                |dir| {
                    fs::write(dir.join("new"), b"next").expect("ours");
                    fs::rename(dir.join("new"), dir.join("file")).expect("ours");
                },
                "next",
            ),
            (|dir| fs::write(dir.join("file"), b"longer than before").expect("ours"), "longer"),
            (
                |dir| {
                    fs::remove_file(dir.join("file")).expect("ours");
                    fs::create_dir(dir.join("file")).expect("ours");
                },
                "",
            ),
            (
                |dir| {
                    fs::rename(dir.join("file"), dir.join("old")).expect("ours");
                    std::os::unix::fs::symlink("old", dir.join("file")).expect("a link");
                },
                "read",
            ),
        ];
        for (change, content) in changes {
            let (dir, folder, seen) = folder();
            change(dir.path());
            let before = names(dir.path());
            let error = move_and_remove(&folder, OsStr::new("file"), &seen);
            let error = error.expect_err("it is another one").to_string();
            assert!(error.contains("kept"), "{error}");
            assert_eq!(names(dir.path()).len(), before.len(), "{error}");
            let file = dir.path().join("file");
            let found = fs::read_to_string(&file).unwrap_or_default();
            assert!(file.exists() && found.starts_with(content), "{found}");
        }
    }

    /// If a third file has the name when one is to get it back, both stay, and the error says
    /// where.
    #[test]
    fn a_name_that_is_taken_again_is_not_replaced() {
        let (dir, folder, _) = folder();
        let (aside, name) = (OsStr::new("aside"), OsStr::new("file"));
        fs::write(dir.path().join(aside), b"replaced").expect("ours");
        let cause = || Error::new(ErrorKind::Conflict, "replaced");
        let error = give_back(&folder, aside, name, cause()).to_string();
        assert_eq!(error, "replaced; it is next to it now, as aside");
        assert_eq!(fs::read(dir.path().join(aside)).expect("there"), b"replaced");
        assert_eq!(fs::read(dir.path().join(name)).expect("there"), b"read");
        fs::remove_file(dir.path().join(name)).expect("ours");
        assert_eq!(give_back(&folder, aside, name, cause()).to_string(), "replaced");
        assert_eq!(names(dir.path()), ["file"]);
    }
}
