//! A directory becomes a directory of .lmc files, and comes back byte for byte.

use crate::common;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::common::{Folder, checkpoint, code, noise, stderr};

fn shards(folder: &Folder) {
    folder.write("ckpt/model-00001-of-00002.safetensors", &checkpoint());
    folder.write("ckpt/model-00002-of-00002.safetensors", &checkpoint());
    folder.write("ckpt/model.safetensors.index.json", b"{\"weight_map\": {}}");
    folder.write("ckpt/nested/deep/tokenizer.bin", &noise(10_000, 1));
    folder.write("ckpt/nested/already.lmc", b"not really");
    fs::create_dir(folder.path("ckpt/empty")).expect("a directory");
}

/// Nested and empty directories, files of all kinds and names that end in .lmc come back.
#[test]
fn there_and_back() {
    let folder = Folder::new();
    shards(&folder);
    let mode = fs::Permissions::from_mode(0o750);
    fs::set_permissions(folder.path("ckpt/nested"), mode).expect("ours");
    folder.ok(&["compress", "ckpt/"]);
    assert!(folder.exists("ckpt.lmc/model-00001-of-00002.safetensors.lmc"));
    assert!(folder.exists("ckpt.lmc/nested/already.lmc.lmc"));
    fs::rename(folder.path("ckpt"), folder.path("original")).expect("ours");
    folder.ok(&["test", "ckpt.lmc"]);
    folder.ok(&["decompress", "ckpt.lmc"]);
    for name in [
        "model-00001-of-00002.safetensors",
        "model.safetensors.index.json",
        "nested/deep/tokenizer.bin",
        "nested/already.lmc",
    ] {
        let (old, new) = (format!("original/{name}"), format!("ckpt/{name}"));
        assert_eq!(folder.read(&new), folder.read(&old), "{name}");
    }
    assert!(folder.path("ckpt/empty").is_dir());
    let (old, new) = (fs::metadata(folder.path("original/nested")), folder.path("ckpt/nested"));
    let (old, new) = (old.expect("there"), fs::metadata(new).expect("there"));
    assert_eq!(new.permissions(), old.permissions());
    assert_eq!(new.modified().expect("a time"), old.modified().expect("a time"));
}

/// --rm leaves no trace of the old directory, and -o names the new one.
#[test]
fn rm_and_output() {
    let folder = Folder::new();
    shards(&folder);
    let time = |name: &str| fs::metadata(folder.path(name)).and_then(|m| m.modified()).ok();
    let old = time("ckpt/nested");
    folder.ok(&["compress", "--rm", "ckpt", "-o", "packed"]);
    assert_eq!(folder.names(), ["packed"]);
    assert_eq!(time("packed/nested"), old, "the time before files were removed");
    folder.ok(&["decompress", "--rm", "packed", "-o", "ckpt"]);
    assert_eq!(folder.names(), ["ckpt"]);
}

