//! `list` and `inspect` tell what is in a file, as tables and as JSON.

use crate::common;
use crate::common::{Folder, checkpoint, code};
use serde_json::Value;

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// Every tensor has its name, type, shape and size; the sizes add up.
#[test]
fn list() {
    let folder = Folder::new();
    folder.write("x.safetensors", &checkpoint());
    folder.write("y", b"no tensors");
    folder.ok(&["compress", "x.safetensors", "y"]);
    let files = json(&folder.ok(&["list", "--json", "x.safetensors.lmc", "y.lmc"]));
    let tensors = files[0]["tensors"].as_array().expect("an array");
    assert_eq!(tensors.len(), 3);
    assert_eq!(tensors[0]["name"], "w");
    assert_eq!(tensors[0]["dtype"], "BF16");
    assert_eq!(tensors[0]["shape"], serde_json::json!([64, 512]));
    assert_eq!(tensors[0]["bytes"], 65_536);
    assert!(tensors[0]["coded_bytes"].as_u64().expect("a number") < 65_536);
    assert_eq!(files[0]["original_bytes"], checkpoint().len());
    assert_eq!(files[0]["file_bytes"], folder.read("x.safetensors.lmc").len());
    assert_eq!(files[1]["tensors"], serde_json::json!([]));
    let table = String::from_utf8(folder.ok(&["list", "x.safetensors.lmc"])).expect("text");
    assert!(table.contains("BF16") && table.contains("[64, 512]"), "{table}");
}

/// A file that is not known is listed with the type that it was taken for.
#[test]
fn list_guesses() {
    let folder = Folder::new();
    folder.write("x", &common::weights(100_000, 1));
    folder.write("empty", b"");
    folder.ok(&["compress", "x", "empty"]);
    let files = json(&folder.ok(&["list", "--json", "x.lmc"]));
    assert_eq!(files[0]["coded_as"], serde_json::json!({ "bf16": 200_000 }));
    let lines = common::text(folder.ok(&["list", "x.lmc", "empty.lmc"]));
    assert!(lines.starts_with("x.lmc: bytes, coded as bf16, 200000 bytes in "), "{lines}");
    assert!(lines.contains("\nempty.lmc: bytes, 0 bytes in "), "{lines}");
}

/// JSON is whole although one of the files is not there, and the code says partial.
#[test]
fn list_goes_on() {
    let folder = Folder::new();
    folder.write("y", b"no tensors");
    folder.ok(&["compress", "y"]);
    let output = folder.lmc(&["list", "--json", "no-such.lmc", "y.lmc"]);
    assert_eq!(code(&output), 3);
    assert_eq!(json(&output.stdout).as_array().map(Vec::len), Some(1));
}

/// The parts of a file add up to it, and the blocks to their spans.
#[test]
fn inspect() {
    let folder = Folder::new();
    folder.write("x.safetensors", &checkpoint());
    folder.ok(&["compress", "x.safetensors"]);
    let file = json(&folder.ok(&["inspect", "--blocks", "--json", "x.safetensors.lmc"]));
    let sum = |values: &Value, field: &str| -> u64 {
        let values: Vec<&Value> = match values {
            Value::Object(map) => map.values().collect(),
            other => other.as_array().expect("an array").iter().collect(),
        };
        values.iter().map(|value| value[field].as_u64().expect("a number")).sum()
    };
    assert_eq!(sum(&file["parts"], "bytes"), file["file_bytes"].as_u64().expect("a number"));
    assert_eq!(sum(&file["spans"], "bytes"), checkpoint().len() as u64);
    for span in file["spans"].as_array().expect("an array") {
        let blocks = sum(&span["blocks"], "coded_bytes");
        let recipe = span["shared_recipe_bytes"].as_u64().expect("a number");
        assert_eq!(span["coded_bytes"], blocks + recipe);
        assert_eq!(sum(&span["blocks"], "bytes"), span["bytes"].as_u64().expect("a number"));
        assert_ne!(span["blocks"][0]["kind"], "");
    }
    let table = String::from_utf8(folder.ok(&["inspect", "x.safetensors.lmc"])).expect("text");
    assert!(table.contains("content hash") && table.contains("footer"), "{table}");
}
