//! What leaves a store: exports that need no store, differences between snapshots, statistics.

use crate::common::*;
use lmc::Context;
use lmc_store::{RelPath, RestoreOptions, SaveOptions};
use std::sync::Arc;

/// An export holds `.lmc` files that stand alone, of deltas too.
#[test]
fn exports_stand_alone() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    for step in 0..3 {
        write(&root.join("sub/model.safetensors"), &checkpoint(&["a"], 9000, 1, step));
        write(&root.join("config.json"), b"{}");
        save(&store, &root, SaveOptions { step: Some(step.into()), ..SaveOptions::default() });
    }
    let target = folder.path().join("export");
    let name = store.find("latest").unwrap();
    store.export(&name, &target, &RestoreOptions::default()).unwrap();
    for path in ["sub/model.safetensors", "config.json"] {
        let archive = lmc::Archive::open(&target.join(format!("{path}.lmc"))).unwrap();
        assert!(archive.bases().is_empty());
        let bytes = lmc::decompress_to_vec(&archive, &Context::with_threads(1)).unwrap();
        assert_eq!(bytes, std::fs::read(root.join(path)).unwrap());
    }
}

/// Files are told apart by content, changed ones are compared tensor by tensor, and any part of a
/// file can be read without the rest.
#[test]
fn differences() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 9000, 1, 0));
    write(&root.join("same.json"), b"{}");
    write(&root.join("gone.json"), b"gone");
    let old = save(&store, &root, SaveOptions::default());
    write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 9000, 1, 1));
    std::fs::rename(root.join("gone.json"), root.join("came.json")).unwrap();
    let new = save(&store, &root, SaveOptions::default());
    let manifest = |name| Arc::new(store.manifest(name).unwrap());
    let diff = store.diff(&manifest(&old.name), &manifest(&new.name)).unwrap();
    let texts = |paths: &[RelPath]| paths.iter().map(RelPath::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&diff.same), ["same.json"]);
    assert_eq!(
        (texts(&diff.only_old), texts(&diff.only_new)),
        (vec!["gone.json".to_string()], vec!["came.json".to_string()])
    );
    assert_eq!(diff.changed.len(), 1);
    assert_eq!(diff.changed[0].tensors.both.len(), 2);

    let path = RelPath::new(b"model.safetensors").unwrap();
    let archive = store.archive(&manifest(&new.name), &path).unwrap();
    let tensors = archive.tensors().unwrap();
    let bytes = std::fs::read(root.join("model.safetensors")).unwrap();
    let range = tensors[1].range.start as usize..tensors[1].range.end as usize;
    assert_eq!(archive.read_tensor(&tensors[1]).unwrap(), bytes[range]);
}

/// The parts of the statistics add up to the whole.
#[test]
fn statistics_add_up() {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    for step in 0..4 {
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 9000, 1, step));
        write(&root.join("frozen.safetensors"), &checkpoint(&["f"], 5000, 2, 0));
        save(&store, &root, SaveOptions::default());
    }
    let stats = store.stats().unwrap();
    assert_eq!((stats.snapshots, stats.files), (4, 8));
    let saved = stats.saved_reuse as i64 + stats.saved_delta as i64 + stats.saved_coding;
    assert_eq!(stats.logical as i64, stats.archives as i64 + saved);
    assert_eq!(stats.pack_bytes, stored(&*storage, "packs"));
    assert_eq!((stats.pack_bytes, stats.unneeded_bytes), (stats.archives, 0));
    assert!(stats.saved_reuse > 0 && stats.saved_delta > 0 && stats.saved_coding > 0);
    assert_eq!(stats.whole + stats.deltas, 5);
}
