//! Where a store keeps its objects: a directory, memory or a bucket, all with the same trait.
//!
//! Objects have names like `packs/ab/abcd` and are written once. The guarantees of a store depend
//! on those of each function here, so every storage passes the same tests (`conformance.rs`).

#[cfg(feature = "bucket")]
mod bucket;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
mod interruptible;
mod local;
mod location;
mod memory;
mod open;

#[cfg(feature = "bucket")]
pub use bucket::BucketStorage;
pub use interruptible::Interruptible;
pub use local::LocalStorage;
pub use location::{Location, without_secrets};
pub use memory::MemoryStorage;
pub use open::{Access, mode, open, open_new};

use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// How a put ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object now exists, whole and durable.
    Created,
    /// An object of this name already existed; it is unchanged.
    Exists,
}

/// Size and age of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// When it was written, in milliseconds since 1970 by the storage's own clock.
    pub modified_ms: u64,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its whole name.
    pub name: String,
    /// Size and age.
    pub stat: Stat,
}

/// A place for objects. All functions may be called from any thread. No function has a default
/// body: a new function must be written for every storage. Otherwise it would bypass a storage that
/// wraps another one (`Interruptible`).
pub trait Storage: Send + Sync + fmt::Debug {
    /// Creates an object if none of this name exists. When it returns, the object survives a power
    /// cut. On an error, there is no object or the whole one.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put>;

    /// The same with bytes in several pieces.
    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put>;

    /// Creates an object, or replaces it atomically. Only for repairs: nothing else is ever
    /// overwritten.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Gives a whole object another name, if that is free, without reading the object. When it
    /// returns, the change survives a power cut. On an error, the object has the old name, the new
    /// one, or both.
    fn move_new(&self, from: &str, to: &str) -> Result<Put>;

    /// Makes sure that an object survives a power cut if another writer made it and we have only
    /// seen that it exists.
    fn make_durable(&self, name: &str) -> Result<()>;

    /// Fills `out` with the bytes of an object from `at` on; they must exist.
    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()>;

    /// Size and age of an object, if it exists. If there is a folder of this name, that is an
    /// error.
    fn stat(&self, name: &str) -> Result<Option<Stat>>;

    /// The names of all objects below a folder, in any order. They include every object that exists
    /// from the start of the call to its end.
    fn names(&self, folder: &str) -> Result<Vec<String>>;

    /// The folders directly below a folder that contain objects, by their last names. A folder that
    /// no longer contains any may be included.
    fn folders(&self, folder: &str) -> Result<Vec<String>>;

    /// The same as `names` with sizes and ages.
    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>>;

    /// Removes objects. When it returns, they stay removed after a power cut. A missing object is
    /// not an error.
    fn delete(&self, names: &[String]) -> Result<()>;

    /// Removes files that killed writers left, which are not objects, if they were written before
    /// this time by the clock of the storage; returns how many.
    fn remove_temporaries(&self, before_ms: u64) -> Result<u64>;

    /// Whether a look at an object costs almost nothing, as on a disk.
    fn has_cheap_stat(&self) -> bool;

    /// How many puts may run concurrently and gain by it.
    fn concurrent_puts(&self) -> usize;

    /// The directory that holds the objects, if it is on a disk of this machine.
    fn directory(&self) -> Option<&Path>;

    /// All bytes of an object of at most `len_max` bytes; a longer one is damaged.
    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>>;
}

/// [`Storage::read_all`] with a `stat` and a `read`.
pub fn read_by_parts(storage: &dyn Storage, name: &str, len_max: u64) -> Result<Vec<u8>> {
    let stat = storage.stat(name)?.ok_or_else(|| not_found(name))?;
    check_len(name, stat.size, len_max)?;
    let mut bytes = vec![0; usize::try_from(stat.size).unwrap_or(usize::MAX)];
    storage.read(name, 0, &mut bytes)?;
    Ok(bytes)
}

/// [`Storage::folders`] from a list of all names.
pub fn folders_of_names(names: &[String], folder: &str) -> Vec<String> {
    let below = names.iter().filter_map(|name| name.get(folder.len() + 1..)?.split_once('/'));
    below.map(|(name, _)| name.to_string()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Fails if an object is longer than it may be: somebody has made it longer, which is damage.
fn check_len(name: &str, len: u64, len_max: u64) -> Result<()> {
    if len > len_max {
        let message = format!("{name} has {len} bytes, more than {len_max}");
        return Err(Error::corrupt(message));
    }
    Ok(())
}

pub(crate) fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{name} is not in the store"))
}
