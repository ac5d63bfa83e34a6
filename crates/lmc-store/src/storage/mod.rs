//! Where a store keeps its objects: a directory, memory or a bucket, behind one trait.
//!
//! Objects have names like `packs/ab/abcd` and are written once. What a store promises rests on
//! what each function here promises, so every back end passes the same tests
//! (`tests/storage.rs`).

pub mod disk;
mod local;
mod location;
mod memory;
#[cfg(feature = "bucket")]
mod object;
mod stoppable;

pub use local::LocalStorage;
pub use location::{Location, without_secrets};
pub use memory::MemoryStorage;
#[cfg(feature = "bucket")]
pub use object::ObjectStorage;
pub use stoppable::Stoppable;

use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How a put ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there now, whole and durable.
    Created,
    /// An object of this name was there before; it is as it was.
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
pub struct Entry {
    /// Its whole name.
    pub name: String,
    /// Size and age.
    pub stat: Stat,
}

/// A place for objects. All functions may be called from any thread.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Makes an object, if there is none of this name. When it returns, the object survives a power
    /// cut; on an error there is no object, or the whole one.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put>;

    /// Makes an object or takes the place of one, at once. Only for repairs: nothing else is ever
    /// overwritten.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()>;

    /// Makes sure that an object stays after a power cut, if another writer made it and it is only
    /// seen to be there.
    fn settle(&self, name: &str) -> Result<()>;

    /// Fills `out` with the bytes of an object from `at` on; they must be there.
    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()>;

    /// Size and age of an object, if it is there.
    fn stat(&self, name: &str) -> Result<Option<Stat>>;

    /// The names of all objects below a folder, in any order. Every object that is there from the
    /// start of the call to its end is among them.
    fn names(&self, folder: &str) -> Result<Vec<String>>;

    /// The names, without what stands before them, of the folders right below a folder that
    /// objects are in; one that has none any more may be among them.
    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let names = self.names(folder)?;
        let below = names.iter().filter_map(|name| name[folder.len() + 1..].split_once('/'));
        Ok(below.map(|(name, _)| name.to_string()).collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// The same as `names` with sizes and ages.
    fn list(&self, folder: &str) -> Result<Vec<Entry>>;

    /// Removes objects. When it returns, they stay removed after a power cut. One that is not there
    /// is no error.
    fn delete(&self, names: &[String]) -> Result<()>;

    /// Removes what killed writers left that is no object and was written before this time, by
    /// the clock of the storage; returns how many.
    fn remove_temporaries(&self, before_ms: u64) -> Result<u64>;

    /// Whether a look at an object costs next to nothing, as on a disk.
    fn has_cheap_stat(&self) -> bool {
        false
    }

    /// Puts that should be under way at once.
    fn puts_at_once(&self) -> usize;

    /// All of an object of at most `len_max` bytes.
    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        let stat = self.stat(name)?.ok_or_else(|| not_found(name))?;
        check_len(name, stat.size, len_max)?;
        let mut bytes = vec![0; usize::try_from(stat.size).unwrap_or(usize::MAX)];
        self.read(name, 0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Opens the place that `location` names: a directory, or a URL such as `s3://bucket/prefix`.
pub fn open(location: &str) -> Result<Arc<dyn Storage>> {
    match location.split_once("://") {
        None => Ok(Arc::new(LocalStorage::new(Path::new(location)))),
        Some(("file", path)) => Ok(Arc::new(LocalStorage::new(Path::new(path)))),
        Some(_) => open_url(location),
    }
}

/// Makes the folders that a directory for a store is to be in; in a bucket there are none.
pub fn make_parents(location: &str) -> Result<()> {
    let path = match location.split_once("://") {
        None => location,
        Some(("file", path)) => path,
        Some(_) => return Ok(()),
    };
    let Some(parent) = Path::new(path).parent() else { return Ok(()) };
    let cannot = |e: io::Error| io_error(format_args!("cannot make {}", parent.display()), &e);
    std::fs::create_dir_all(parent).map_err(cannot)
}

#[cfg(feature = "bucket")]
fn open_url(url: &str) -> Result<Arc<dyn Storage>> {
    Ok(Arc::new(ObjectStorage::from_url(url)?))
}

#[cfg(not(feature = "bucket"))]
fn open_url(url: &str) -> Result<Arc<dyn Storage>> {
    let url = Location::from(url);
    let message = format!("{url}: this lmc is built without buckets; name a directory");
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Fails if an object is longer than it may be.
fn check_len(name: &str, len: u64, len_max: u64) -> Result<()> {
    if len > len_max {
        let message = format!("{name} has {len} bytes, more than {len_max}");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    Ok(())
}

pub(crate) fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{name} is not in the store"))
}

/// An error of the operating system.
pub(crate) fn io_error(what: impl fmt::Display, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{what}: {error}"))
}
