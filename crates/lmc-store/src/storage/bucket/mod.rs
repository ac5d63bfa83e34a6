//! A bucket as storage: S3, Google Cloud Storage, Azure, or anything else that `object_store`
//! supports.
//!
//! A put is one request that succeeds completely or not at all. Multipart uploads would not be
//! better. A pack is at most 64 MiB and is in memory as a whole before it has a name. Several packs
//! are sent concurrently, which uses the bandwidth as well as parts would. A failed put repeats at
//! most 64 MiB, and a killed process leaves no unseen parts that cost money. Also, `object_store`
//! has no multipart upload that creates an object only if it does not exist.
//!
//! `object_store` sends a request again, with growing pauses, if the server asked for it or if
//! sending twice does no harm. A create that got no answer is sent again here. If the object then
//! exists, its bytes show whether it is ours. A bucket is durable when it says so.

mod error;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
mod machine;
mod open;
mod url;

use self::error::{is_unanswered, is_without_bucket};
use self::url::BucketUrl;
use super::{Location, ObjectInfo, Put, Stat, Storage, not_found};
use ::url::Url;
use futures_util::{StreamExt, TryStreamExt, stream};
use lmc_format::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayloadMut};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How many times a request is sent again; the pauses add up to about a minute.
const RETRIES: usize = 10;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Threads that wait for servers.
const NETWORK_THREADS: usize = 2;
/// How long an idle thread stays.
const KEEP_ALIVE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many times a create is sent if the server reports a conflict but the object does not exist.
const CREATES_MAX: usize = 5;

/// A bucket, or the part of it below a prefix.
#[derive(Debug)]
pub struct BucketStorage {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    url: BucketUrl,
    retries: usize,
    network: Network,
}

/// Network threads, and the process that they belong to.
#[derive(Debug)]
struct Network {
    runtime: Arc<Runtime>,
    pid: u32,
}

impl Drop for Network {
    fn drop(&mut self) {
        // A forked process has none of these threads, and waiting for them would never end.
        if self.pid != std::process::id() {
            std::mem::forget(self.runtime.clone());
        }
    }
}

/// Starts the network threads. The library panics if the system refuses a thread, so this is tried
/// first. If it panics nevertheless, that becomes an error.
fn start_network() -> Result<Runtime> {
    let refused = |e: &dyn std::fmt::Display| {
        let message = format!("cannot start network threads: {e}; allow more threads (ulimit -u)");
        Error::new(ErrorKind::Io, message)
    };
    let gate = std::sync::Mutex::new(());
    std::thread::scope(|scope| {
        // Every thread waits until the last one has been started.
        let _closed = gate.lock();
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()));
        // One more than the workers: the names of servers are looked up on a separate thread.
        (0..=NETWORK_THREADS).map(start).collect::<std::io::Result<Vec<_>>>().map(drop)
    })
    .map_err(|e| refused(&e))?;
    let build = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(NETWORK_THREADS).thread_keep_alive(KEEP_ALIVE).enable_all();
        let runtime = builder.build()?;
        // The thread for lookups is started now and stays, so that none has to be started later.
        drop(runtime.spawn_blocking(|| ()));
        Ok::<_, std::io::Error>(runtime)
    };
    match std::panic::catch_unwind(build) {
        Ok(runtime) => runtime.map_err(|e| refused(&e)),
        Err(_) => Err(refused(&"the system refused one")),
    }
}

impl BucketStorage {
    /// Opens `url`. Keys and endpoints come from the environment, as in other tools
    /// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT`,
    /// `AZURE_STORAGE_ACCOUNT_NAME` and so on). `LMC_RETRIES` says how many times a request is sent
    /// again.
    pub fn from_url(url: &str) -> Result<Self> {
        let parsed = Url::parse(url)
            .map_err(|e| Error::invalid(format!("{} is not a URL: {e}", Location::from(url))))?;
        let retries = open::retries()?;
        let (store, prefix) = open::open(&parsed, std::env::vars_os(), retries)?;
        Ok(Self { url: BucketUrl::of_url(&parsed), retries, ..Self::new(store, prefix)? })
    }

