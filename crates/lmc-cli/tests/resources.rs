//! Limits on threads, memory and priority: they change nothing about the result.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::{self, Folder, code, stderr};

/// Limits that are far apart: the default, one part of a file at a time, and a few.
const LIMITS: [&[&str]; 3] = [&[], &["--memory", "1M", "-T1"], &["--memory", "64MiB", "-T3"]];

/// Two checkpoints with files of several parts.
fn scene() -> Folder {
    let folder = Folder::new();
    for (name, seed) in [("step-1", 1), ("step-2", 2)] {
        let weights = common::weights(10 << 20, 7);
        let mut tuned = weights.clone();
        tuned.iter_mut().step_by(200).for_each(|byte| *byte ^= seed);
        let one = common::safetensors(&[("w", "BF16", &[10 << 20], &tuned)]);
        folder.write(&format!("{name}/model.safetensors"), &one);
        folder.write(&format!("{name}/below/small.safetensors"), &common::pair(seed.into()).0);
        folder.write(&format!("{name}/noise"), &common::noise(3 << 20, seed.into()));
        folder.write(&format!("{name}/empty"), b"");
    }
    folder
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = fs::read(&path).expect("a file");
            found.insert(path.strip_prefix(folder).expect("it is below").to_path_buf(), bytes);
        }
    }
    found
}

/// Archives have the same bytes with any limits, and restore the same files.
#[test]
fn limits_do_not_change_archives() {
    let folder = scene();
    let (old, new) = (files(&folder.path("step-1")), files(&folder.path("step-2")));
    let mut first = None;
    for (i, limits) in LIMITS.into_iter().enumerate() {
        let run = |args: &[&str]| drop(folder.ok(&[args, limits].concat()));
        let [one, two, back] = ["one", "two", "back"].map(|name| format!("{name}-{i}"));
        run(&["compress", "-q", "step-1", "-o", &one]);
        run(&["compress", "-q", "step-2", "-o", &two, "--base", "step-1"]);
        run(&["test", "-q", &one]);
        let archives = (files(&folder.path(&one)), files(&folder.path(&two)));
        assert!(*first.get_or_insert_with(|| archives.clone()) == archives, "{limits:?}");
        run(&["decompress", "-q", &one, "-o", &back]);
        assert!(files(&folder.path(&back)) == old, "{limits:?}");
        run(&["decompress", "-qf", &two, "-o", &back, "--base", "step-1"]);
        assert!(files(&folder.path(&back)) == new, "{limits:?}");
    }
}

/// Stores have the same packs with any limits, and what is restored and exported is the same.
#[test]
fn limits_do_not_change_stores() {
    let folder = scene();
    let new = files(&folder.path("step-2"));
    let mut first = None;
    for (i, limits) in LIMITS.into_iter().enumerate() {
        let run = |args: &[&str]| drop(folder.ok(&[args, limits].concat()));
        let [store, other, out, export] =
            ["store", "other", "out", "export"].map(|name| format!("{name}-{i}"));
        folder.ok(&["init", &store]);
        folder.ok(&["init", &other]);
        run(&["save", "-q", "step-1", "--store", &store]);
        run(&["save", "-q", "step-2", "--store", &store]);
        run(&["check", "--read-data", "--store", &store]);
        run(&["copy", "-q", &store, &other]);
        run(&["repair", "--store", &other, "--from", &store]);
        run(&["restore", "-q", "latest", &out, "--store", &other]);
        assert!(files(&folder.path(&out)) == new, "{limits:?}");
        run(&["export", "-q", "latest", "-o", &export, "--store", &store]);
        // The name of a pack begins with a number that is drawn for its save.
        let packs = |store: &str| packs(&folder.path(store));
        let made = (packs(&store), packs(&other), files(&folder.path(&export)));
        assert!(!made.0.is_empty());
        assert!(*first.get_or_insert_with(|| made.clone()) == made, "{limits:?}");
        run(&["rebase", "-q", "latest", "--store", &store]);
        run(&["report", "--read-data", "--store", &store]);
    }
}

