//! What did not change costs nothing, what changed costs its change, and chains stay bounded.

use crate::common::*;
use lmc_store::{CHAIN_DEPTH_MAX, Keep, Parent, PruneOptions, READ_TIMES_MAX, SaveOptions};
use std::fs;

/// Files that are the same, renamed or back to what they were are references.
#[test]
fn unchanged_files_cost_nothing() {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    let (first, second) = (checkpoint(&["a"], 20_000, 1, 0), checkpoint(&["a"], 20_000, 9, 0));
    write(&root.join("model.safetensors"), &first);
    write(&root.join("copy.safetensors"), &first);
    write(&root.join("config.json"), b"{}");
    let saved = save_step(&store, &root, "r", 1);
    assert_eq!(saved.unchanged, 1, "the copy is the same as the model");
    let before = stored(&*storage, "packs");

    let again = save_step(&store, &root, "r", 2);
    assert_eq!((again.name.added, again.unchanged), (0, 3));
    fs::rename(root.join("model.safetensors"), root.join("renamed.safetensors")).unwrap();
    assert_eq!(save_step(&store, &root, "r", 3).name.added, 0);
    assert_eq!(stored(&*storage, "packs"), before);

    fs::write(root.join("renamed.safetensors"), &second).unwrap();
    assert!(save_step(&store, &root, "r", 4).name.added > 10_000);
    fs::write(root.join("renamed.safetensors"), &first).unwrap();
    let back = save_step(&store, &root, "r", 5);
    assert_eq!(back.name.added, 0);
    check_restores(&store, &back.name, &root);
}

/// A changed file costs less than it does alone, under its name, under another, and cut in two.
#[test]
fn changed_files_cost_their_change() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 50_000, 1, 0));
    let whole = save_step(&store, &root, "r", 1).name.added;
    write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 50_000, 1, 1));
    let delta = save_step(&store, &root, "r", 2).name.added;
    assert!(delta * 4 < whole, "{delta} of {whole}");

    fs::remove_file(root.join("model.safetensors")).unwrap();
    write(&root.join("other.safetensors"), &checkpoint(&["a", "b"], 50_000, 1, 2));
    let renamed = save_step(&store, &root, "r", 3).name.added;
    assert!(renamed * 4 < whole, "{renamed} of {whole}");

    // A new run starts from what looks like it.
    write(&root.join("other.safetensors"), &checkpoint(&["a", "b"], 50_000, 1, 3));
    let forked = save_step(&store, &root, "fork", 4);
    assert!(forked.name.added * 4 < whole && forked.parent.is_some());
    check_restores(&store, &forked.name, &root);
    let options = SaveOptions { parent: Parent::None, ..SaveOptions::default() };
    let alone = save(&store, &root, options);
    assert!(alone.parent.is_none() && alone.name.added * 10 > whole * 9);
}

/// However long a run is, no chain is longer than the bound and no restore reads more than it may.
#[test]
fn chains_are_bounded() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    let mut deepest = 0;
    for step in 0..40 {
        // Some steps change nearly all, most of them little.
        let seed = if step % 13 == 12 { 100 + u64::from(step) } else { 1 };
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 8000, seed, step));
        let saved = save_step(&store, &root, "r", u64::from(step));
        let manifest = store.manifest(&saved.name).unwrap();
        let depths = manifest.depths();
        for (_, file) in manifest.files() {
            let read: u64 = manifest
                .closure([file.archive])
                .into_iter()
                .map(|i| manifest.archives[i].stored)
                .sum();
            let archive = &manifest.archives[file.archive];
            assert!(depths[file.archive] <= CHAIN_DEPTH_MAX);
            assert!(read <= READ_TIMES_MAX * archive.alone, "{read} of {}", archive.alone);
            deepest = deepest.max(depths[file.archive]);
        }
        check_restores(&store, &saved.name, &root);
    }
    assert!(deepest >= 3, "chains are used at all");
    let short = SaveOptions { depth_max: 1, run: "short".into(), ..SaveOptions::default() };
    for step in 0..4 {
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 8000, 1, step));
        let saved = save(&store, &root, short.clone());
        assert!(store.manifest(&saved.name).unwrap().depths().into_iter().all(|depth| depth <= 1));
    }
}

