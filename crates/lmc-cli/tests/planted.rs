//! Links that another user has put into a folder which everyone or a group writes to, such as
//! `/tmp`, lead nobody astray.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

use crate::common::{Folder, checkpoint, code, stderr};
use lmc_testkit::{Missing, skip};

/// Another user.
const OTHER: u32 = 12_345;

/// Every path below a folder, with what is in its files.
fn tree(folder: &Folder, name: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![name.to_string()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(folder.path(&dir)).expect("there").flatten() {
            let path = format!("{dir}/{}", entry.file_name().to_string_lossy());
            let is_dir = entry.file_type().expect("a type").is_dir();
            found.push((path.clone(), if is_dir { Vec::new() } else { folder.read(&path) }));
            open.extend(is_dir.then_some(path));
        }
    }
    found.sort();
    found
}

/// No command writes to what such a link leads to, whether it is the target, a folder on the way to
/// it or the store; and each says why.
#[test]
fn no_command_writes_behind_a_planted_link() {
    let folder = Folder::new();
    folder.write("ckpt/x", &checkpoint());
    folder.write("x", &checkpoint());
    folder.ok(&["compress", "ckpt"]);
    folder.ok(&["compress", "x"]);
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "ckpt", "--store", "store", "--run", "dir"]);
    folder.ok(&["save", "x", "--store", "store", "--run", "file"]);
    folder.write("victim/keep", b"precious");
    folder.write("victim/empty/keep", b"");
    fs::remove_file(folder.path("victim/empty/keep")).expect("ours");
    folder.ok(&["init", "victim/store"]);
    fs::create_dir(folder.path("shared")).expect("ours");
    symlink("../victim", folder.path("shared/link")).expect("a link");
    symlink("../victim/keep", folder.path("shared/file")).expect("a link");
    for link in ["shared/link", "shared/file"] {
        if lchown(folder.path(link), Some(OTHER), Some(OTHER)).is_err() {
            return skip(Missing::Root, "only root can give a link to another user");
        }
    }
    let set_mode = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path("shared"), mode).expect("ours");
    };
    // A link of one's own to the planted one.
    symlink("shared/link", folder.path("own")).expect("a link");
    set_mode(0o1777);
    let before = tree(&folder, "victim");
    let commands: [&[&str]; 21] = [
        &["compress", "x", "-o", "shared/link/new"],
        &["compress", "-f", "x", "-o", "shared/file"],
        &["compress", "-f", "x", "-o", "shared/link/keep"],
        &["compress", "-f", "ckpt", "-o", "shared/link"],
        &["compress", "ckpt", "-o", "shared/link/new"],
        &["compress", "ckpt", "-o", "shared/link/deep/new"],
        &["compress", "ckpt", "-o", "own/new"],
        &["decompress", "x.lmc", "-o", "shared/link/new"],
        &["decompress", "-f", "ckpt.lmc", "-o", "shared/link"],
        &["cat", "x.lmc", "w", "-o", "shared/link/new"],
        &["restore", "dir@latest", "shared/link/new", "--store", "store"],
        &["restore", "-f", "dir@latest", "shared/link", "--store", "store"],
        &["restore", "dir@latest", "shared/link/empty", "--store", "store"],
        &["restore", "file@latest", "shared/link", "--store", "store"],
        &["restore", "file@latest", "shared/link/new", "--store", "store"],
        &["export", "dir@latest", "-o", "shared/link/new", "--store", "store"],
        &["init", "shared/link/new"],
        &["init", "shared/link/deep/new"],
        &["init", "shared/link/empty"],
        &["save", "ckpt", "--store", "shared/link/store"],
        &["copy", "store", "shared/link/store"],
    ];
    for args in commands {
        let output = folder.lmc(args);
        assert_ne!(code(&output), 0, "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("a link that another user has put there"), "{args:?}: {said}");
        assert!(tree(&folder, "victim") == before, "{args:?}");
    }
    // It need not be as `/tmp` is: everyone may write to it, or a group.
    for (mode, args) in [0o777, 0o1775, 0o775, 0o703].into_iter().zip(commands.iter().cycle()) {
        set_mode(mode);
        for args in [args, commands[3], commands[11], commands[19]] {
            let output = folder.lmc(args);
            assert_ne!(code(&output), 0, "{mode:o} {args:?}");
            let said = stderr(&output);
            assert!(said.contains("another user has put there"), "{mode:o} {args:?}: {said}");
            assert!(tree(&folder, "victim") == before, "{mode:o} {args:?}");
        }
    }
    // In a folder that only its owner writes to, the link was put there on purpose.
    set_mode(0o755);
    folder.ok(&["compress", "x", "-o", "shared/link/new"]);
    folder.ok(&["restore", "dir@latest", "own/dir", "--store", "store"]);
    folder.ok(&["save", "ckpt", "--store", "shared/link/store"]);
    assert!(folder.exists("victim/new") && folder.exists("victim/dir/x"));
}

