//! Memory as storage, for tests.

use super::{ObjectInfo, Put, Stat, Storage, folders_of_names, not_found, read_by_parts};
use crate::layout::clock::{Clock, SystemClock};
use lmc_format::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects in memory.
#[derive(Debug)]
pub struct MemoryStorage {
    clock: Arc<dyn Clock>,
    objects: Mutex<BTreeMap<String, Object>>,
}

#[derive(Debug)]
struct Object {
    bytes: Vec<u8>,
    modified_ms: u64,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl MemoryStorage {
    /// No objects yet; new ones get their times from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, objects: Mutex::default() }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        // Objects are whole at all times, so a panic elsewhere does not damage them.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, bytes: &[u8]) -> Object {
        Object { bytes: bytes.to_vec(), modified_ms: self.clock.now_ms() }
    }
}

impl Storage for MemoryStorage {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        let object = self.object(bytes);
        let mut objects = self.objects();
        if objects.contains_key(name) {
            return Ok(Put::Exists);
        }
        objects.insert(name.to_string(), object);
        Ok(Put::Created)
    }

    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        self.put_new(name, &pieces.concat())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let object = self.object(bytes);
        self.objects().insert(name.to_string(), object);
        Ok(())
    }

    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        let mut objects = self.objects();
        if objects.contains_key(to) {
            return Ok(Put::Exists);
        }
        let object = objects.remove(from).ok_or_else(|| not_found(from))?;
        objects.insert(to.to_string(), object);
        Ok(Put::Created)
    }

    fn make_durable(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        let objects = self.objects();
        let bytes = &objects.get(name).ok_or_else(|| not_found(name))?.bytes;
        let start = usize::try_from(at).ok();
        let part = start.and_then(|start| bytes.get(start..)?.get(..out.len()));
        let Some(part) = part else {
            return Err(Error::truncated(format!("{name} ends at byte {}", bytes.len())));
        };
        out.copy_from_slice(part);
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        Ok(self.objects().get(name).map(Object::stat))
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.list(folder)?.into_iter().map(|entry| entry.name).collect())
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        Ok(folders_of_names(&self.names(folder)?, folder))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        let start = format!("{folder}/");
        let objects = self.objects();
        let below = objects.iter().filter(|(name, _)| name.starts_with(&start));
        let entry = |(name, object): (&String, &Object)| ObjectInfo {
            name: name.clone(),
            stat: object.stat(),
        };
        Ok(below.map(entry).collect())
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        let mut objects = self.objects();
        names.iter().for_each(|name| drop(objects.remove(name)));
        Ok(())
    }

    fn remove_temporaries(&self, _before_ms: u64) -> Result<u64> {
        Ok(0)
    }

    fn has_cheap_stat(&self) -> bool {
        true
    }

    fn concurrent_puts(&self) -> usize {
        1
    }

    fn directory(&self) -> Option<&Path> {
        None
    }

    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        read_by_parts(self, name, len_max)
    }
}

impl Object {
    fn stat(&self) -> Stat {
        Stat { size: self.bytes.len() as u64, modified_ms: self.modified_ms }
    }
}