    /// Any store of `object_store`, below a prefix.
    pub fn new(store: Box<dyn ObjectStore>, prefix: Path) -> Result<Self> {
        let runtime = start_network()?;
        let network = Network { runtime: Arc::new(runtime), pid: std::process::id() };
        let url = BucketUrl::of_store(&*store);
        Ok(Self { store, prefix, url, retries: RETRIES, network })
    }

    fn path(&self, name: &str) -> Result<Path> {
        let prefix = self.prefix.as_ref();
        let whole = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
        Path::parse(&whole)
            .map_err(|e| Error::invalid(format!("{whole} is not the name of an object: {e}")))
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        lmc::waiting(|| self.network.runtime.block_on(work))
    }

    /// Sends a request again in cases in which `object_store` does not: no answer came, so it may
    /// have been carried out, or the answer was cut off.
    fn send<T, F>(&self, mut request: impl FnMut() -> F) -> object_store::Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut pause = PAUSE_MIN;
        for _ in 0..self.retries {
            match self.wait(request()) {
                Err(e) if is_unanswered(&e) => {}
                done => return done,
            }
            self.wait(async { tokio::time::sleep(pause).await });
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.wait(request())
    }

    fn put(&self, name: &str, pieces: &[&[u8]], mode: &PutMode) -> Result<Put> {
        let path = self.path(name)?;
        let mut payload = PutPayloadMut::new();
        pieces.iter().for_each(|piece| payload.extend_from_slice(piece));
        let payload = payload.freeze();
        let mut sent = 0;
        let put = self.send(|| {
            sent += 1;
            self.store.put_opts(&path, payload.clone(), PutOptions::from(mode.clone()))
        });
        match put {
            Ok(_) => Ok(Put::Created),
            // The existing object may be from our request that got no answer.
            Err(object_store::Error::AlreadyExists { .. }) => {
                let is_ours = sent > 1 && self.has_bytes(name, &pieces.concat())?;
                Ok(if is_ours { Put::Created } else { Put::Exists })
            }
            Err(e) => Err(self.url.failed("put", name, &e)),
        }
    }

    /// Copies an object to a name that must be free.
    fn copy_new(&self, from: &str, to: &str) -> Result<Put> {
        use object_store::Error as E;
        let paths = (self.path(from)?, self.path(to)?);
        let mut copied = self.send(|| self.store.copy_if_not_exists(&paths.0, &paths.1));
        if matches!(copied, Err(E::NotSupported { .. } | E::NotImplemented { .. })) {
            // Without a condition: two concurrent moves both copy the same object.
            if self.stat(to)?.is_some() {
                return Ok(Put::Exists);
            }
            copied = self.send(|| self.store.copy(&paths.0, &paths.1));
        }
        match copied {
            Ok(()) => Ok(Put::Created),
            Err(E::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(e @ E::NotFound { .. }) => Err(self.unread(from, &e)),
            Err(e) => Err(self.url.failed("move", from, &e)),
        }
    }

    /// Everything that the server says about an object, to tell it from one that replaces it.
    fn version(&self, name: &str) -> Result<ObjectMeta> {
        let path = self.path(name)?;
        self.send(|| self.store.head(&path)).map_err(|e| self.unread(name, &e))
    }

    fn has_bytes(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        match self.read_all(name, bytes.len() as u64) {
            Ok(found) => Ok(found == bytes),
            Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Corrupt) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// What a failed read means: a missing bucket is not the same as a missing object.
    fn unread(&self, name: &str, error: &object_store::Error) -> Error {
        match error {
            object_store::Error::NotFound { .. } if !is_without_bucket(error) => not_found(name),
            error => self.url.failed("read", name, error),
        }
    }

    /// An object's name without the prefix.
    fn name(&self, meta: &ObjectMeta) -> Option<String> {
        let whole = meta.location.as_ref();
        match self.prefix.as_ref() {
            "" => Some(whole.to_string()),
            prefix => whole.strip_prefix(prefix)?.strip_prefix('/').map(str::to_string),
        }
    }
}

impl Storage for BucketStorage {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.put_pieces(name, &[bytes])
    }

    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        for _ in 0..CREATES_MAX {
            match self.put(name, pieces, &PutMode::Create)? {
                Put::Created => return Ok(Put::Created),
                // Two concurrent creates may both be refused, and then there is no object.
                Put::Exists if self.stat(name)?.is_some() => return Ok(Put::Exists),
                Put::Exists => {}
            }
        }
        let message =
            format!("the server refuses {name} because it exists, but it does not; try again");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.put(name, &[bytes], &PutMode::Overwrite).map(|_| ())
    }

    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        // The server copies it, so the copy is complete however long the object is.
        let before = self.version(from)?;
        match self.copy_new(from, to)? {
            Put::Exists => return Ok(Put::Exists),
            Put::Created => {}
        }
        let size = |name: &str| Ok(self.stat(name)?.map(|stat| stat.size));
        if size(from)? != size(to)? {
            let message =
                format!("{to} is not a complete copy of {from}, which is unchanged; try again");
            return Err(Error::new(ErrorKind::Io, message));
        }
        // An object that somebody else has put there meanwhile was not copied.
        if self.version(from)? != before {
            let message =
                format!("{from} was replaced meanwhile, so it was not removed; try again");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.delete(&[from.to_string()]).map(|()| Put::Created)
    }

