//! `bench` measures every engine and gives rows that other programs can read. Needs the feature
//! `bench`, which tests of the whole workspace have.
#![cfg(feature = "bench")]

use crate::common::{Folder, checkpoint, code, noise, safetensors, stderr, text, weights};

/// Name, type, shape and bytes.
type Tensor<'a> = (&'a str, &'a str, &'a [usize], &'a [u8]);

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

/// bf16 values of which one in a hundred moves by one unit of its last place.
fn moved(values: &[u8]) -> Vec<u8> {
    let place = noise(values.len(), 7);
    let step = |(value, place): (&[u8], &[u8])| {
        let bits = u16::from_le_bytes([value[0], value[1]]);
        let place = u16::from_le_bytes([place[0], place[1]]);
        (bits ^ u16::from(place % 100 == 0)).to_le_bytes()
    };
    values.chunks(2).zip(place.chunks(2)).flat_map(step).collect()
}

/// With a base there are rows with it and without, and on values that hardly moved ours are the
/// smallest; tensors without a base do no harm.
#[test]
fn rows_on_a_base() {
    let folder = Folder::new();
    let (w, other) = (weights(512 * 512, 1), weights(64, 2));
    let old: [Tensor; 2] = [("w", "BF16", &[512, 512], &w), ("gone", "BF16", &[64], &other)];
    let w = moved(&w);
    let new: [Tensor; 2] = [("w", "BF16", &[512, 512], &w), ("new", "BF16", &[64], &other)];
    folder.write("old.safetensors", &safetensors(&old));
    folder.write("new.safetensors", &safetensors(&new));
    let args = ["bench", "new.safetensors", "--base", "old.safetensors", "--repeats", "1"];
    let rows = folder.ok(&[&args[..], &["--json"]].concat());
    let rows: serde_json::Value = serde_json::from_slice(&rows).expect("JSON");
    let rows = rows.as_array().expect("an array");
    let names = rows.iter().map(|row| {
        let text = |field: &str| row[field].as_str().expect("text").to_owned();
        (text("engine"), text("level"), row["base"].as_bool().expect("true or false"))
    });
    let expected = [
        ("lmc", "fast", true),
        ("lmc", "default", true),
        ("lmc", "max", true),
        ("lmc", "paper", true),
        ("lmc", "default", false),
        ("memcpy", "", false),
        ("zstd", "3", true),
        ("bzip2", "9", true),
    ];
    let expected = expected.map(|(engine, level, base)| (engine.into(), level.into(), base));
    assert_eq!(names.collect::<Vec<_>>(), expected);
    let sizes: Vec<u64> = rows.iter().map(|row| row["bytes_out"].as_u64().expect("size")).collect();
    let others = sizes[3..].iter().min().expect("other rows");
    for (name, size) in ["fast", "default", "max"].iter().zip(&sizes) {
        assert!(size < others, "{name}: {sizes:?}");
    }
    let table = text(folder.ok(&args));
    assert!(table.contains("zstd -3, byte groups, on base"), "{table}");
    assert!(table.contains("with a base: 524288 bytes"), "{table}");
}

/// Files that are not of tensors have a base if they are as long; what has none is said so.
#[test]
fn bases_that_do_not_fit() {
    let folder = Folder::new();
    let values = weights(1 << 15, 3);
    folder.write("old.bin", &values);
    folder.write("new.bin", &moved(&values));
    folder.write("long.bin", &weights((1 << 15) + 1, 3));
    folder.write("x.safetensors", &checkpoint());
    folder.write("y.safetensors", &safetensors(&[("v", "U8", &[3], &[1, 2, 3])]));
    let bench = |file, base| folder.lmc(&["bench", file, "--base", base, "--repeats", "1"]);
    assert_eq!(code(&bench("new.bin", "old.bin")), 0);
    for (file, base, reason) in [
        ("new.bin", "long.bin", "differ in length"),
        ("new.bin", "none.bin", "cannot read its base none.bin"),
        ("x.safetensors", "y.safetensors", "no tensor of the same name"),
    ] {
        let output = bench(file, base);
        assert_eq!(code(&output), 1);
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
}