/// A rebased snapshot needs no other, is otherwise the same, and what depends on the old one stays.
#[test]
fn rebase_cuts_chains() {
    let (store, _, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let mut saved = Vec::new();
    for step in 0..4_u32 {
        let root = folder.path().join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 9000, 1, step));
        write(&root.join("frozen.bin"), &[1; 5000]);
        saved.push((save_step(&store, &root, "r", u64::from(step)).name, root));
    }
    store.tag(&saved[2].0, "best").unwrap();
    let options = SaveOptions::default();
    let new = store.rebase(&saved[2].0, &options).unwrap();
    assert_eq!((new.step, new.time_ms), (saved[2].0.step, saved[2].0.time_ms));
    assert!(store.manifest(&new).unwrap().depths().into_iter().all(|depth| depth == 0));
    assert!(store.tags().unwrap()[&new.id].contains("best"));
    assert!(!store.snapshots().unwrap().contains(&saved[2].0));
    saved[2].0 = new;
    clock.pass_hours(100);
    store.prune(&Default::default()).unwrap();
    for (name, root) in &saved {
        check_restores(&store, name, root);
    }
}

/// A file that the parent lacks is coded against the newest snapshot of the run that has it, and
/// one that came back as it was is a reference; both survive that snapshot.
#[test]
fn files_that_are_not_in_every_snapshot() {
    let (store, _, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = |step: u64| folder.path().join(format!("{step}"));
    for step in 0..6_u64 {
        let drift = step as u32;
        write(&root(step).join("model.safetensors"), &checkpoint(&["a"], 20_000, 1, drift));
        if step % 5 == 0 {
            let bytes = checkpoint(&["m"], 20_000, 2, drift);
            write(&root(step).join("optimizer.safetensors"), &bytes);
            write(&root(step).join("tokens.bin"), &checkpoint(&["t"], 20_000, 3, 0));
        }
        save_step(&store, &root(step), "r", step);
    }
    let name = store.find("r@5").unwrap();
    let manifest = store.manifest(&name).unwrap();
    let archive = |path: &[u8]| {
        let file = manifest.file(&lmc_store::RelPath::new(path).unwrap()).unwrap();
        &manifest.archives[file.archive]
    };
    let optimizer = archive(b"optimizer.safetensors");
    assert!(optimizer.stored < optimizer.alone / 2, "{optimizer:?}");
    assert!(archive(b"tokens.bin").bases.is_empty());
    assert!(manifest.added < 2 * optimizer.stored + 20_000, "{}", manifest.added);
    let keep = Keep { last: Some(1), ..Keep::default() };
    store.forget(&store.plan_forget(&keep, None).unwrap().forgotten).unwrap();
    clock.pass_hours(100);
    let pruned =
        store.prune(&PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }).unwrap();
    assert_eq!(pruned.snapshots.len(), 5);
    check_restores(&store, &name, &root(5));
}

/// The rounding of f32 weights in a file beside costs little, in the first snapshot too; nothing is
/// coded against optimizer state.
#[test]
fn roundings_cost_little() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let bf16 = checkpoint(&["a"], 50_000, 1, 0);
    let header = 8 + bf16[..8].iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
    let mut state = 1_u32;
    let noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 18) as u16
    };
    let f32 = f32_of(&bf16[header..], 50_000, noise);
    for (folder_name, name) in [("weights", "master.safetensors"), ("other", "optim.safetensors")] {
        let root = folder.path().join(folder_name);
        write(&root.join("model.safetensors"), &bf16);
        write(&root.join(name), &f32);
        let saved = save(
            &store,
            &root,
            SaveOptions { run: folder_name.into(), parent: Parent::None, ..SaveOptions::default() },
        );
        let manifest = store.manifest(&saved.name).unwrap();
        let model = manifest.file(&lmc_store::RelPath::new(b"model.safetensors").unwrap()).unwrap();
        let archive = &manifest.archives[model.archive];
        let is_on_master = archive.stored < 10_000 && archive.bases.len() == 1;
        assert_eq!(is_on_master, folder_name == "weights", "{archive:?}");
        check_restores(&store, &saved.name, &root);
    }
}

/// A chain that would be left for what its last delta cost continues if the next one is small:
/// layers were frozen, or only moved to other files.
#[test]
fn a_chain_goes_on_where_little_changes() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    let path = root.join("model.safetensors");
    let mut bytes = Vec::new();
    for step in 0..3 {
        // All of it is new, but for the exponents.
        bytes = checkpoint(&["a", "b"], 50_000, 1, 0);
        let mut noise = 77 + step;
        for byte in bytes.iter_mut().skip(400).step_by(2) {
            noise = (noise * 1_103_515_245 + 12_345) & 0x7fff_ffff;
            *byte ^= (noise >> 20) as u8 & 0x3f;
        }
        write(&path, &bytes);
        save_step(&store, &root, "r", step);
    }
    for step in 3..9 {
        let at = bytes.len() - 2 * step as usize;
        bytes[at] ^= 1;
        write(&path, &bytes);
        let added = save_step(&store, &root, "r", step).name.added;
        assert!(added < 20_000, "{added} bytes at step {step}");
    }
}
