//! What the command says about itself: completions, man pages, the demo and the bench.

mod common;

use common::{Folder, checkpoint, code};

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// Every shell gets a script that knows the commands.
#[test]
fn shells() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(folder.ok(&["completions", shell]));
        assert!(script.contains("decompress") && script.contains("inspect"), "{shell}");
    }
}

/// The man page names every command; each command has a page with its options.
#[test]
fn man_pages() {
    let folder = Folder::new();
    let page = text(folder.ok(&["man"]));
    assert!(page.contains(".TH lmc 1") && page.contains("decompress"), "{page}");
    let page = text(folder.ok(&["man", "compress"]));
    assert!(page.contains("no\\-verify"), "{page}");
    assert_eq!(code(&folder.lmc(&["man", "no-such"])), 2);
}

/// The demo restores what it made, at every level.
#[test]
fn demo() {
    let table = text(Folder::new().ok(&["demo", "--size-mib", "2"]));
    for word in ["fast", "default", "max", "paper", "second moments", "byte for byte"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

/// A row for every engine with all its fields, and times where the storage's speed is given.
#[cfg(feature = "bench")]
#[test]
fn bench_rows() {
    let folder = Folder::new();
    folder.write("x.safetensors", &checkpoint());
    let args = ["bench", "--json", "--repeats", "1", "--storage-gbps", "1.5", "x.safetensors"];
    let rows: serde_json::Value = serde_json::from_slice(&folder.ok(&args)).expect("JSON");
    let rows = rows.as_array().expect("an array");
    let names: Vec<String> = rows
        .iter()
        .map(|row| format!("{}{}", row["engine"].as_str().expect("a name"), row["level"]))
        .collect();
    for name in ["memcpy\"\"", "lmc\"default\"", "lmc\"paper\"", "zstd\"1\"", "xz\"1\""] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    assert_eq!(rows.iter().filter(|row| row["grouped"] == true).count(), 5);
    for row in rows {
        assert_eq!(row["threads"], 1);
        assert_eq!(row["bytes_in"], checkpoint().len());
        for field in ["bytes_out", "compress_gib_s", "decompress_gib_s", "save_s", "load_s"] {
            assert!(row[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {row}");
        }
    }
    let table =
        text(folder.ok(&["bench", "--repeats", "1", "--storage-dir", ".", "x.safetensors"]));
    assert!(table.contains("zstd -1, byte groups") && table.contains("storage at"), "{table}");
}
