//! `bench` measures every engine and gives rows that other programs can read.
#![cfg(feature = "bench")]

mod common;

use common::{Folder, checkpoint, text};

/// A row for every engine with all its fields, and times where the storage's speed is given.
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
