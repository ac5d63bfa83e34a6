//! A report says of each snapshot what the store really holds for it, and of each rule what a
//! forget and a prune really free.

use crate::common::*;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    CheckOptions, ErrorKind, Figures, Keep, MemoryFile, PackName, Parent, PruneOptions, RelPath,
    Report, ReportOptions, SaveOptions, SnapshotName, SnapshotReport, Stats, Store,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: PruneOptions = PruneOptions { grace_ms: Some(0), dry_run: false, allow_empty: false };

/// A store, what it is in, its clock, and the folder of what was saved.
struct Scene {
    store: Store,
    storage: Arc<MemoryStorage>,
    clock: Arc<TestClock>,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let (store, storage, clock) = memory_store();
        Self { store, storage, clock, folder: tempfile::tempdir().unwrap() }
    }

    /// Saves files as a step of a run.
    fn save(
        &self,
        run: &str,
        step: u64,
        files: &[(&str, Vec<u8>)],
        parent: Parent,
    ) -> SnapshotName {
        let root = self.folder.path().join(format!("{run}-{step}"));
        files.iter().for_each(|(name, bytes)| write(&root.join(name), bytes));
        let (run, step) = (run.to_string(), Some(step));
        save(&self.store, &root, SaveOptions { run, step, parent, ..SaveOptions::default() }).name
    }

    /// Two runs, the second one on the first, with frozen files, optimizer state, tags, a thinned
    /// and a rebased snapshot, and a pack that nobody needs.
    fn history() -> Self {
        let scene = Self::new();
        for step in 1..=6_u32 {
            let files = [
                ("model.safetensors", checkpoint(&["a"], 6000, 1, step)),
                ("frozen.safetensors", checkpoint(&["f"], 2000, 2, 0)),
                ("optimizer.pt", checkpoint(&["m"], 3000, 100 + u64::from(step), 0)),
            ];
            scene.save("pre", u64::from(step) * 10, &files, Parent::Auto);
        }
        let last = scene.store.newest("pre").unwrap().unwrap();
        for step in 1..=4_u32 {
            let files = [("model.safetensors", checkpoint(&["a"], 6000, 1, 20 + step))];
            let on = if step == 1 { Parent::Snapshot(last.clone()) } else { Parent::Auto };
            scene.save("tune", u64::from(step), &files, on);
        }
        let names = scene.store.snapshots().unwrap();
        scene.store.tag(&names[1], "eval").unwrap();
        scene.store.thin(&names[2]).unwrap();
        scene.store.rebase(&names[4], &SaveOptions::default()).unwrap();
        let orphan = PackName::of(b"orphan", 0).object();
        scene.storage.put_new(&orphan, b"orphan").unwrap();
        scene
    }

    fn report(&self) -> Report {
        self.store.report(&ReportOptions::default()).unwrap()
    }

    /// Forgets by a rule and prunes; gives what was forgotten and the bytes that were freed.
    fn free(&self, keep: &Keep) -> (u64, u64) {
        let plan = self.store.plan_forget(keep, None).unwrap();
        let before = stored(&*self.storage, "packs");
        self.store.forget_planned(plan.clone(), keep).unwrap();
        self.clock.pass_hours(48);
        self.store.prune(&NOW).unwrap();
        (plan.forgotten.len() as u64, before - stored(&*self.storage, "packs"))
    }
}

fn all(report: &Report) -> Vec<&SnapshotReport> {
    report.runs.values().flatten().collect()
}

fn figures(report: &Report) -> Vec<&Figures> {
    all(report).into_iter().map(|own| own.figures.as_ref().unwrap()).collect()
}

