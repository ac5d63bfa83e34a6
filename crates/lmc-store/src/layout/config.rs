//! The configuration of a store, and how a store is made and opened.

use crate::layout::clock::{Clock, rfc3339};
use crate::layout::names::{FOLDERS, MARKER, random_id};
use crate::storage::{Interruptible, Put, Storage};
use lmc::Context;
use lmc_format::{Advice, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The object whose presence makes a place a store. `init` writes it last.
pub const CONFIG_NAME: &str = "lmc-store.json";
/// The version of the layout that this code reads and writes.
pub const FORMAT: u32 = 1;
/// The default grace period, in seconds.
pub const GRACE_SECONDS: u64 = 86_400;
/// The shortest useful grace period: a save must show that it is alive within a quarter of it.
pub const GRACE_SECONDS_MIN: u64 = 60;
const CONFIG_LEN_MAX: u64 = 1 << 16;

/// The settings of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The version of the layout.
    pub format: u32,
    /// The id of the store, in hex.
    pub id: String,
    /// When the store was made.
    pub created: String,
    /// The grace period, in seconds.
    pub grace_seconds: u64,
    /// Whether the storage was seen to refuse a second object of the same name.
    pub conditional_create: bool,
    /// Whether each folder of the store has a marker. A folder without its marker is then never
    /// taken to be empty. Stores of earlier versions have no markers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_markers: bool,
}

/// The configuration as it is written. Without the checksum, a flipped bit in a number would go
/// unnoticed.
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
            ErrorKind::NotFound => {
                Error::new(ErrorKind::NoStore, "no store is here").with_advice(Advice::CreateStore)
            }
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

fn unconditional() -> Error {
    let message = "the storage makes an object twice when asked to make it only once, so that \
                   two writers would overwrite each other; use a server that honours If-None-Match";
    Error::new(ErrorKind::Unsupported, message)
}

fn exists() -> Error {
    Error::new(ErrorKind::AlreadyExists, "a store already exists here; nothing was changed")
}