/// A directory that exists is written into with -f only.
#[test]
fn existing_directory() {
    let folder = Folder::new();
    shards(&folder);
    fs::create_dir(folder.path("ckpt.lmc")).expect("a directory");
    let output = folder.lmc(&["compress", "ckpt"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("-f"));
    folder.ok(&["compress", "-f", "ckpt"]);
}

/// Symbolic links are left out with a word about each, and the code says partial.
#[test]
fn links_are_left_out() {
    let folder = Folder::new();
    shards(&folder);
    symlink("model.safetensors.index.json", folder.path("ckpt/link")).expect("a link");
    let output = folder.lmc(&["compress", "ckpt"]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("lmc: ckpt/link: "), "{}", stderr(&output));
    assert!(!folder.exists("ckpt.lmc/link.lmc"));
}

/// A directory cannot go to stdout.
#[test]
fn stdout_is_refused() {
    let folder = Folder::new();
    shards(&folder);
    assert_eq!(code(&folder.lmc(&["compress", "-c", "ckpt"])), 1);
}

/// A directory without .lmc files is not said to be fine, and --rm removes nothing while links
/// would be left out.
#[test]
fn nothing_is_passed_over_in_silence() {
    let folder = Folder::new();
    shards(&folder);
    fs::remove_file(folder.path("ckpt/nested/already.lmc")).expect("it goes");
    for command in ["test", "list"] {
        let output = folder.lmc(&[command, "ckpt"]);
        assert_eq!(code(&output), 1, "{command}");
        assert!(stderr(&output).contains("directory"), "{}", stderr(&output));
    }
    symlink("model.safetensors.index.json", folder.path("ckpt/link")).expect("a link");
    let output = folder.lmc(&["compress", "--rm", "ckpt"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--rm is refused"), "{}", stderr(&output));
    assert!(folder.exists("ckpt/model-00001-of-00002.safetensors"));
    assert!(!folder.exists("ckpt.lmc"));
}

/// Names of every length come back, from compressed directories and from exports of stores; those
/// that have no room for the ending become folders.
#[test]
fn names_of_every_length() {
    let folder = Folder::new();
    let names: Vec<String> = (249..=255).map(|len| "n".repeat(len)).collect();
    for name in &names {
        folder.write(&format!("ckpt/{name}"), name.as_bytes());
        folder.write(&format!("ckpt/sub/{name}"), &checkpoint());
    }
    let long = format!("ckpt/{}", names[6]);
    fs::set_permissions(folder.path(&long), fs::Permissions::from_mode(0o640)).expect("ours");
    let check = |back: &str| {
        for name in names.iter().flat_map(|name| [name.clone(), format!("sub/{name}")]) {
            let (old, new) = (format!("ckpt/{name}"), format!("{back}/{name}"));
            assert!(folder.read(&new) == folder.read(&old), "{back}: {}", name.len());
        }
        assert_eq!(fs::read_dir(folder.path(back)).expect("there").count(), names.len() + 1);
    };
    folder.ok(&["compress", "ckpt"]);
    assert!(folder.exists(&format!("ckpt.lmc/{}.lmc", names[2])));
    let made = folder.path(&format!("ckpt.lmc/{}", names[6]));
    assert_eq!(fs::metadata(&made).expect("a folder").permissions().mode() & 0o777, 0o750);
    assert!(made.join(".lmc").is_file());
    folder.ok(&["test", "ckpt.lmc"]);
    folder.ok(&["decompress", "ckpt.lmc", "-o", "back"]);
    check("back");
    folder.ok(&["compress", "--rm", "back", "-o", "packed"]);
    assert!(!folder.exists("back"));
    folder.ok(&["decompress", "--rm", "packed", "-o", "back"]);
    assert!(!folder.exists("packed"));
    check("back");

    folder.ok(&["init", "store"]);
    folder.ok(&["save", "ckpt", "--store", "store"]);
    folder.ok(&["export", "latest", "-o", "exported", "--store", "store"]);
    folder.ok(&["decompress", "exported", "-o", "again"]);
    check("again");

    // A file that is named itself needs another name for its result.
    let output = folder.lmc(&["compress", &long]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("-o"), "{}", stderr(&output));
}

/// A file whose name cannot be recorded as that of a base is none: what was compressed beside it
/// comes back without a word about where to look.
#[test]
fn odd_names_of_bases_come_back() {
    let (full, rounded) = common::pair(1);
    for name in [&b"m\x01"[..], b"m\n", b"m\xff", b"\xc2\x85m"] {
        let folder = Folder::new();
        folder.write("d/w", &rounded);
        fs::write(folder.path("d").join(OsStr::from_bytes(name)), &full).expect("ours");
        folder.ok(&["compress", "--rm", "d"]);
        folder.ok(&["test", "d.lmc"]);
        folder.ok(&["decompress", "--rm", "d.lmc"]);
        assert!(folder.read("d/w") == rounded);
        assert!(fs::read(folder.path("d").join(OsStr::from_bytes(name))).expect("back") == full);
        assert_eq!(folder.names(), ["d"]);
        // The same against an older version in another directory.
        folder.ok(&["compress", "--rm", "d", "-o", "old.lmc"]);
        fs::create_dir(folder.path("d")).expect("ours");
        fs::write(folder.path("d").join(OsStr::from_bytes(name)), &full).expect("ours");
        folder.ok(&["compress", "--rm", "d", "--base", "old.lmc"]);
        folder.ok(&["test", "d.lmc"]);
    }
}

/// A base that is not found by its name is still told by its content: `--rm` keeps it for the file
/// that could not be restored.
#[test]
fn rm_keeps_a_base_that_is_not_found() {
    let folder = Folder::new();
    let (full, rounded) = common::pair(1);
    folder.write("d/m", &full);
    folder.write("d/n", &noise(1000, 1));
    folder.write("d/w", &rounded);
    folder.ok(&["compress", "--rm", "d"]);
    fs::rename(folder.path("d.lmc/m.lmc"), folder.path("d.lmc/a.lmc")).expect("ours");
    let output = folder.lmc(&["decompress", "--rm", "d.lmc"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(folder.exists("d.lmc/a.lmc") && folder.exists("d.lmc/w.lmc"));
    assert!(!folder.exists("d.lmc/n.lmc"), "nobody needs it");
    folder.ok(&["decompress", "-f", "--rm", "d.lmc", "--base", "d.lmc/a.lmc"]);
    assert!(folder.read("d/w") == rounded && !folder.exists("d.lmc"));
}
