//! Whatever goes in comes back byte for byte, with its mode and time.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::common::{Folder, checkpoint, code, noise, stderr};

/// Every level restores a checkpoint, a file of noise, one byte and nothing at all.
#[test]
fn every_level_restores_every_file() {
    let levels: [&[&str]; 5] =
        [&[], &["--fast"], &["--max"], &["--codec", "paper"], &["--no-verify", "-T", "1"]];
    for level in levels {
        let folder = Folder::new();
        for (name, bytes) in [
            ("a.safetensors", checkpoint()),
            ("b", noise(70_000, 1)),
            ("c", vec![7]),
            ("d", vec![]),
        ] {
            folder.write(name, &bytes);
            folder.ok(&[&["compress", "--rm", name], level].concat());
            assert!(!folder.exists(name), "{name} should be gone with --rm");
            folder.ok(&["decompress", &format!("{name}.lmc")]);
            assert_eq!(folder.read(name), bytes, "{name} {level:?}");
        }
    }
}

/// The input stays by default, and `lmc -d` restores under the old name.
#[test]
fn input_is_kept_and_short_form_restores() {
    let folder = Folder::new();
    folder.write("x", b"some bytes");
    folder.ok(&["compress", "x"]);
    assert_eq!(folder.names(), ["x", "x.lmc"]);
    fs::remove_file(folder.path("x")).expect("x is there");
    folder.ok(&["-d", "x.lmc"]);
    assert_eq!(folder.read("x"), b"some bytes");
    assert_eq!(folder.names(), ["x", "x.lmc"], "no temporary file is left");
    folder.ok(&["-dfk", "x.lmc"]);
}

/// Mode and time of change follow the file there and back.
#[test]
fn mode_and_time_are_kept() {
    let folder = Folder::new();
    let path = folder.write("x", b"some bytes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("our own file");
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    File::options().write(true).open(&path).and_then(|f| f.set_modified(time)).expect("ours");
    folder.ok(&["compress", "x", "--rm"]);
    folder.ok(&["decompress", "x.lmc"]);
    for name in ["x.lmc", "x"] {
        let metadata = fs::metadata(folder.path(name)).expect("it was made");
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o640, "{name}");
        assert_eq!(metadata.modified().expect("a time"), time, "{name}");
    }
}

/// The output is the same for any number of threads.
#[test]
fn threads_do_not_change_the_output() {
    let folder = Folder::new();
    folder.write("x", &checkpoint());
    folder.ok(&["compress", "x", "-T", "1", "-o", "one"]);
    folder.ok(&["compress", "x", "-T", "5", "-o", "five"]);
    assert_eq!(folder.read("one"), folder.read("five"));
}

/// A line a file tells the sizes; -q is silent, -v adds the speed, and no bar is drawn into a pipe.
#[test]
fn summaries() {
    let folder = Folder::new();
    folder.write("x", &[0; 100_000]);
    let line = stderr(&folder.lmc(&["compress", "x"]));
    assert!(line.starts_with("x: ") && line.contains("x (100000 -> "), "{line}");
    assert!(line.ends_with(" bytes, x.lmc)\n") && line.lines().count() == 1, "{line}");
    assert!(stderr(&folder.lmc(&["compress", "-fv", "x"])).contains("GiB/s"));
    let quiet = folder.lmc(&["-dqf", "x.lmc"]);
    assert_eq!((code(&quiet), stderr(&quiet).as_str()), (0, ""));
}