/// Fails unless what is said of the snapshots adds up to what is said of the store.
fn check_sums(report: &Report) {
    let sum = |of: fn(&Figures) -> u64| figures(report).into_iter().map(of).sum::<u64>();
    let Stats { snapshots, files, logical, archives, bases_only, .. } = report.stats;
    assert_eq!(all(report).len() as u64, snapshots);
    assert_eq!((sum(|f| f.files), sum(|f| f.bytes)), (files, logical));
    assert_eq!(sum(|f| f.added), archives + bases_only);
    let saved = (sum(|f| f.saved_reuse), sum(|f| f.saved_delta));
    assert_eq!(saved, (report.stats.saved_reuse, report.stats.saved_delta));
    let coding: i64 = figures(report).iter().map(|f| f.saved_coding).sum();
    assert_eq!(coding, report.stats.saved_coding);
    for own in all(report) {
        let own_figures = own.figures.as_ref().unwrap();
        assert_eq!(own_figures.bytes, own.name.size);
        assert!(own_figures.reused <= own_figures.bytes);
    }
}

/// Of a small history everything is known.
#[test]
fn a_small_history() {
    let scene = Scene::new();
    let (a, b) = (checkpoint(&["a"], 6000, 1, 0), checkpoint(&["b"], 2000, 2, 0));
    let changed = checkpoint(&["a"], 6000, 1, 1);
    let (a_len, b_len) = (a.len() as u64, b.len() as u64);
    let first = scene.save("r", 1, &[("a.bin", a.clone()), ("b.bin", b.clone())], Parent::Auto);
    // The same file twice, and the other one changed.
    let files = [("a.bin", changed), ("b.bin", b.clone()), ("c.bin", b)];
    let second = scene.save("r", 2, &files, Parent::Auto);
    // The first file again, by someone who does not look.
    let third = scene.save("s", 1, &[("a.bin", a)], Parent::None);
    scene.store.tag(&second, "good").unwrap();

    let report = scene.report();
    assert_eq!(report.runs.keys().collect::<Vec<_>>(), ["r", "s"]);
    let [one, two, three] = all(&report)[..] else { panic!("{report:?}") };
    assert_eq!([&one.name, &two.name, &three.name], [&first, &second, &third]);
    assert!(two.tags.contains("good") && one.tags.is_empty() && three.tags.is_empty());
    let [one, two, three] = figures(&report)[..] else { panic!("{report:?}") };
    assert_eq!((one.files, one.bytes, one.depth, one.reused), (2, a_len + b_len, 0, 0));
    assert_eq!((one.added, one.whole), (first.added, first.added));
    assert_eq!((one.saved_reuse, one.saved_delta), (0, 0));
    assert_eq!(one.saved_coding, (one.bytes - one.added) as i64);
    assert!(one.bases.is_empty());
    assert_eq!((two.files, two.bytes, two.depth), (3, a_len + 2 * b_len, 1));
    assert_eq!((two.reused, two.saved_reuse), (2 * b_len, 2 * b_len));
    assert_eq!((two.added, two.whole), (second.added, first.added + second.added));
    assert!(two.saved_delta > 0);
    assert_eq!(two.bases, std::slice::from_ref(&first.id));
    // It takes its room once more.
    assert_eq!((three.added, three.reused, three.saved_reuse), (third.added, 0, 0));
    assert!(three.added > 0 && three.bases.is_empty());

    check_sums(&report);
    assert_eq!(report.stats, scene.store.stats().unwrap());
    let added: u64 = figures(&report).iter().map(|f| f.added).sum();
    assert_eq!(added, stored(&*scene.storage, "packs"));
    assert!(report.damage.is_empty());
}

/// The sums are those of the statistics, and what was added is all that is stored, in a history
/// with everything in it, before and after a prune.
#[test]
fn sums_agree() {
    let scene = Scene::history();
    let report = scene.report();
    check_sums(&report);
    assert_eq!(report.stats, scene.store.stats().unwrap());
    assert_eq!(all(&report).len(), 10);
    // What the thinned snapshot lost and the chain of the rebased one are still in packs.
    let keep = Keep { last: Some(100), ..Keep::default() };
    scene.free(&keep);
    let report = scene.report();
    check_sums(&report);
    assert_eq!(report.stats, scene.store.stats().unwrap());
    assert_eq!(report.stats.unneeded_bytes, 0);
    // Each save has packs of its own here, and a rebase cut nothing out of them.
    let added: u64 = figures(&report).iter().map(|f| f.added).sum();
    assert_eq!(added, stored(&*scene.storage, "packs"));
    for own in all(&report) {
        let manifest = scene.store.manifest(&own.name).unwrap();
        let figures = own.figures.as_ref().unwrap();
        assert_eq!((figures.depth, figures.whole), manifest.reading());
        let known: Vec<&String> = all(&report).into_iter().map(|other| &other.name.id).collect();
        assert!(figures.bases.iter().all(|base| known.contains(&base) && *base != own.name.id));
    }
}

