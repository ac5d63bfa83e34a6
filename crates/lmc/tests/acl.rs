//! Access lists (POSIX ACLs) make no result more open than its source.
#![cfg(target_os = "linux")]

use lmc::{FileState, Links, NewDirectory, Origin, Publish, Sandbox, Tree};
use rustix::fs::{XattrFlags, fgetxattr_query, fsetxattr};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// A list with permissions for the owner, user 12345, the group, the mask and others. Says whether
/// the file system has such lists.
fn set_list(path: &Path, name: &str, permissions: [u16; 5]) -> bool {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, allowed) in [0x01_u16, 0x02, 0x04, 0x10, 0x20].into_iter().zip(permissions) {
        let id = if tag == 0x02 { 12_345 } else { u32::MAX };
        bytes.extend([tag.to_le_bytes(), allowed.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    let is_set = fsetxattr(File::open(path).unwrap(), name, &bytes, XattrFlags::empty()).is_ok();
    if !is_set {
        lmc_testkit::skip(lmc_testkit::Missing::System, "the file system has no access lists");
    }
    is_set
}

fn has_list(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    [ACCESS, DEFAULT].iter().any(|name| fgetxattr_query(&file, *name).is_ok())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The permissions of a group are the mask of the list there. Nobody gets them who had less.
#[test]
fn a_list_of_a_source_opens_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("source")).unwrap();
    fs::create_dir(path("source/below")).unwrap();
    File::create(path("source/file")).unwrap();
    // The last one keeps out a user whom everyone's permissions would let in.
    let lists = [([7, 6, 0, 6, 0], 0o700), ([7, 7, 4, 6, 4], 0o744), ([7, 0, 6, 6, 6], 0o700)];
    for (list, wanted) in lists {
        for name in ["source", "source/below", "source/file"] {
            if !set_list(&path(name), ACCESS, list) {
                return;
            }
        }
        let file = FileState::of(File::open(path("source/file")).unwrap()).unwrap();
        for origin in [Origin::file(&file), Origin::part_of(&file)] {
            Publish::create(&path("result"), true, &origin).unwrap().commit().unwrap();
            assert_eq!(mode(&path("result")), wanted);
            fs::remove_file(path("result")).unwrap();
        }
        let tree = Tree::read(&path("source"), Links::Kept).unwrap();
        let states = tree.entries().iter().map(|entry| entry.state).chain([*tree.root()]);
        assert!(states.map(|state| state.plain_mode()).eq([wanted; 3]));

        // What takes the place of such a file is no more open either.
        for origin in [Origin::recorded(0o777, (0, 0)), Origin::nothing()] {
            File::create(path("replaced")).unwrap();
            assert!(set_list(&path("replaced"), ACCESS, list));
            Publish::create(&path("replaced"), true, &origin).unwrap().commit().unwrap();
            assert_eq!(mode(&path("replaced")) & !wanted, 0);
            fs::remove_file(path("replaced")).unwrap();
        }
    }
}

/// A folder gives its list to what is made in it. The permissions of a result are those of its
/// source, for nobody else.
#[test]
fn a_list_of_a_target_opens_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    if !set_list(folder.path(), DEFAULT, [7, 7, 7, 7, 0]) {
        return;
    }
    let origin = Origin::recorded(0o640, (0, 0));
    Publish::create(&path("file"), false, &origin).unwrap().commit().unwrap();
    Publish::create(&path("file"), true, &Origin::nothing()).unwrap().commit().unwrap();
    Publish::create(&path("new"), false, &origin).unwrap().commit().unwrap();
    let sandbox = Sandbox::open(folder.path(), false).unwrap();
    sandbox.make_dir(Path::new("made"), 0o750).unwrap();
    sandbox.finish_dir(Path::new("made"), &Origin::recorded_mode(0o750)).unwrap();
    NewDirectory::create(&path("whole")).unwrap().commit(Some(0o750)).unwrap();
    for (name, wanted) in [("file", 0o600), ("new", 0o640), ("made", 0o750), ("whole", 0o750)] {
        assert!(!has_list(&path(name)), "{name}");
        assert_eq!(mode(&path(name)), wanted, "{name}");
    }

    // A folder that was there keeps its list, and its mask grows no wider.
    fs::create_dir(path("there")).unwrap();
    assert!(set_list(&path("there"), ACCESS, [7, 7, 7, 5, 0]));
    let old = sandbox.make_dir(Path::new("there"), 0o777).unwrap();
    let origin = Origin::recorded_mode(0o777).in_place_of(old);
    sandbox.finish_dir(Path::new("there"), &origin).unwrap();
    assert!(has_list(&path("there")));
    assert_eq!(mode(&path("there")), 0o750);
}
