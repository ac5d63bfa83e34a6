//! Manifests that were made to do harm, or that rotted, are refused with a sentence.

use crate::common::*;
use lmc_store::{Advice, ErrorKind, Manifest, SaveOptions};
use serde_json::{Value, json};

fn good() -> Value {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("a/model.safetensors"), &checkpoint(&["x"], 3000, 1, 0));
    write(&root.join("config.json"), b"{}");
    let first = save(&store, &root, SaveOptions::default());
    write(&root.join("a/model.safetensors"), &checkpoint(&["x"], 3000, 1, 1));
    let second = save(&store, &root, SaveOptions::default());
    assert!(store.manifest(&first.name).is_ok());
    manifest_json(&store, &second.name)
}

fn parse(value: &Value) -> lmc_store::Result<Manifest> {
    Manifest::parse(&serde_json::to_vec(value).unwrap())
}

/// Every field with a value that it cannot have.
#[test]
fn wrong_values() {
    let good = good();
    parse(&good).unwrap();
    let huge = u64::MAX;
    let cases = [
        ("/run", json!("")),
        ("/run", json!("x".repeat(81))),
        ("/run", json!("a\nb")),
        ("/run", json!(null)),
        ("/step", json!(-1)),
        ("/step", json!(1e30)),
        ("/time_ms", json!("now")),
        ("/meta", json!([])),
        ("/is_file", json!(true)),
        ("/entries", json!({})),
        ("/entries/0/type", json!("device")),
        ("/entries/1/path", json!("../x")),
        ("/entries/1/mode", json!(0o1777)),
        ("/entries/1/mode", json!(0o4755)),
        ("/entries/1/archive", json!(huge)),
        ("/entries/1/archive", json!(3)),
        ("/entries/1/size", json!(huge)),
        ("/entries/1/mtime", json!([0, 1_000_000_000])),
        ("/entries/1/kind", json!("code")),
        ("/entries/0/mode", json!(0o10000)),
        ("/root_mode", json!(0o4755)),
        ("/archives/0/hash", json!("short")),
        ("/archives/0/hash", json!("F".repeat(32))),
        ("/archives/0/stored", json!(huge)),
        ("/archives/0/alone", json!(huge)),
        ("/archives/0/read", json!((1_u64 << 60) + 1)),
        ("/archives/0/rent", json!(huge)),
        ("/added", json!(huge)),
        ("/archives/0/bases", json!([0])),
        ("/archives/0/bases", json!([1])),
        ("/archives/0/bases", json!([huge])),
        ("/archives/0/extents", json!([])),
        ("/archives/0/extents/0", json!([0, huge, 1])),
        ("/archives/0/extents/0", json!([0, 0, huge])),
        ("/archives/0/extents/0", json!([huge, 0, 1])),
        ("/archives/0/extents/0", json!([0, 0, 0])),
        ("/archives/0/extents/0", json!([0, 1])),
        ("/packs/0", json!(["../../etc/passwd", 5])),
        ("/packs/0", json!(["ab", 5])),
        ("/packs/0/1", json!(1_u64 << 40)),
        ("/packs/0/1", json!(huge)),
        ("/archives/1/bases", json!([0, 0])),
        ("/packs/0/1", json!(0)),
        ("/packs/0/1", json!(-5)),
        ("/packs", json!([])),
    ];
    for (place, value) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value.clone();
        let error = parse(&bad).map(|_| format!("{place} = {value} was taken")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{place} = {value}");
        assert!(error.to_string().contains("manifest"), "{error}");
    }
    let is_optional = |key: &String| ["parent", "root_mode"].contains(&&key[..]);
    for field in good.as_object().unwrap().keys().filter(|key| !is_optional(key)) {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(field);
        assert!(parse(&bad).is_err(), "without {field}");
    }
}

