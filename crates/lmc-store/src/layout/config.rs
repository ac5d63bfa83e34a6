//! The configuration of a store.

use lmc_format::{Advice, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The object whose presence makes a place a store. `init` writes it last.
pub const CONFIG_NAME: &str = "lmc-store.json";
/// The version of the layout that this code reads and writes.
pub(crate) const FORMAT: u32 = 1;
/// The default grace period, in seconds.
pub const GRACE_SECONDS: u64 = 86_400;
/// The shortest useful grace period: a save must show that it is alive within a quarter of it.
pub const GRACE_SECONDS_MIN: u64 = 60;
pub(crate) const CONFIG_LEN_MAX: u64 = 1 << 16;

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
struct SealedConfig {
    #[serde(flatten)]
    config: Config,
    checksum: String,
}

impl Config {
    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        let sealed = SealedConfig { config: self.clone(), checksum: self.checksum()? };
        let mut bytes = serde_json::to_vec_pretty(&sealed).map_err(unwritable)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn checksum(&self) -> Result<String> {
        let bytes = serde_json::to_vec(self).map_err(unwritable)?;
        Ok(blake3::hash(&bytes).to_hex()[..32].to_string())
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let SealedConfig { config, checksum } =
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
            return Err(damaged(&"its checksum does not match"));
        }
        Ok(config)
    }
}

pub(crate) fn damaged(why: &dyn std::fmt::Display) -> Error {
    let message = format!("{CONFIG_NAME} is damaged: {why}");
    Error::corrupt(message).with_advice(Advice::RecreateStore)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::invalid(format!("cannot write the configuration: {error}"))
}

pub(crate) fn unconditional() -> Error {
    let message = "the storage lets two writers create the same object, so one would overwrite the \
                   other; use a server that honours If-None-Match";
    Error::new(ErrorKind::Unsupported, message)
}
