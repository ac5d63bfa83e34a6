//! What must hold of a store, whatever happened to the disk below it.

use super::crash::State;
use super::scene::{Expected, Player, STEP_AFTER, Scene, Step};
use super::{Random, crash::Lie};
use crate::common::{TestClock, is_marker, tree};
use lmc_store::{CheckOptions, ErrorKind, RestoreOptions, SnapshotName, Store};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A broken promise, in words.
pub type Broken = String;

/// Opens the store that is on an image as a new process would, and continues with it. Returns each
/// moment of that, for the power to be cut again.
pub fn recover(
    scene: &Scene,
    image: State,
    expected: Expected,
    clock: Arc<TestClock>,
    random: &mut Random,
) -> Result<Vec<(State, Expected)>, Broken> {
    let mut player = Player::on(scene, image, clock, expected, Lie::None);
    match player.store() {
        Ok(_) => player.expected.has_store = true,
        Err(e) if e.kind == ErrorKind::NoStore && !player.expected.has_store => {
            player.play(&Step::Init).map_err(|e| format!("init after the cut: {e}"))?;
        }
        Err(e) => return Err(format!("the store does not open: {e}")),
    }
    verify_store(&player)?;
    // The next one that no cut before this one has used.
    let step = player.expected.may.union(&player.expected.must).max().copied().unwrap_or(0);
    let step = (step + 1).max(STEP_AFTER);
    let save = Step::Save { step, tag: None };
    player.play(&save).map_err(|e| format!("a save after the cut: {e}"))?;
    verify_store(&player)?;
    if random.once_in(3) {
        player.play(&Step::PassHours(60)).map_err(|e| e.to_string())?;
        player.play(&Step::Prune).map_err(|e| format!("a prune after the cut: {e}"))?;
        verify_store(&player)?;
        nothing_is_left(&player.store().map_err(|e| e.to_string())?)?;
    }
    Ok(player.disk.take_moments())
}

/// Fails unless the store holds what it must and nothing that it may not, all of it whole.
pub fn verify_store(player: &Player) -> Result<(), Broken> {
    let store = player.store().map_err(|e| format!("the store does not open: {e}"))?;
    let expected = &player.expected;
    let names = store.snapshots().map_err(|e| format!("no list: {e}"))?;
    let seen: BTreeSet<u64> = names.iter().map(|name| name.step).collect();
    for step in &expected.must {
        if !seen.contains(step) {
            return Err(format!("the snapshot of step {step} is lost"));
        }
    }
    for step in &seen {
        if !expected.must.contains(step) && !expected.may.contains(step) {
            return Err(format!("the snapshot of step {step} should not be there"));
        }
    }
    for name in &names {
        restores(player.scene, &store, name)?;
    }
    let tags = store.tags().map_err(|e| format!("no tags: {e}"))?;
    for (step, tag) in &expected.tags {
        let has = |name: &SnapshotName| {
            name.step == *step && tags.get(&name.id).is_some_and(|own| own.contains(*tag))
        };
        if !names.iter().any(has) {
            return Err(format!("the tag {tag} of step {step} is lost"));
        }
    }
    let options = CheckOptions { read_percent: 100 };
    let checked = store.check(&options).map_err(|e| format!("no check: {e}"))?;
    if !checked.is_clean() {
        return Err(format!("the check finds {checked:?}"));
    }
    Ok(())
}

fn restores(scene: &Scene, store: &Store, name: &SnapshotName) -> Result<(), Broken> {
    let target = scene.target();
    let options = RestoreOptions::default();
    let restored = store.restore(name, &target, &options);
    restored.map_err(|e| format!("step {} does not restore: {e}", name.step))?;
    let is_same = tree(&target) == *scene.tree(name.step);
    std::fs::remove_dir_all(&target).map_err(|e| e.to_string())?;
    if is_same { Ok(()) } else { Err(format!("step {} restores to other bytes", name.step)) }
}

/// Fails if a prune after a long time has left anything that nobody needs.
fn nothing_is_left(store: &Store) -> Result<(), Broken> {
    for folder in ["tmp", "pending", "pruning", "forgotten"] {
        let mut names = store.storage().names(folder).map_err(|e| e.to_string())?;
        names.retain(|name| !is_marker(name));
        if !names.is_empty() {
            return Err(format!("{names:?} are left"));
        }
    }
    let mut needed = BTreeSet::new();
    for name in store.snapshots().map_err(|e| e.to_string())? {
        let manifest = store.manifest(&name).map_err(|e| e.to_string())?;
        needed.extend(manifest.packs.iter().map(|pack| pack.name.object()));
    }
    let packs = store.storage().names("packs").map_err(|e| e.to_string())?;
    match packs.iter().find(|pack| !needed.contains(*pack) && !is_marker(pack)) {
        Some(pack) => Err(format!("{pack} is left")),
        None => Ok(()),
    }
}