/// For many rules: what the report says they would free is what they free.
#[test]
fn retention_is_what_happens() {
    let last = |last| Keep { last: Some(last), ..Keep::default() };
    let tags = ["eval".to_string()].into();
    let rules = [
        last(1),
        last(2),
        last(100),
        Keep { every: Some(20), ..Keep::default() },
        Keep { tags, ..Keep::default() },
        Keep { within_ms: Some(9_000), ..Keep::default() },
        Keep { last: Some(1), every: Some(30), ..Keep::default() },
    ];
    let mut freed = Vec::new();
    for (i, keep) in rules.iter().enumerate() {
        let scene = Scene::history();
        let objects = |scene: &Scene| {
            let folders = ["packs", "snapshots", "forgotten", "tags", "pending", "pruning"];
            folders.map(|folder| objects_in(&*scene.storage, folder).len())
        };
        let before = objects(&scene);
        let options = ReportOptions { keep: rules.to_vec(), check: None };
        let report = scene.store.report(&options).unwrap();
        assert_eq!(objects(&scene), before, "a report changes nothing");
        let said = &report.retention[i];
        assert_eq!(said.keep, *keep);
        let found = scene.free(keep);
        assert_eq!((said.forgotten, said.freed), (found.0, Some(found.1)), "{keep:?}");
        freed.push(found.1);
    }
    assert!(freed[0] > freed[1] && freed[1] > freed[2] && freed[2] > 6, "{freed:?}");
}

/// Without rules a few usual ones are tried, one of them by the distance of steps.
#[test]
fn usual_rules() {
    let scene = Scene::new();
    let rules = |scene: &Scene| -> Vec<(Option<u64>, Option<u64>)> {
        scene.report().retention.iter().map(|rule| (rule.keep.last, rule.keep.every)).collect()
    };
    let last = [1, 3, 10].map(|last| (Some(last), None));
    assert_eq!(rules(&scene), last);
    for step in [50, 100, 150, 170, 220] {
        scene.save("r", step, &[("x", step.to_string().into_bytes())], Parent::Auto);
    }
    assert_eq!(rules(&scene), last, "no step is a multiple of 500");
    scene.save("r", 1000, &[("x", b"x".to_vec())], Parent::Auto);
    assert_eq!(rules(&scene)[3], (None, Some(500)));
    let options = ReportOptions { keep: vec![Keep::default(); 65], check: None };
    assert_eq!(scene.store.report(&options).unwrap_err().kind, ErrorKind::InvalidArgument);
}

/// An empty store and one with a single snapshot, in a directory.
#[test]
fn few_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = local_store(&folder.path().join("store"));
    let empty = store.report(&ReportOptions::default()).unwrap();
    assert!(empty.runs.is_empty() && empty.damage.is_empty() && empty.stats == Stats::default());
    assert!(empty.retention.iter().all(|rule| (rule.forgotten, rule.freed) == (0, Some(0))));
    let root = folder.path().join("root");
    write(&root.join("a"), &checkpoint(&["a"], 600, 1, 0));
    write(&root.join("empty"), b"");
    let saved = save_step(&store, &root, "r", 1);
    let report = store.report(&ReportOptions::default()).unwrap();
    check_sums(&report);
    assert_eq!(figures(&report)[0].added, saved.name.added);
    assert!(report.retention.iter().all(|rule| (rule.forgotten, rule.freed) == (0, Some(0))));
}