/// The bytes of all packs of a store.
fn packs(store: &Path) -> Vec<Vec<u8>> {
    let mut packs: Vec<_> = files(&store.join("packs")).into_values().collect();
    packs.sort();
    packs
}

/// Limits that make no sense are refused as wrong usage.
#[test]
fn wrong_limits_are_refused() {
    let folder = Folder::new();
    folder.write("x", b"x");
    for limit in ["--memory=1MB", "--memory=-1", "--memory=much", "--memory=", "--memory=1.5G"] {
        let output = folder.lmc(&["compress", "x", limit]);
        assert_eq!(code(&output), 2, "{limit}");
        assert!(stderr(&output).contains("a size is a number of bytes"), "{}", stderr(&output));
    }
    for limit in ["--nice=20", "--nice=-1", "--nice=low", "--nice="] {
        assert_eq!(code(&folder.lmc(&["save", "x", "--store", "store", limit])), 2, "{limit}");
    }
    assert_eq!(folder.names(), ["x"]);
}

/// A save that gives way to others saves the same.
#[test]
fn a_nice_save_saves_the_same() {
    let folder = scene();
    for (store, nice) in [("usual", "0"), ("nice", "5"), ("nicest", "19")] {
        folder.ok(&["init", store]);
        folder.ok(&["save", "-q", "step-1", "--store", store, "--nice", nice]);
        assert!(packs(&folder.path(store)) == packs(&folder.path("usual")), "{nice}");
    }
    folder.ok(&["restore", "-q", "latest", "out", "--store", "nice"]);
    assert!(files(&folder.path("out")) == files(&folder.path("step-1")));
}

/// All threads of a nice save that work have its nice value.
#[test]
#[cfg(target_os = "linux")]
fn all_workers_are_nice() {
    let folder = Folder::new();
    folder.ok(&["init", "store"]);
    let usual = nice_of(Path::new("/proc/thread-self")).expect("this thread exists");
    let nice = (usual + 5).min(19);
    // A save may end before its threads are seen; then the next one is longer.
    for len in (23..30).map(|log2| 1 << log2) {
        folder.write("data", &common::weights(len / 2, len as u64));
        let args = ["save", "-q", "-T", "3", "data", "--store", "store", "--nice", "5"];
        let mut child = common::command(&folder.path(""), &args)
            .stdout(Stdio::null())
            .spawn()
            .expect("lmc starts");
        let seen = threads_at_work(&mut child);
        assert!(child.wait().expect("lmc ends").success());
        let Some(seen) = seen else { continue };
        // Those that there are before the command is known: the first, and the one for signals.
        let others = seen.iter().filter(|&&value| value != nice).count();
        assert!(others <= 2 || nice == usual, "{seen:?}, not {nice}");
        return;
    }
    panic!("no save was long enough to be seen at work");
}

/// The nice values of the threads of a save while it works; none if it ends before.
fn threads_at_work(child: &mut Child) -> Option<Vec<i64>> {
    let tasks = PathBuf::from(format!("/proc/{}/task", child.id()));
    while child.try_wait().expect("a child").is_none() {
        let names = fs::read_dir(&tasks).into_iter().flatten().map_while(Result::ok);
        let threads: Vec<PathBuf> = names.map(|name| name.path()).collect();
        // Without a worker, there are the first, the one for signals, and the one that has the
        // command.
        let values: Vec<i64> = threads.iter().filter_map(|thread| nice_of(thread)).collect();
        if values.len() > 4 {
            return Some(values);
        }
    }
    None
}

/// The nice value of a thread, from its folder in `/proc`; none once it has ended.
fn nice_of(thread: &Path) -> Option<i64> {
    let stat = fs::read_to_string(thread.join("stat")).ok()?;
    // The name, which is in parentheses, may have spaces. The nice value is field 19, the 17th
    // after it.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(16)?.parse().ok()
}
