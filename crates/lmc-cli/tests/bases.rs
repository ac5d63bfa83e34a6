//! Files on bases: restored with the right one, wherever it stands; refused, with a word about what
//! is needed and nothing written, with any other.

use crate::common;
use std::fs;

use crate::common::{Folder, code, noise, safetensors, stderr, text, weights};
use serde_json::Value;

/// A checkpoint of two matrices, with some values changed.
fn checkpoint(changes: usize) -> Vec<u8> {
    let mut w = weights(300 * 512, 1);
    let mut b = weights(100 * 1000, 2);
    for i in 0..changes {
        w[(i * 7919 * 2) % (300 * 512)] ^= 1;
        b[(i * 104_729 * 2) % (100 * 1000)] ^= 1;
    }
    safetensors(&[("w", "BF16", &[300, 512], &w), ("b", "BF16", &[100, 1000], &b)])
}

/// A folder with `old` and `new`, and `new.lmc` on `old`.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("old", &checkpoint(0));
    folder.write("new", &checkpoint(100));
    folder.ok(&["compress", "new", "--base", "old"]);
    assert!(folder.read("new.lmc").len() < 20_000);
    fs::rename(folder.path("new"), folder.path("kept")).expect("ours");
    folder
}

/// The base is found beside the file, raw or compressed, or taken from where --base says.
#[test]
fn bases_are_found() {
    let folder = folder();
    let restored = |args: &[&str]| {
        folder.ok(&[&["decompress", "-f", "new.lmc"], args].concat());
        assert_eq!(folder.read("new"), checkpoint(100));
        folder.ok(&[&["test", "new.lmc"], args].concat());
    };
    restored(&[]);
    folder.ok(&["compress", "--rm", "old"]);
    restored(&[]);
    fs::create_dir(folder.path("dir")).expect("ours");
    fs::rename(folder.path("old.lmc"), folder.path("dir/old.lmc")).expect("ours");
    restored(&["--base", "dir"]);
    fs::rename(folder.path("dir/old.lmc"), folder.path("dir/other")).expect("ours");
    restored(&["--base", "dir/other"]);
    restored(&["--base", "kept", "--base", "dir/other"]);
    let rows = folder.ok(&["cat", "new.lmc", "b", "--rows", "40..50", "--base", "dir/other"]);
    let all = folder.ok(&["cat", "new.lmc", "b", "--base", "dir/other"]);
    assert_eq!(rows, all[40 * 2000..50 * 2000]);
}