    fn make_durable(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let path = self.path(name)?;
        let range = at..at + out.len() as u64;
        let bytes = self.wait(self.store.get_range(&path, range));
        let bytes = bytes.map_err(|e| self.unread(name, &e))?;
        if bytes.len() != out.len() {
            let message = format!("{name}: {} of {} bytes were received", bytes.len(), out.len());
            return Err(Error::truncated(message));
        }
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        let path = self.path(name)?;
        match self.wait(self.store.head(&path)) {
            Ok(meta) => Ok(Some(stat(&meta))),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.url.failed("access", name, &e)),
        }
    }

    /// One request instead of two.
    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        let path = self.path(name)?;
        self.wait(async {
            let unread = |e: object_store::Error| self.unread(name, &e);
            let found = self.store.get(&path).await.map_err(unread)?;
            let size = found.meta.size;
            super::check_len(name, size, len_max)?;
            let bytes = found.bytes().await.map_err(unread)?;
            if bytes.len() as u64 != size {
                let message = format!("{name}: {} of {size} bytes were received", bytes.len());
                return Err(Error::truncated(message));
            }
            Ok(bytes.to_vec())
        })
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.list(folder)?.into_iter().map(|entry| entry.name).collect())
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path(folder)?;
        let found = self.send(|| self.store.list_with_delimiter(Some(&path)));
        let found = found.map_err(|e| self.url.failed("list", folder, &e))?;
        let last = |path: &Path| Some(path.filename()?.to_string());
        Ok(found.common_prefixes.iter().filter_map(last).collect())
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        let path = self.path(folder)?;
        let metas: object_store::Result<Vec<ObjectMeta>> =
            self.send(|| self.store.list(Some(&path)).try_collect());
        let metas = metas.map_err(|e| self.url.failed("list", folder, &e))?;
        let entry =
            |meta: ObjectMeta| Some(ObjectInfo { name: self.name(&meta)?, stat: stat(&meta) });
        Ok(metas.into_iter().filter_map(entry).collect())
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        let paths = names.iter().map(|name| self.path(name)).collect::<Result<Vec<_>>>()?;
        let removed = self.send(|| async {
            let mut removed = self.store.delete_stream(stream::iter(paths.clone()).map(Ok).boxed());
            while let Some(result) = removed.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        });
        removed.map_err(|e| self.url.failed("remove", "objects", &e))
    }

    fn remove_temporaries(&self, _before_ms: u64) -> Result<u64> {
        Ok(0)
    }

    fn has_cheap_stat(&self) -> bool {
        false
    }

    fn concurrent_puts(&self) -> usize {
        64
    }

    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
}

fn stat(meta: &ObjectMeta) -> Stat {
    let modified_ms = u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0);
    Stat { size: meta.size, modified_ms }
}

#[cfg(test)]
mod tests;
