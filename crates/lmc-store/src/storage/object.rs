//! A bucket as storage: S3, Google Cloud Storage or Azure, or anything else that `object_store`
//! speaks to.
//!
//! Puts are single requests that succeed whole or not at all; requests that fail are sent again
//! with growing pauses by `object_store`. A bucket is durable when it says so.

use super::{Entry, Put, Stat, Storage, not_found};
use futures_util::{StreamExt, TryStreamExt, stream};
use lmc_format::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::future::Future;
use tokio::runtime::{Builder, Runtime};
use url::Url;

/// Times that a create is sent which the server calls a conflict with an object that is not there.
const CREATES_MAX: usize = 5;

/// A bucket, or the part of it below a prefix.
#[derive(Debug)]
pub struct ObjectStorage {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    runtime: Runtime,
}

impl ObjectStorage {
    /// Opens `url`; keys and endpoints come from the environment, as other tools have them
    /// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `GOOGLE_SERVICE_ACCOUNT`,
    /// `AZURE_STORAGE_ACCOUNT_NAME` and so on).
    pub fn from_url(url: &str) -> Result<Self> {
        let parsed =
            Url::parse(url).map_err(|e| Error::invalid(format!("{url} is no URL: {e}")))?;
        let (store, prefix) = object_store::parse_url_opts(&parsed, std::env::vars())
            .map_err(|e| Error::invalid(format!("{url}: {e}")))?;
        Self::new(store, prefix)
    }

    /// Any store of that crate, below a prefix.
    pub fn new(store: Box<dyn ObjectStore>, prefix: Path) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start network threads: {e}")))?;
        Ok(Self { store, prefix, runtime })
    }

    fn path(&self, name: &str) -> Result<Path> {
        let prefix = self.prefix.as_ref();
        let whole = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
        Path::parse(&whole).map_err(|e| Error::invalid(format!("{whole} is no name: {e}")))
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn put(&self, name: &str, bytes: &[u8], mode: PutMode) -> Result<Put> {
        let path = self.path(name)?;
        let payload = PutPayload::from(bytes.to_vec());
        let options = PutOptions::from(mode);
        match self.wait(self.store.put_opts(&path, payload, options)) {
            Ok(_) => Ok(Put::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::Exists),
            Err(e) => Err(failed("cannot put", name, &e)),
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

impl Storage for ObjectStorage {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        for _ in 0..CREATES_MAX {
            match self.put(name, bytes, PutMode::Create)? {
                Put::Created => return Ok(Put::Created),
                // Two creates at once may both be refused, and then nothing is there.
                Put::Exists if self.stat(name)?.is_some() => return Ok(Put::Exists),
                Put::Exists => {}
            }
        }
        let message = format!("{name} is refused as if it were there, and it is not; try again");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.put(name, bytes, PutMode::Overwrite).map(|_| ())
    }

    fn take_back(&self, name: &str) {
        // A put that was not answered may have been done, and then this may fail as well.
        let _ = self.delete(&[name.to_string()]);
    }

    fn settle(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let path = self.path(name)?;
        let range = at..at + out.len() as u64;
        let bytes = self.wait(self.store.get_range(&path, range)).map_err(|e| match e {
            object_store::Error::NotFound { .. } => not_found(name),
            e => failed("cannot read", name, &e),
        })?;
        if bytes.len() != out.len() {
            let message = format!("{name} gave {} bytes of {}", bytes.len(), out.len());
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
            Err(e) => Err(failed("cannot look at", name, &e)),
        }
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.list(folder)?.into_iter().map(|entry| entry.name).collect())
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let path = self.path(folder)?;
        let metas: Vec<ObjectMeta> = self
            .wait(self.store.list(Some(&path)).try_collect())
            .map_err(|e| failed("cannot list", folder, &e))?;
        let entry = |meta: ObjectMeta| Some(Entry { name: self.name(&meta)?, stat: stat(&meta) });
        Ok(metas.into_iter().filter_map(entry).collect())
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        let paths = names.iter().map(|name| self.path(name)).collect::<Result<Vec<_>>>()?;
        let paths = stream::iter(paths).map(Ok).boxed();
        let removed = self.wait(async {
            let mut removed = self.store.delete_stream(paths);
            while let Some(result) = removed.next().await {
                match result {
                    Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        });
        removed.map_err(|e| failed("cannot remove", "objects", &e))
    }

    fn remove_temporaries(&self, _age_ms_min: u64) -> Result<u64> {
        Ok(0)
    }

    fn puts_at_once(&self) -> usize {
        4
    }
}

fn stat(meta: &ObjectMeta) -> Stat {
    let modified_ms = u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0);
    Stat { size: meta.size, modified_ms }
}

fn failed(what: &str, name: &str, error: &object_store::Error) -> Error {
    let text = error.to_string().replace('\n', " ");
    Error::new(ErrorKind::Io, format!("{what} {name}: {text}"))
}