/// Things that are there twice, out of order, or in no folder.
#[test]
fn wrong_lists() {
    let good = good();
    let list = |key: &str| good[key].as_array().unwrap().clone();
    let change = |key: &str, items: Vec<Value>| {
        let mut bad = good.clone();
        bad[key] = items.into();
        assert!(parse(&bad).is_err(), "{key}");
    };
    let mut entries = list("entries");
    entries.swap(0, 1);
    change("entries", entries);
    change("entries", [list("entries"), list("entries")].concat());
    change("entries", list("entries")[1..].to_vec());
    change("archives", list("archives").into_iter().rev().collect());
    change("packs", [list("packs"), list("packs")].concat());
}

/// Archives with the same content hash may hold different files. Others name a base by its hash, so
/// that only one of these can be a base.
#[test]
fn one_base_of_a_hash() {
    let mut manifest = good();
    let archives = manifest["archives"].as_array().unwrap().clone();
    let [base, config, delta] = &archives[..] else { panic!("{archives:?}") };
    assert_eq!(delta["bases"], json!([0]));
    manifest["archives"] = json!([base, config, delta, base]);
    assert_eq!(parse(&manifest).unwrap().archives.len(), 4);
    let mut other = delta.clone();
    other["hash"] = json!(format!("{:032x}", 7));
    for (bases, is_good) in [([0], true), ([3], false)] {
        other["bases"] = json!(bases);
        manifest["archives"] = json!([base, config, delta, base, other]);
        assert_eq!(parse(&manifest).is_ok(), is_good, "{bases:?}");
    }
    // Nor can it be on one that it could be taken for.
    other["hash"] = base["hash"].clone();
    other["bases"] = json!([0]);
    manifest["archives"] = json!([base, config, delta, other]);
    assert!(parse(&manifest).is_err());
}

/// The BLAKE3 hash of an original may be there, and is one if it is.
#[test]
fn hashes_of_originals() {
    let mut manifest = good();
    manifest["archives"][0]["blake3"] = json!("ab".repeat(32));
    assert_eq!(parse(&manifest).unwrap().archives[0].blake3, Some([0xab; 32]));
    for bad in [json!("ab"), json!("AB".repeat(32)), json!("ab".repeat(33)), json!(5), json!("")] {
        manifest["archives"][0]["blake3"] = bad.clone();
        assert!(parse(&manifest).is_err(), "{bad}");
    }
}

/// A newer format is told apart from damage.
#[test]
fn newer_formats() {
    let mut newer = good();
    newer["format"] = json!(2);
    let error = parse(&newer).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert_eq!(error.advice(), Some(Advice::Upgrade), "{error}");
}

/// Chains that are longer than any reader follows.
#[test]
fn endless_chains() {
    let mut bad = good();
    let archive = bad["archives"][0].clone();
    let archives: Vec<Value> = (0..100_u32)
        .map(|i| {
            let mut archive = archive.clone();
            archive["hash"] = json!(format!("{i:032x}"));
            archive["bases"] = if i == 0 { json!([]) } else { json!([i - 1]) };
            archive
        })
        .collect();
    bad["archives"] = archives.into();
    bad["entries"] = json!([]);
    let error = parse(&bad).unwrap_err();
    assert!(error.to_string().contains("a base chain is too long"), "{error}");
}

/// No bytes at all, cut off, nested without end, and every single bit flipped.
#[test]
fn wrong_bytes() {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("x"), b"x");
    let saved = save(&store, folder.path(), SaveOptions::default());
    use lmc_store::storage::Storage;
    let object = saved.name.object().unwrap();
    let bytes = storage.read_all(&object, 1 << 20).unwrap();
    for i in 0..bytes.len() {
        assert!(Manifest::read(&bytes[..i], &saved.name).is_err());
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[i] ^= 1 << bit;
            let error = Manifest::read(&bad, &saved.name).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Corrupt);
            // Without its name it may still be read, but nothing panics.
            let _ = Manifest::parse(&bad);
        }
    }
    for text in ["", "null", "[]", "{}", "\u{0}", "{\"format\":1}", &"[".repeat(100_000)] {
        assert!(Manifest::parse(text.as_bytes()).is_err());
    }
}
