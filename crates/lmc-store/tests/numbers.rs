//! Numbers in manifests that somebody made: whatever they are, no command panics, no sum is
//! nonsense, and what others have saved beside them is as it was.

use crate::common::*;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    CheckOptions, ErrorKind, Keep, Parent, PruneOptions, ReportOptions, RestoreOptions,
    SaveOptions, SnapshotName, Store, rfc3339,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// What no manifest may say of bytes.
const SIZE_MAX: u64 = 1 << 60;
const ALL: CheckOptions = CheckOptions { read_percent: 100 };

/// Two snapshots of one run, the second on the first, and what they are of.
struct Scene {
    folder: tempfile::TempDir,
    storage: Arc<MemoryStorage>,
    saved: Vec<(SnapshotName, PathBuf)>,
    /// The manifest of the second one.
    manifest: Value,
}

impl Scene {
    fn new() -> Self {
        let (store, storage, _) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let mut saved = Vec::new();
        for step in 0..2_u32 {
            let root = folder.path().join(format!("step{step}"));
            write(&root.join("a/model.safetensors"), &checkpoint(&["x"], 3000, 1, step));
            write(&root.join("optimizer.pt"), &checkpoint(&["o"], 300, u64::from(step), 0));
            saved.push((save_step(&store, &root, "r", u64::from(step)).name, root));
        }
        let manifest = manifest_json(&store, &saved[1].0);
        assert!(manifest["archives"].as_array().unwrap().len() > 2);
        Self { folder, storage, saved, manifest }
    }

    /// A store of the same objects.
    fn store(&self) -> Store {
        let clock = TestClock::new().later(1);
        let copy = MemoryStorage::new(clock.clone());
        for folder in
            ["", "packs", "snapshots", "forgotten", "tags", "pending", "pruning", "damaged"]
        {
            let names = match folder {
                "" => vec![lmc_store::CONFIG_NAME.to_string()],
                folder => self.storage.names(folder).unwrap(),
            };
            for name in names {
                copy.put_new(&name, &self.storage.read_all(&name, 1 << 20).unwrap()).unwrap();
            }
        }
        Store::open(Arc::new(copy), clock).unwrap()
    }

    /// Does everything to a store in which `forged` is, whatever comes of it; what was there before
    /// is as it was.
    fn use_all(&self, store: &Store, forged: &SnapshotName) {
        for name in store.snapshots().unwrap() {
            rfc3339(name.time_ms);
        }
        for text in ["latest", "r@latest", &format!("r@{}", forged.step)] {
            store.find(text).unwrap();
        }
        let _ = store.stats();
        let _ = store.report(&ReportOptions::default());
        let _ = store.check(&CheckOptions::default());
        let _ = store.check(&ALL);
        let (other, _, _) = memory_store();
        let names: Vec<SnapshotName> = store.snapshots().unwrap();
        let copied = store.copy_to(&other, &names).unwrap();
        assert!(copied.snapshots.contains(&self.saved[0].0));
        let _ = other.stats();
        let target = self.folder.path().join("target");
        let options = RestoreOptions::default();
        if store.restore(forged, &target, &options).is_ok() {
            std::fs::remove_dir_all(&target).unwrap();
        }
        if let (Ok(one), Ok(two)) = (store.manifest(&self.saved[0].0), store.manifest(forged)) {
            let _ = store.diff(&Arc::new(one), &Arc::new(two));
        }
        self.save_on(store, forged);
        let keep = Keep { last: Some(1), every: Some(7), within_ms: Some(5), ..Keep::default() };
        let plan = store.plan_forget(&keep, None).unwrap();
        let _ = store.plan_thin(&plan.kept, &Keep { last: Some(0), ..Keep::default() });
        let _ = store.thin(forged);
        let save = SaveOptions::default();
        let _ = store.rebase(forged, &save);
        let dry = PruneOptions { dry_run: true, grace_ms: Some(0), allow_empty: false };
        let _ = store.prune(&dry);
        let _ = store.repair(Some(&other), false);
        store.forget(std::slice::from_ref(forged)).unwrap();
        let _ = store.prune(&PruneOptions { dry_run: false, ..dry });
        for (name, root) in &self.saved {
            check_restores(store, name, root);
        }
    }

