//! How many packs are on their way to and from a bucket concurrently, and how many bytes. The
//! storage of these tests answers only once as many requests have come as there should be.

use crate::common::*;
use lmc::Context;
use lmc_store::storage::{MemoryStorage, ObjectInfo, Put, Stat, Storage};
use lmc_store::{RestoreOptions, Result, SaveOptions, Store, SystemClock};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long a request waits for others before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests that wait for each other.
#[derive(Debug, Default)]
struct Requests {
    /// How many wait, and whether enough have come.
    state: Mutex<(usize, bool)>,
    have_come: Condvar,
    most: AtomicU64,
    bytes: AtomicU64,
    most_bytes: AtomicU64,
}

impl Requests {
    fn wait_for(&self, wanted: usize, bytes: u64) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        state.1 |= state.0 == wanted;
        self.most.fetch_max(state.0 as u64, Ordering::SeqCst);
        let now = self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most_bytes.fetch_max(now, Ordering::SeqCst);
        self.have_come.notify_all();
        while !state.1 {
            let (woken, timeout) = self.have_come.wait_timeout(state, PATIENCE).unwrap();
            state = woken;
            assert!(!timeout.timed_out(), "{} requests came, not {wanted}", state.0);
        }
        drop(state);
        // Others that may come all the same get the time to do so.
        std::thread::sleep(Duration::from_millis(5));
        self.state.lock().unwrap().0 -= 1;
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// A bucket whose packs take long.
#[derive(Debug, Default)]
struct Distant {
    inner: MemoryStorage,
    puts_wanted: usize,
    reads_wanted: usize,
    puts: Requests,
    reads: Requests,
}

impl Storage for Distant {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.inner.put_new(name, bytes)
    }

    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        lmc::waiting(|| self.puts.wait_for(self.puts_wanted, len as u64));
        self.inner.put_pieces(name, pieces)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.inner.replace(name, bytes)
    }

    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        self.inner.move_new(from, to)
    }

    fn make_durable(&self, name: &str) -> Result<()> {
        self.inner.make_durable(name)
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        // Headers and indexes come alone.
        if out.len() > 1 << 20 {
            lmc::waiting(|| self.reads.wait_for(self.reads_wanted, out.len() as u64));
        }
        self.inner.read(name, at, out)
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        self.inner.stat(name)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.names(folder)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.folders(folder)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        self.inner.list(folder)
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        self.inner.delete(names)
    }

    fn remove_temporaries(&self, before_ms: u64) -> Result<u64> {
        self.inner.remove_temporaries(before_ms)
    }

    fn has_cheap_stat(&self) -> bool {
        false
    }

    fn concurrent_puts(&self) -> usize {
        64
    }

    fn directory(&self) -> Option<&Path> {
        None
    }

    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        self.inner.read_all(name, len_max)
    }
}

/// The memory that a command is given decides how many packs it sends and how many parts it fetches
/// concurrently, whatever the number of its threads; and they are all that is on its way.
#[test]
fn memory_decides_how_much_is_on_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.bin");
    let mut noise = vec![0; 128 << 20];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    write(&path, &noise);
    let (pack_len, memory) = (8 << 20, 240 << 20);
    // Half of the memory is for packs, one of which is being filled. It has room for ten parts, and
    // half of these are being fetched.
    let (puts_wanted, reads_wanted) = (14, 5);
    let distant = Distant { puts_wanted, reads_wanted, ..Distant::default() };
    let distant = Arc::new(distant);
    let store = Store::init(distant.clone(), Arc::new(SystemClock)).unwrap();
    let store = store.with_context(&Context { threads: 2, memory, ..Context::default() });
    let options = SaveOptions { pack_len, ..SaveOptions::default() };
    let saved = store.save(&path, &options).unwrap();
    let count = |requests: &Requests| requests.most.load(Ordering::SeqCst) as usize;
    assert_eq!(count(&distant.puts), puts_wanted);
    assert!(distant.puts.most_bytes.load(Ordering::SeqCst) <= memory / 2);
    store.restore(&saved.name, &folder.path().join("back"), &RestoreOptions::default()).unwrap();
    assert_eq!(count(&distant.reads), reads_wanted);
    assert!(distant.reads.most_bytes.load(Ordering::SeqCst) <= memory);
}