/// Nothing is removed behind such a link by `--rm`: not the file, nor the directory that it leads
/// to, nor what is below that.
#[test]
fn rm_removes_nothing_behind_a_planted_link() {
    let folder = Folder::new();
    folder.write("victim/dir/x", &checkpoint());
    folder.write("victim/x", b"x");
    folder.ok(&["compress", "victim/x"]);
    fs::create_dir(folder.path("shared")).expect("ours");
    symlink("../victim", folder.path("shared/link")).expect("a link");
    if lchown(folder.path("shared/link"), Some(OTHER), Some(OTHER)).is_err() {
        skip(Missing::Root, "only root can give a link to another user");
        return;
    }
    fs::set_permissions(folder.path("shared"), fs::Permissions::from_mode(0o777)).expect("ours");
    let before = tree(&folder, "victim");
    for args in [
        &["compress", "--rm", "shared/link", "-o", "out"][..],
        &["compress", "--rm", "shared/link/", "-o", "out"],
        &["compress", "--rm", "shared/link/dir", "-o", "out"],
        &["compress", "--rm", "shared/link/dir/..", "-o", "out"],
        &["compress", "--rm", "shared/link/x", "-o", "out"],
        &["decompress", "--rm", "shared/link/x.lmc", "-o", "out"],
    ] {
        let output = folder.lmc(args);
        assert_eq!(code(&output), 1, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("link"), "{args:?}: {}", stderr(&output));
        assert!(tree(&folder, "victim") == before && !folder.exists("out"), "{args:?}");
    }
    // Reading through it is left to the system.
    folder.ok(&["compress", "shared/link/dir", "-o", "out"]);
    fs::remove_dir_all(folder.path("out")).expect("ours");
    fs::set_permissions(folder.path("shared"), fs::Permissions::from_mode(0o755)).expect("ours");
    folder.ok(&["compress", "--rm", "shared/link/dir", "-o", "out"]);
    assert!(!folder.exists("victim/dir") && folder.exists("out/x.lmc"));
}

/// One's own links in such a folder are followed, and so are those of whoever owns it.
#[test]
fn other_links_are_followed() {
    let folder = Folder::new();
    folder.write("x", b"x");
    fs::create_dir(folder.path("real")).expect("ours");
    fs::create_dir(folder.path("shared")).expect("ours");
    symlink("../real", folder.path("shared/link")).expect("a link");
    for mode in [0o1777, 0o777, 0o2775] {
        fs::set_permissions(folder.path("shared"), fs::Permissions::from_mode(mode)).expect("ours");
        folder.ok(&["compress", "x", "-o", "shared/link/x.lmc"]);
        folder.ok(&["init", "shared/link/store"]);
        folder.ok(&["save", "x", "--store", "shared/link/store"]);
        assert!(folder.exists("real/x.lmc") && folder.exists("real/store/snapshots"));
        fs::remove_dir_all(folder.path("real")).expect("ours");
        fs::create_dir(folder.path("real")).expect("ours");
    }
    // The owner of a folder has a link in it, and its group writes there too.
    if lchown(folder.path("shared"), Some(OTHER), None).is_err() {
        skip(Missing::Root, "only root can give a folder to another user");
        return;
    }
    lchown(folder.path("shared/link"), Some(OTHER), None).expect("root");
    folder.ok(&["compress", "x", "-o", "shared/link/x.lmc"]);
    assert!(folder.exists("real/x.lmc"));
}