    /// Saves on a snapshot, if it can be read, and on what is the newest now.
    fn save_on(&self, store: &Store, parent: &SnapshotName) {
        let root = self.folder.path().join("next");
        write(&root.join("a/model.safetensors"), &checkpoint(&["x"], 3000, 1, 9));
        for parent in [Parent::Snapshot(parent.clone()), Parent::Auto] {
            let run = "r".to_string();
            let options = SaveOptions { run, parent, ..SaveOptions::default() };
            match store.save(&root, &options) {
                Ok(saved) => check_restores(store, &saved.name, &root),
                // Who names a parent wants that one, and it may be no good.
                Err(e) => assert!(matches!(options.parent, Parent::Snapshot(_)), "{e}"),
            }
        }
    }
}

/// The places of all numbers.
fn numbers(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(place.to_string()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| numbers(v, &format!("{place}/{i}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, v)| numbers(v, &format!("{place}/{key}"), found));
        }
        _ => {}
    }
}

/// Every number of a manifest, one after the other, is the largest that there is, or one that is
/// close to a limit.
#[test]
fn large_numbers_do_no_harm() {
    let scene = Scene::new();
    let mut places = Vec::new();
    numbers(&scene.manifest, "", &mut places);
    assert!(places.len() > 40, "{places:?}");
    for place in places.iter().filter(|place| *place != "/format") {
        for value in [u64::MAX, i64::MAX as u64, SIZE_MAX] {
            let mut manifest = scene.manifest.clone();
            // Another snapshot than the one that it was made of.
            manifest["save"] = json!(format!("{:032x}", 7));
            *manifest.pointer_mut(place).unwrap() = json!(value);
            let store = scene.store();
            let forged = plant(&store, &manifest);
            let is_said = ["/alone", "/read", "/rent", "/added"].iter().any(|f| place.ends_with(f));
            if is_said {
                let kind = store.manifest(&forged).err().map(|e| e.kind);
                let wanted = (value > SIZE_MAX).then_some(ErrorKind::Corrupt);
                assert_eq!(kind, wanted, "{place} = {value}");
            }
            println!("{place} = {value}");
            scene.use_all(&store, &forged);
        }
    }
}

/// Many snapshots that claim as much as one may come to more than a number holds: what is said of
/// all of them is the largest number then, and no smaller one.
#[test]
fn sums_of_claims_do_not_wrap() {
    let scene = Scene::new();
    let store = scene.store();
    for number in 0..40_u64 {
        let mut manifest = scene.manifest.clone();
        manifest["save"] = json!(format!("{number:032x}"));
        manifest["step"] = json!(100 + number);
        let file = manifest["entries"].as_array().unwrap().iter().position(|entry| {
            entry["type"] == "file" && entry["path"].as_str().unwrap().ends_with("safetensors")
        });
        let entry = &mut manifest["entries"][file.unwrap()];
        entry["size"] = json!(SIZE_MAX / 4);
        let archive = entry["archive"].as_u64().unwrap() as usize;
        manifest["archives"][archive]["size"] = json!(SIZE_MAX / 4);
        manifest["archives"][archive]["hash"] = json!(format!("{number:032x}"));
        for field in ["alone", "read", "rent"] {
            manifest["archives"][archive][field] = json!(SIZE_MAX);
        }
        plant(&store, &manifest);
    }
    let stats = store.stats().unwrap();
    let report = store.report(&ReportOptions::default()).unwrap();
    assert_eq!(report.stats, stats);
    assert!(stats.logical >= 40 * (SIZE_MAX / 4), "{stats:?}");
    assert_eq!((stats.saved_delta, stats.saved_coding), (u64::MAX, i64::MIN), "{stats:?}");
    store.prune(&PruneOptions { dry_run: true, ..PruneOptions::default() }).unwrap();
    for (name, root) in &scene.saved {
        check_restores(&store, name, root);
    }
}
