//! A store: how it is made and opened, and what all its work shares.

use crate::layout::clock::{Clock, rfc3339};
use crate::layout::config::{
    CONFIG_LEN_MAX, CONFIG_NAME, Config, FORMAT, GRACE_SECONDS, damaged, unconditional,
};
use crate::layout::names::{FOLDERS, MARKER, random_id};
use crate::storage::{Interruptible, Put, Storage};
use lmc::Context;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::sync::Arc;

/// A place that holds snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    /// How the work is stopped, who watches it, and how many threads it uses.
    pub(crate) context: Context,
}

impl Store {
    /// Makes a store. The storage must not hold one yet, and it must refuse to create an object
    /// twice. Otherwise two writers could each believe that a snapshot is theirs.
    pub fn init(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::init_with(storage, clock, GRACE_SECONDS)
    }

    /// Like [`Store::init`], with another grace period.
    pub fn init_with(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        grace_seconds: u64,
    ) -> Result<Self> {
        if storage.stat(CONFIG_NAME)?.is_some() {
            return Err(exists());
        }
        probe(&*storage)?;
        for folder in FOLDERS {
            storage.put_new(&format!("{folder}/{MARKER}"), b"")?;
        }
        let config = Config {
            format: FORMAT,
            id: random_id()?,
            created: rfc3339(clock.now_ms()),
            grace_seconds,
            conditional_create: true,
            has_markers: true,
        };
        let bytes = config.write()?;
        let put = storage.put_new(CONFIG_NAME, &bytes)?;
        // The id is random: if an object with these bytes exists, our put was sent twice.
        if put == Put::Exists && storage.read_all(CONFIG_NAME, CONFIG_LEN_MAX)? != bytes {
            return Err(exists());
        }
        Ok(Self { storage, config, clock, context: Context::default() })
    }

    /// Opens a store.
    pub fn open(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Result<Self> {
        let bytes = storage.read_all(CONFIG_NAME, CONFIG_LEN_MAX).map_err(|e| match e.kind {
            ErrorKind::NotFound => Error::new(ErrorKind::NoStore, "there is no store here")
                .with_advice(Advice::CreateStore),
            ErrorKind::Corrupt => damaged(&e),
            _ => e,
        })?;
        let (config, context) = (Config::read(&bytes)?, Context::default());
        Ok(Self { storage, config, clock, context })
    }

    /// The same store, but its work is stopped and watched by `context` and uses its threads.
    /// Anything that could stop the work before still does.
    pub fn with_context(&self, context: &Context) -> Self {
        let storage = Arc::new(Interruptible::new(self.storage.clone(), &context.interrupt));
        Self { storage, context: context.clone(), ..self.clone() }
    }

    /// The settings of the store.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The storage that holds its objects.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The grace period, in milliseconds.
    pub(crate) fn grace_ms(&self) -> u64 {
        self.config.grace_seconds.saturating_mul(1000)
    }
}

/// Fails unless the storage refuses to create an object twice and keeps the first one unchanged.
fn probe(storage: &dyn Storage) -> Result<()> {
    let name = format!("probe/{}", random_id()?);
    let created = storage.put_new(&name, b"first");
    let again = created.clone().and_then(|_| storage.put_new(&name, b"second"));
    let kept = again.clone().and_then(|_| storage.read_all(&name, 64));
    storage.delete(&[name])?;
    match (created?, again?, &kept?[..]) {
        // The name is random: if the object exists at the first put, that put was sent twice.
        (_, Put::Exists, b"first") => Ok(()),
        _ => Err(unconditional()),
    }
}

fn exists() -> Error {
    Error::new(ErrorKind::AlreadyExists, "a store already exists here; nothing was changed")
}
