//! Real file systems: the power is cut below ext4 while the command works, and disks run full.
//!
//! Both need root and loop devices, so they run by `make crash`. A power cut is an ioctl of ext4
//! that stops all writing at once and leaves the journal as it is.

use crate::history::{Act, Expected, Random, Sources};
use lmc_testkit::{Part, count};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Cuts after which the file system is made anew.
const CUTS_OF_ONE_DISK: u64 = 20;

/// Asks the file system of a folder to stop, without writing its journal: `FS_IOC_SHUTDOWN` with
/// `FS_SHUTDOWN_FLAGS_NOLOGFLUSH`.
const SHUTDOWN: &str = "import fcntl, os, struct, sys; \
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

fn works(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|output| output.status.success())
}

/// A file system of its own in a file or in memory.
struct Volume {
    folder: TempDir,
    is_memory: bool,
    /// How many files there can be.
    files: Option<u64>,
}

impl Volume {
    /// None where it cannot be had.
    fn new(is_memory: bool, mib: u64) -> Option<Self> {
        Self::with(is_memory, mib, None)
    }

    /// The same with so many files at most.
    fn with(is_memory: bool, mib: u64, files: Option<u64>) -> Option<Self> {
        let volume = Self { folder: TempDir::new().expect("a folder"), is_memory, files };
        fs::create_dir(volume.path()).expect("a folder");
        if !is_memory {
            let image = File::create(volume.image()).expect("a file");
            image.set_len(mib << 20).expect("its length");
            let (image, files) = (volume.image(), files.unwrap_or(4096).to_string());
            let made = works("mkfs.ext4", &["-q", "-m", "0", "-N", &files, text(&image)]);
            if !made {
                lmc_testkit::skip(lmc_testkit::Missing::Tool, "no mkfs.ext4 is here");
                return None;
            }
        }
        if !volume.mount(mib) {
            lmc_testkit::skip(lmc_testkit::Missing::Root, "mount needs root and loop devices");
            return None;
        }
        Some(volume)
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn mount(&self, mib: u64) -> bool {
        let path = self.path();
        match self.is_memory {
            true => {
                let files =
                    self.files.map_or_else(String::new, |files| format!(",nr_inodes={files}"));
                let size = format!("size={mib}m{files}");
                works("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", text(&path)])
            }
            false => works("mount", &["-o", "loop", text(&self.image()), text(&path)]),
        }
    }

    fn unmount(&self) -> bool {
        works("umount", &[text(&self.path())])
    }