/// Snapshots of several processes are like others; parts without a commit are no snapshots.
#[test]
fn snapshots_in_parts() {
    let scene = Scene::new();
    let part = |name: &str, seed: u64| {
        let bytes = checkpoint(&["a"], 3000, seed, 0);
        let path = RelPath::new(name.as_bytes()).unwrap();
        let file = MemoryFile { path, parts: vec![&bytes], like: Vec::new() };
        scene.store.save_part(&[file], &SaveOptions::default()).unwrap()
    };
    let parts = [part("0", 1), part("1", 2)];
    assert!(scene.report().runs.is_empty());
    scene.store.commit_parts(&parts, &[], &SaveOptions::default()).unwrap();
    let report = scene.report();
    check_sums(&report);
    assert_eq!((figures(&report).len(), figures(&report)[0].files), (1, 2));
    assert_eq!(figures(&report)[0].added, stored(&*scene.storage, "packs"));
}

/// A manifest that cannot be read does not keep the others from being reported, and a prune that it
/// would stop frees nothing.
#[test]
fn a_damaged_manifest() {
    let scene = Scene::history();
    let names = scene.store.snapshots().unwrap();
    let object = names[1].object().unwrap();
    scene.storage.replace(&object, b"rotten").unwrap();
    let keep = [Some(1), Some(100)].map(|last| Keep { last, ..Keep::default() });
    let options = ReportOptions { keep: keep.to_vec(), check: None };
    let report = scene.store.report(&options).unwrap();
    assert_eq!(report.damage.len(), 1);
    assert_eq!(
        (&report.damage[0].object, report.damage[0].error.kind),
        (&object, ErrorKind::Corrupt)
    );
    for own in all(&report) {
        let is_damaged = own.name == names[1];
        assert_eq!((own.figures.is_none(), own.damage.len() == 1), (is_damaged, is_damaged));
    }
    assert_eq!(report.stats.snapshots, 9);
    assert_eq!(report.retention[1].freed, None);
    assert_eq!(scene.store.prune(&NOW).unwrap_err().kind, ErrorKind::Corrupt);
    // A rule that forgets it needs it no more.
    let found = scene.free(&keep[0]);
    assert_eq!(
        (report.retention[0].forgotten, report.retention[0].freed),
        (found.0, Some(found.1))
    );
}

/// An object in `damaged/` that may need any pack keeps them all, and one that is whole keeps its
/// own.
#[test]
fn manifests_that_were_moved_away() {
    for is_whole in [false, true] {
        let scene = Scene::history();
        let name = scene.store.snapshots().unwrap().remove(0);
        let moved = format!("damaged/{}", name.key().unwrap());
        scene.storage.move_new(&name.object().unwrap(), &moved).unwrap();
        if !is_whole {
            scene.storage.replace(&moved, b"rotten").unwrap();
        }
        let keep = Keep { last: Some(1), ..Keep::default() };
        let options = ReportOptions { keep: vec![keep.clone()], check: None };
        let said = scene.store.report(&options).unwrap().retention.remove(0);
        let found = scene.free(&keep);
        assert_eq!((said.forgotten, said.freed), (found.0, Some(found.1)));
        assert_eq!(found.1 > 0, is_whole);
    }
}