/// A chain of three, each on the one before, all beside each other; a missing link is named.
#[test]
fn chains() {
    let folder = Folder::new();
    for (i, name) in ["a", "b", "c", "d"].iter().enumerate() {
        folder.write(name, &checkpoint(50 * i));
    }
    folder.ok(&["compress", "a"]);
    for (name, base) in [("b", "a.lmc"), ("c", "b.lmc"), ("d", "c.lmc")] {
        folder.ok(&["compress", name, "--base", base]);
    }
    for name in ["a", "b", "c"] {
        fs::remove_file(folder.path(name)).expect("ours");
    }
    folder.ok(&["decompress", "d.lmc", "-o", "back"]);
    assert_eq!(folder.read("back"), checkpoint(150));
    folder.ok(&["test", "d.lmc"]);
    fs::rename(folder.path("a.lmc"), folder.path("hidden")).expect("ours");
    let output = folder.lmc(&["decompress", "d.lmc", "-o", "no"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("base a of "), "{}", stderr(&output));
    assert!(!folder.exists("no"));
    folder.ok(&["decompress", "d.lmc", "-o", "yes", "--base", "hidden"]);
}

/// What a failed restore says, and that it leaves nothing behind.
fn refused(folder: &Folder, args: &[&str], expected: i32) -> String {
    let names = folder.names();
    let mut said = String::new();
    for command in [&["decompress", "new.lmc", "-o", "out"][..], &["test", "new.lmc"]] {
        let output = folder.lmc(&[command, args].concat());
        assert_eq!(code(&output), expected, "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
        said = stderr(&output);
    }
    let output = folder.lmc(&[&["decompress", "-c", "new.lmc"], args].concat());
    assert!(output.stdout.is_empty(), "nothing goes to stdout");
    assert_eq!(folder.names(), names, "nothing is left behind");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// A missing base, another one, one that was cut off or damaged, and one of another type.
#[test]
fn other_bases_are_refused() {
    let folder = folder();
    let listed: Value =
        serde_json::from_slice(&folder.ok(&["list", "--json", "new.lmc"])).expect("JSON");
    let hash = listed[0]["bases"][0]["content_hash"].as_str().expect("a hash").to_string();
    let old = folder.read("old");
    folder.ok(&["compress", "old"]);
    let packed = folder.read("old.lmc");
    fs::remove_file(folder.path("old.lmc")).expect("ours");
    fs::remove_file(folder.path("old")).expect("ours");
    let is_named = |said: &str| {
        assert!(said.contains("base old of ") && said.contains(&hash), "{said}");
    };
    is_named(&refused(&folder, &[], 1));
    is_named(&refused(&folder, &["--base", "kept"], 1));
    let floats: Vec<u8> =
        weights(300 * 512, 1).chunks(2).flat_map(|v| [0, 0, v[0], v[1]]).collect();
    folder.write("f32", &safetensors(&[("w", "F32", &[300, 512], &floats)]));
    is_named(&refused(&folder, &["--base", "f32"], 1));
    folder.write("old", &old[..old.len() - 1]);
    is_named(&refused(&folder, &[], 1));
    let mut damaged = old.clone();
    damaged[100_000] ^= 1;
    folder.write("old", &damaged);
    is_named(&refused(&folder, &[], 1));
    fs::remove_file(folder.path("old")).expect("ours");
    folder.write("old.lmc", &packed[..packed.len() / 2]);
    is_named(&refused(&folder, &[], 4));
    let said = refused(&folder, &["--base", "old.lmc"], 4);
    assert!(said.contains("base old.lmc"), "{said}");
    let mut damaged = packed.clone();
    damaged[packed.len() / 3] ^= 1;
    folder.write("old.lmc", &damaged);
    let output = folder.lmc(&["decompress", "new.lmc", "-o", "out"]);
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("old.lmc: span"), "{}", stderr(&output));
    assert!(!folder.exists("out"));
}

/// A base that is not there, is the file itself or would be replaced is refused before any work.
#[test]
fn bases_that_cannot_be() {
    let folder = Folder::new();
    folder.write("a", &checkpoint(0));
    folder.write("b", &checkpoint(9));
    folder.ok(&["compress", "a"]);
    for args in [
        &["compress", "b", "--base", "none"][..],
        &["compress", "b", "--base", "b"],
        &["compress", "b", "--base", "b", "--rm"],
        &["compress", "b", "-f", "--base", "a.lmc", "-o", "a.lmc"],
    ] {
        let before = folder.names();
        let output = folder.lmc(args);
        assert_eq!(code(&output), 1, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("base"), "{}", stderr(&output));
        assert_eq!(folder.names(), before);
    }
    folder.ok(&["test", "a.lmc"]);
    folder.write("noise", &noise(1000, 3));
    folder.ok(&["compress", "b", "--base", "noise"]);
    fs::remove_file(folder.path("noise")).expect("ours");
    folder.ok(&["test", "b.lmc"]);
}

/// Directories: each file on the one of its name; bf16 weights on the f32 ones beside them, also
/// when the files are removed one by one.
#[test]
fn directories() {
    let folder = Folder::new();
    let floats = |seed: u64| -> Vec<u8> {
        let (low, high) = (noise(300 * 512 * 2, seed + 9), weights(300 * 512, seed));
        let pairs = low.chunks(2).zip(high.chunks(2));
        pairs.flat_map(|(low, high)| [low[0], low[1], high[0], high[1]]).collect()
    };
    let write = |dir: &str, seed: u64, changes: usize| {
        let master = floats(seed);
        let cut: Vec<u8> = master.chunks(4).flat_map(|v| [v[2], v[3]]).collect();
        let file = |dtype, bytes: &[u8]| safetensors(&[("w", dtype, &[300, 512], bytes)]);
        folder.write(&format!("{dir}/a-bf16.safetensors"), &file("BF16", &cut));
        folder.write(&format!("{dir}/f32.safetensors"), &file("F32", &master));
        folder.write(&format!("{dir}/sub/x.safetensors"), &checkpoint(changes));
        folder.write(&format!("{dir}/only-{dir}"), b"text");
    };
    write("one", 1, 0);
    write("two", 1, 20);
    folder.ok(&["compress", "one"]);
    assert!(folder.read("one.lmc/a-bf16.safetensors.lmc").len() < 1000);
    assert!(folder.read("one.lmc/f32.safetensors.lmc").len() > 300_000);
    folder.ok(&["compress", "two", "--base", "one.lmc"]);
    assert!(folder.read("two.lmc/f32.safetensors.lmc").len() < 1000);
    assert!(folder.read("two.lmc/sub/x.safetensors.lmc").len() < 10_000);
    folder.ok(&["test", "two.lmc", "--base", "one"]);
    folder.ok(&["decompress", "two.lmc", "--base", "one.lmc", "-o", "back"]);
    folder.ok(&["compress", "--rm", "two", "-o", "packed"]);
    assert!(!folder.exists("two"));
    folder.ok(&["decompress", "--rm", "packed", "-o", "again"]);
    assert!(!folder.exists("packed"));
    write("two", 1, 20);
    for name in ["a-bf16.safetensors", "f32.safetensors", "sub/x.safetensors", "only-two"] {
        let original = folder.read(&format!("two/{name}"));
        assert!(folder.read(&format!("back/{name}")) == original, "{name}");
        assert!(folder.read(&format!("again/{name}")) == original, "{name}");
    }
}

/// list tells what each tensor is on without the base, and how the base differs where it is there;
/// inspect shows the references.
#[test]
fn list_and_inspect() {
    let folder = folder();
    fs::rename(folder.path("old"), folder.path("hidden")).expect("ours");
    let table = text(folder.ok(&["list", "new.lmc"]));
    assert!(table.lines().next().is_some_and(|line| line.ends_with(" on")), "{table}");
    assert!(table.lines().nth(1).is_some_and(|line| line.ends_with(" old")), "{table}");
    let inspected = text(folder.ok(&["inspect", "new.lmc"]));
    assert!(inspected.contains("base          old, ") && inspected.contains(" old at "));
    let json: Value =
        serde_json::from_slice(&folder.ok(&["inspect", "--json", "new.lmc"])).expect("JSON");
    assert_eq!(json["spans"][1]["reference"]["source"], 1);
    let other = safetensors(&[
        ("w", "BF16", &[200, 256], &weights(200 * 256, 1)),
        ("b", "F32", &[100, 1000], &noise(400_000, 1)),
        ("c", "BF16", &[100, 1000], &weights(100 * 1000, 2)),
    ]);
    folder.write("other", &other);
    folder.ok(&["compress", "other", "--base", "hidden"]);
    let table = text(folder.ok(&["list", "other.lmc"]));
    assert!(table.contains("base differs: shape [300, 512]"), "{table}");
    assert!(table.contains("base differs: dtype BF16"), "{table}");
    assert!(table.lines().nth(3).is_some_and(|line| line.ends_with(" hidden")), "{table}");
}

/// diff counts what changed, and names what only one of them has.
#[test]
fn diff() {
    let folder = Folder::new();
    let (w, b) = (weights(300 * 512, 1), weights(100 * 1000, 2));
    let mut changed = w.clone();
    changed[2000] ^= 1;
    let file = |name: &str, parts: &[(&str, &str, &[usize], &[u8])]| {
        folder.write(name, &safetensors(parts));
    };
    file(
        "a",
        &[("w", "BF16", &[300, 512], &w), ("b", "BF16", &[100, 1000], &b), ("x", "U8", &[1], &[1])],
    );
    file(
        "c",
        &[
            ("w", "BF16", &[300, 512], &changed),
            ("b", "BF16", &[1000, 100], &b),
            ("y", "U8", &[1], &[1]),
        ],
    );
    folder.ok(&["compress", "c", "--base", "a"]);
    for new in ["c", "c.lmc"] {
        let json: Value =
            serde_json::from_slice(&folder.ok(&["diff", "a", new, "--json"])).expect("JSON");
        assert_eq!(json["tensors"][0]["unchanged"], 300 * 512 - 1);
        assert_eq!(json["total"]["values"], 300 * 512);
        assert_eq!(json["reshaped"][0]["name"], "b");
        assert_eq!(json["only_old"][0], "x");
        assert_eq!(json["only_new"][0], "y");
        let bits = json["tensors"][0]["bits_a_value"].as_f64().expect("a number");
        assert!(bits < 0.5, "{bits}");
        let table = text(folder.ok(&["diff", "a", new]));
        assert!(table.contains("x: only in the old one"), "{table}");
    }
    assert_eq!(code(&folder.lmc(&["diff", "a", "none"])), 1);
}

/// Files without tensors are compared byte by byte.
#[test]
fn diff_of_other_files() {
    let folder = Folder::new();
    folder.write("a", b"some text that is no checkpoint");
    folder.write("same", b"some text that is no checkpoint");
    folder.write("b", b"some TEXT that is no checkpoint at all");
    folder.write("c", &checkpoint(0));
    let diff = |new: &str| text(folder.ok(&["diff", "a", new]));
    assert_eq!(diff("same"), "the same 31 bytes\n");
    let expected = "not both have tensors with names, so bytes are compared: 31 bytes and 38, 4 of \
                    the first 31 differ, from byte 5 on\n";
    assert_eq!(diff("b"), expected);
    assert!(diff("c").contains("from byte 0 on") && diff("c").contains("only in the new one"));
    folder.ok(&["compress", "b"]);
    let json = folder.ok(&["diff", "a", "b.lmc", "--json"]);
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(
        (&json["bytes"]["same_bytes"], &json["bytes"]["first_difference"]),
        (&27.into(), &5.into())
    );
}

/// A base that nothing was taken from is reported, unless quiet, and is no longer needed.
#[test]
fn a_base_of_no_use() {
    let folder = folder();
    folder.write("noise", &common::noise(50_000, 9));
    let output = folder.lmc(&["compress", "noise", "--base", "old"]);
    assert!(stderr(&output).contains("noise: its base did not help"), "{}", stderr(&output));
    let output = folder.lmc(&["compress", "-f", "-q", "noise", "--base", "old"]);
    assert_eq!(stderr(&output), "");
    let output = folder.lmc(&["compress", "-f", "new", "--base", "old"]);
    assert!(!stderr(&output).contains("did not help"), "{}", stderr(&output));
    fs::remove_file(folder.path("old")).expect("ours");
    folder.ok(&["decompress", "noise.lmc", "-o", "back"]);
}

/// A chain that is too long says so in one short line, and what to do.
#[test]
fn chains_that_are_too_long() {
    let folder = Folder::new();
    folder.write("0", &checkpoint(0));
    for i in 1..100 {
        let (name, base) = (i.to_string(), format!("{}.lmc", i - 1));
        let base = if i == 1 { "0" } else { &base };
        folder.write(&name, &checkpoint(i));
        let output = folder.lmc(&["compress", "--fast", "--rm", &name, "--base", base]);
        let line = stderr(&output);
        if code(&output) != 0 {
            assert!(i > 60 && line.len() < 250 && line.lines().count() == 1, "{i}: {line}");
            assert!(line.contains("more than 64 files") && line.contains("older --base"), "{line}");
            return;
        }
    }
    panic!("a chain of 100 files was made");
}
