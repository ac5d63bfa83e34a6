//! A store's configuration, and how a store is made and opened.

use crate::layout::clock::{Clock, rfc3339};
use crate::layout::names::{FOLDERS, MARKER, random_id};
use crate::storage::{Interruptible, Put, Storage};
use lmc::Context;
use lmc_format::{Advice, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The object that makes a place a store; the last one that is written when it is made.
pub const CONFIG_NAME: &str = "lmc-store.json";
/// The version of the layout that this code reads and writes.
pub const FORMAT: u32 = 1;
/// How long what a save is working on is kept, in seconds.
pub const GRACE_SECONDS: u64 = 86_400;
/// The least that makes sense of it: a save must show signs of life in a quarter of it.
pub const GRACE_SECONDS_MIN: u64 = 60;
const CONFIG_LEN_MAX: u64 = 1 << 16;

/// What holds for all of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The version of the layout.
    pub format: u32,
    /// The store's own name, in hex.
    pub id: String,
    /// When it was made.
    pub created: String,
    /// How long what a save is working on is kept.
    pub grace_seconds: u64,
    /// Whether the storage was seen to refuse a second object of the same name.
    pub conditional_create: bool,
    /// Whether each folder of the store has a marker, without which it is not believed to be empty.
    /// Stores of earlier versions have none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_markers: bool,
}

/// The configuration as it is written. A bad bit in a number would otherwise be believed.
#[derive(Serialize, Deserialize)]
struct Checked {
    #[serde(flatten)]
    config: Config,
    checksum: String,
}

/// A place that holds snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    /// How its work is stopped, who watches it, and on how many threads it is done.
    pub(crate) context: Context,
}

impl Store {
    /// Makes a store. The storage must not hold one, and must refuse to make an object twice:
    /// without that, two writers could each believe that a snapshot is theirs.
    pub fn init(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::init_with(storage, clock, GRACE_SECONDS)
    }

    /// The same with another time to keep what a save is working on.
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
        // The id is random: if these bytes are there, the put was sent twice.
        if put == Put::Exists && storage.read_all(CONFIG_NAME, CONFIG_LEN_MAX)? != bytes {
            return Err(exists());
        }
        Ok(Self { storage, config, clock, context: Context::default() })
    }

    /// Opens a store.
    pub fn open(storage: Arc<dyn Storage>, clock: Arc<dyn Clock>) -> Result<Self> {
        let bytes = storage.read_all(CONFIG_NAME, CONFIG_LEN_MAX).map_err(|e| match e.kind {
            ErrorKind::NotFound => {
                Error::new(ErrorKind::NoStore, "no store is here").with_advice(Advice::CreateStore)
            }
            ErrorKind::Corrupt => damaged(&e),
            _ => e,
        })?;
        let (config, context) = (Config::read(&bytes)?, Context::default());
        Ok(Self { storage, config, clock, context })
    }

    /// The same store, whose work is stopped and watched by `context` and takes its threads. What
    /// ended the work before, ends it still.
    pub fn with_context(&self, context: &Context) -> Self {
        let storage = Arc::new(Interruptible::new(self.storage.clone(), &context.interrupt));
        Self { storage, context: context.clone(), ..self.clone() }
    }

    /// What holds for all of it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where its objects are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// How long what a save is working on is kept, in milliseconds.
    pub(crate) fn grace_ms(&self) -> u64 {
        self.config.grace_seconds.saturating_mul(1000)
    }
}

impl Config {
    fn write(&self) -> Result<Vec<u8>> {
        let checked = Checked { config: self.clone(), checksum: self.checksum()? };
        let mut bytes = serde_json::to_vec_pretty(&checked).map_err(unwritable)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn checksum(&self) -> Result<String> {
        let bytes = serde_json::to_vec(self).map_err(unwritable)?;
        Ok(blake3::hash(&bytes).to_hex()[..32].to_string())
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let Checked { config, checksum } =
            serde_json::from_slice(bytes).map_err(|e| damaged(&e))?;
        if config.format != FORMAT {
            let found = config.format;
            let message = format!("the store has format {found}, this reader knows {FORMAT}");
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.with_advice(Advice::Upgrade));
        }
        if !config.conditional_create {
            return Err(unconditional());
        }
        if config.checksum()? != checksum {
            return Err(damaged(&"its checksum is another"));
        }
        Ok(config)
    }
}

fn damaged(why: &dyn std::fmt::Display) -> Error {
    let message = format!("{CONFIG_NAME} is damaged: {why}");
    Error::corrupt(message).with_advice(Advice::RecreateStore)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::invalid(format!("cannot write the configuration: {error}"))
}

/// Fails unless the storage refuses to make an object twice and leaves the first one as it was.
fn probe(storage: &dyn Storage) -> Result<()> {
    let name = format!("probe/{}", random_id()?);
    let created = storage.put_new(&name, b"first");
    let again = created.clone().and_then(|_| storage.put_new(&name, b"second"));
    let kept = again.clone().and_then(|_| storage.read_all(&name, 64));
    storage.delete(&[name])?;
    match (created?, again?, &kept?[..]) {
        // The first name is random: if it is there, the put was sent twice.
        (_, Put::Exists, b"first") => Ok(()),
        _ => Err(unconditional()),
    }
}

fn unconditional() -> Error {
    let message = "the storage makes an object twice when asked to make it only once, so that \
                   two writers would overwrite each other; use a server that honours If-None-Match";
    Error::new(ErrorKind::Unsupported, message)
}

fn exists() -> Error {
    Error::new(ErrorKind::AlreadyExists, "a store already exists here; nothing was changed")
}
