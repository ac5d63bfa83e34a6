use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that changes while its names are read is read again.
#[test]
fn a_folder_that_changes_is_read_again() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    std::fs::write(&old, b"").unwrap();
    // Changes within one tick of the file system's clock would have the same time.
    File::open(root.path()).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let disk = RealDisk::new(root.path(), Access::Private);
    let looks = AtomicUsize::new(0);
    let seen = disk.look_into(root.path(), |folder| {
        if looks.fetch_add(1, Ordering::SeqCst) == 0 {
            std::fs::rename(&old, &new)?;
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for_each_name(folder, |name, _| {
            names.push(shown(name));
            Ok(())
        })?;
        Ok(names)
    });
    assert_eq!(seen.unwrap(), ["new"]);
    assert_eq!(looks.load(Ordering::SeqCst), 2);
}