/// Damaged packs are found if they are looked for, with the snapshots that they affect; the newest
/// snapshot that is whole counts as in a forget.
#[test]
fn damaged_packs() {
    let scene = Scene::history();
    let newest = scene.store.newest("tune").unwrap().unwrap();
    let manifest = scene.store.manifest(&newest).unwrap();
    let own = manifest.packs.last().unwrap().name.object();
    let report = |percent: Option<u8>| {
        let check = percent.map(|read_percent| CheckOptions { read_percent });
        scene.store.report(&ReportOptions { keep: Vec::new(), check }).unwrap()
    };
    let bytes = scene.storage.read_all(&own, 1 << 20).unwrap();
    let mut rot = bytes.clone();
    rot[bytes.len() / 2] ^= 1;
    scene.storage.replace(&own, &rot).unwrap();
    assert!(report(None).damage.is_empty() && report(Some(0)).damage.is_empty());
    let read = report(Some(100));
    scene.storage.delete(std::slice::from_ref(&own)).unwrap();
    for report in [read, report(Some(0))] {
        assert_eq!(report.damage.iter().map(|d| &d.object).collect::<Vec<_>>(), [&own]);
        for own in all(&report) {
            assert_eq!(own.damage.is_empty(), own.name != newest, "{own:?}");
            assert!(own.damage.iter().all(|error| error.to_string().contains("model.safetensors")));
        }
    }
    assert!(report(None).damage.is_empty());
    let keep = Keep { last: Some(0), ..Keep::default() };
    let options = ReportOptions { keep: vec![keep.clone()], check: None };
    let said = scene.store.report(&options).unwrap().retention.remove(0);
    let found = scene.free(&keep);
    assert_eq!((said.forgotten, said.freed), (found.0, Some(found.1)));
    assert_eq!(scene.store.snapshots_of("tune").unwrap().len(), 2);
}

/// In a bucket each manifest is read once, and once more that of the newest of each run; no pack is
/// read.
#[test]
fn manifests_are_read_once() {
    let scene = Scene::history();
    let bucket = MortalStorage::new(scene.storage.clone(), u64::MAX);
    let store = alone(Store::open(bucket.clone(), scene.clock.clone()).unwrap());
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    bucket.watch(move |call, name| {
        let is_manifest = call == Call::Read && name.starts_with("snapshots/");
        counted.fetch_add(u64::from(is_manifest && !is_marker(name)), Ordering::SeqCst);
        Fate::Done
    });
    assert_eq!(store.report(&ReportOptions::default()).unwrap(), scene.report());
    // A size and the bytes for each.
    assert_eq!(reads.load(Ordering::SeqCst), 2 * (10 + 2));
    assert_eq!(bucket.pack_bytes_read.load(Ordering::SeqCst), 0);
    bucket.watch(|call, _| if call == Call::Change { Fate::Fails } else { Fate::Done });
    store
        .report(&ReportOptions { check: Some(CheckOptions::default()), ..Default::default() })
        .unwrap();
    bucket.watch(|_, name| if name.starts_with("packs") { Fate::Fails } else { Fate::Done });
    assert_eq!(store.report(&ReportOptions::default()).unwrap_err().kind, ErrorKind::Io);
}

/// A snapshot that is pruned while the report is made is left out, and does not count as damage.
#[test]
fn snapshots_that_go_meanwhile() {
    let scene = Scene::history();
    let storage = MortalStorage::new(scene.storage.clone(), u64::MAX);
    let store = alone(Store::open(storage.clone(), scene.clock.clone()).unwrap());
    let (other, once) = (scene.store.clone(), std::sync::Once::new());
    storage.watch(move |call, name| {
        if call == Call::Read && name.starts_with("snapshots/pre") && !is_marker(name) {
            once.call_once(|| {
                let names = other.snapshots_of("pre").unwrap();
                other.forget(&names[1..5]).unwrap();
                other.prune(&NOW).unwrap();
            });
        }
        Fate::Done
    });
    let report = store.report(&ReportOptions::default()).unwrap();
    assert_eq!((all(&report).len(), report.damage.len()), (6, 0));
    check_sums(&report);
}

/// Any file can be saved; a report depends on no path.
#[test]
fn odd_names() {
    let scene = Scene::new();
    let run = "<script>\u{202e}\u{1f600}'\"&";
    let root = scene.folder.path().join("odd");
    write(&root.join("a\n\u{1b}[2J"), b"1");
    write(&root.join(Path::new("</script>").file_name().unwrap()), b"2");
    let saved = save_step(&scene.store, &root, run, u64::MAX);
    scene.store.tag(&saved.name, run).unwrap();
    let report = scene.report();
    check_sums(&report);
    assert!(report.runs.contains_key(run) && all(&report)[0].tags.contains(run));
}