    /// Cuts the power, and switches it on again.
    fn cut(&self) {
        assert!(works("python3", &["-c", SHUTDOWN, text(&self.path())]), "a cut");
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.unmount();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Works on a store until the disk is gone; what must hold is noted before and after each command.
fn work(sources: &Sources, store: &Path, first: u64, expected: &Mutex<Expected>) -> u64 {
    let mut done = 0;
    for step in first.. {
        let mut acts = vec![Act::Save(step)];
        acts.extend((step % 3 == 0).then_some(Act::Forget(4)));
        acts.extend((step % 5 == 0).then_some(Act::Prune));
        acts.extend((step % 7 == 0).then_some(Act::Rebase));
        for act in acts {
            let before = expected.lock().expect("a lock").clone();
            *expected.lock().expect("a lock") = before.during(act);
            if sources.done(act, store).is_err() {
                return done;
            }
            *expected.lock().expect("a lock") = before.after(act);
            done += 1;
        }
    }
    done
}

/// Syncs of another program, which push some of what we have not synced to the disk.
fn neighbour(folder: &Path, is_over: &AtomicBool) {
    let Ok(mut file) = File::create(folder.join("neighbour")) else { return };
    while !is_over.load(Ordering::Relaxed) {
        if file.write_all(&[1; 3000]).and_then(|()| file.sync_all()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The power is cut again and again, with and without a neighbour that syncs; `LMC_POWER_CUTS` says
/// how often.
#[test]
#[ignore = "needs root and loop devices; make crash"]
fn power_cuts_below_ext4_lose_nothing() {
    let part = Part::from_env();
    let (cuts, seed) = (part.share(count("LMC_POWER_CUTS", 10)), part.seed(count("LMC_SEED", 0)));
    let sources = Sources::new(40_000);
    let mut random = Random::new(seed);
    let (mut volume, mut expected, mut commands) = (None, Expected::default(), 0);
    for cut in 0..cuts {
        if cut % CUTS_OF_ONE_DISK == 0 {
            drop(volume.take());
            volume = Volume::new(false, 64);
            expected = Expected::default();
        }
        let Some(volume) = &volume else { return };
        let store = volume.path().join("store");
        if !expected.has_store {
            sources.done(Act::Init, &store).expect("a store");
            expected = expected.after(Act::Init);
        }
        let first = expected.must.last().map_or(1, |last| last + 1);
        let (shared, is_over) = (Mutex::new(expected), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| work(&sources, &store, first, &shared));
            if cut % 2 == 1 {
                scope.spawn(|| neighbour(&volume.path(), &is_over));
            }
            std::thread::sleep(Duration::from_millis(20 + random.below(400)));
            volume.cut();
            commands += worker.join().expect("an end");
            is_over.store(true, Ordering::Relaxed);
        });
        expected = shared.into_inner().expect("a lock");
        assert!(volume.unmount() && volume.mount(64), "the disk comes back");
        // What is seen after a cut is on the disk.
        expected = sources
            .verify(&store, &expected)
            .unwrap_or_else(|e| panic!("cut {cut}, LMC_SEED={seed}, {expected:?}: {e}"));
    }
    println!("{part}: {cuts} cuts, {commands} commands done in between, nothing lost");
}

/// A disk of 16 MiB is saved to until it is full: an error that says so, the snapshots before are
/// whole. Forgetting and pruning work on the full disk and make room for the next save.
fn fill(volume: &Volume) {
    let sources = Sources::new(1 << 20);
    let store = volume.path().join("store");
    sources.done(Act::Init, &store).expect("a store");
    let mut expected = Expected::default().after(Act::Init);
    for act in [Act::Save(1), Act::Save(2)] {
        sources.done(act, &store).expect("there is room");
        expected = expected.after(act);
    }
    // Something else takes all of the disk but for a few saves.
    let mut other = File::create(volume.path().join("other")).expect("a file");
    while other.write_all(&[1; 4096]).is_ok() {}
    let len = other.metadata().expect("it is there").len();
    other.set_len(len - (300 << 10)).and_then(|()| other.sync_all()).expect("room");
    other.seek(SeekFrom::End(0)).expect("its end");
    let mut fails = 0;
    for step in 3..20 {
        let output = sources.run(Act::Save(step), &store);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            expected = expected.after(Act::Save(step));
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("No space left on device"), "{message}");
        sources.verify(&store, &expected).expect("all that was saved");
        fails += 1;
        // Not a byte is left, and then a few.
        while other.write(&[1; 512]).is_ok_and(|written| written > 0) {}
        if fails == 3 {
            break;
        }
    }
    assert_eq!(fails, 3, "it never was full");
    for act in [Act::Forget(1), Act::Prune] {
        sources.done(act, &store).expect("room can be made on a full disk");
        expected = expected.after(act);
        sources.verify(&store, &expected).expect("what is kept");
    }
    drop(other);
    fs::remove_file(volume.path().join("other")).expect("it goes");
    sources.done(Act::Save(5000), &store).expect("there is room again");
    sources.verify(&store, &expected.after(Act::Save(5000))).expect("all of it");
    println!("full after step {}", expected.must.last().copied().unwrap_or(0));
}

/// Not a single file more can be made, though there is room: forgetting and pruning work, and make
/// room for files too.
fn use_up_files(volume: &Volume) {
    let sources = Sources::new(1 << 16);
    let store = volume.path().join("store");
    sources.done(Act::Init, &store).expect("a store");
    let mut expected = Expected::default().after(Act::Init);
    for step in 1..=6 {
        sources.done(Act::Save(step), &store).expect("there are files left");
        expected = expected.after(Act::Save(step));
    }
    let other = volume.path().join("other");
    fs::create_dir(&other).expect("a folder");
    let mut made = 0;
    while File::create(other.join(made.to_string())).is_ok() {
        made += 1;
    }
    let output = sources.run(Act::Save(7), &store);
    assert_eq!(output.status.code(), Some(1), "no file is left");
    sources.verify(&store, &expected).expect("all that was saved");
    // Where a hard link takes a file, marks may not all be made at once.
    let mut rounds = 0;
    loop {
        let forgotten = sources.done(Act::Forget(1), &store);
        expected = expected.during(Act::Forget(1));
        sources.done(Act::Prune, &store).expect("files can be had back on a disk without files");
        expected = sources.verify(&store, &expected).expect("what is kept");
        rounds += 1;
        match forgotten {
            Ok(()) => break,
            Err(e) => assert!(rounds < 6, "{e}"),
        }
    }
    assert_eq!(expected.must.len(), 1, "{expected:?}");
    sources.done(Act::Save(8), &store).expect("there are files again");
    sources.verify(&store, &expected.after(Act::Save(8))).expect("all of it");
    println!("{made} files were made beside the store, {rounds} rounds");
}

/// On ext4 with few files.
#[test]
#[ignore = "needs root and loop devices; make crash"]
fn an_ext4_without_files() {
    if let Some(volume) = Volume::with(false, 16, Some(128)) {
        use_up_files(&volume);
    }
}

/// In memory with few files.
#[test]
#[ignore = "needs root; make crash"]
fn a_tmpfs_without_files() {
    if let Some(volume) = Volume::with(true, 16, Some(128)) {
        use_up_files(&volume);
    }
}

/// On ext4.
#[test]
#[ignore = "needs root and loop devices; make crash"]
fn a_full_ext4() {
    if let Some(volume) = Volume::new(false, 16) {
        fill(&volume);
    }
}

/// In memory.
#[test]
#[ignore = "needs root; make crash"]
fn a_full_tmpfs() {
    if let Some(volume) = Volume::new(true, 16) {
        fill(&volume);
    }
}
