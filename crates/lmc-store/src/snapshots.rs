//! Which snapshots there are, and which one a user means.

use crate::Store;
use crate::ancestors::LOOKED_AT_MAX;
use crate::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::names::{
    FORGOTTEN, PAGE_MAX, SNAPSHOTS, SnapshotName, TAGS, escape, is_hex, parse_page, unescape,
};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Fewest digits of an id that name a snapshot.
const ID_DIGITS_MIN: usize = 4;
/// Snapshots on a page; writers that do not see each other may make it some more.
const PAGE_LEN: usize = 256;

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Recent {
    /// The page that the next snapshot goes to.
    pub page: u64,
    /// The newest snapshots, the newest first: the parent and those before it.
    pub names: Vec<SnapshotName>,
}

impl Store {
    /// All snapshots in the order in which they were saved. Only names are read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotName>> {
        self.snapshots_below("")
    }

    /// Those of one run.
    pub fn snapshots_of(&self, run: &str) -> Result<Vec<SnapshotName>> {
        self.snapshots_below(&format!("/{}", escape(run)?))
    }

    fn snapshots_below(&self, folder: &str) -> Result<Vec<SnapshotName>> {
        // Marks after names: what is forgotten in between is left out, never shown without need.
        let objects = self.storage.names(&format!("{SNAPSHOTS}{folder}"))?;
        let forgotten = self.marks()?;
        let mut runs: HashMap<&str, Option<String>> = HashMap::new();
        let mut names: Vec<SnapshotName> = Vec::with_capacity(objects.len());
        for object in &objects {
            let key = &object[SNAPSHOTS.len() + 1..];
            let Some((escaped, rest)) = key.split_once('/') else { continue };
            let run = runs.entry(escaped).or_insert_with(|| unescape(escaped));
            names.extend(run.as_ref().and_then(|run| SnapshotName::parse_in(run, rest)));
        }
        names.retain(|name| !forgotten.contains(&name.id));
        names.sort_unstable();
        Ok(names)
    }

    /// The newest of a run, and where the next one goes. What that costs does not grow with the
    /// run, but for one name in a list for each page.
    pub(crate) fn recent(&self, run: &str) -> Result<Recent> {
        let folder = format!("{SNAPSHOTS}/{}", escape(run)?);
        let mut pages: Vec<u64> =
            self.storage.folders(&folder)?.iter().filter_map(|page| parse_page(page)).collect();
        pages.sort_unstable();
        let mut recent = Recent { page: pages.last().copied().unwrap_or(0), names: Vec::new() };
        let mut forgotten: Option<HashSet<String>> = None;
        for &page in pages.iter().rev() {
            let objects = self.storage.names(&format!("{folder}/{page:08}"))?;
            if page == recent.page && objects.len() >= PAGE_LEN {
                recent.page = (page + 1).min(PAGE_MAX);
            }
            // A mark that comes after this list is found when the manifest is read.
            let forgotten = match &mut forgotten {
                Some(forgotten) => forgotten,
                none => none.insert(self.marks()?),
            };
            let parse = |object: &String| {
                let (_, name) = object.rsplit_once('/')?;
                SnapshotName::parse_in(run, &format!("{page:08}/{name}"))
            };
            let names = objects.iter().filter_map(parse);
            recent.names.extend(names.filter(|name| !forgotten.contains(&name.id)));
            if recent.names.len() > LOOKED_AT_MAX {
                break;
            }
        }
        recent.names.sort_unstable_by(|one, other| other.cmp(one));
        recent.names.truncate(LOOKED_AT_MAX + 1);
        Ok(recent)
    }

    /// The newest snapshot of a run, if there is one. What that costs does not grow with the run.
    pub fn newest(&self, run: &str) -> Result<Option<SnapshotName>> {
        Ok(self.recent(run)?.names.into_iter().next())
    }

    /// The ids of snapshots that are to go.
    pub(crate) fn marks(&self) -> Result<HashSet<String>> {
        self.keys(FORGOTTEN)
    }

    /// What stands below a folder of objects that are named by snapshots.
    pub(crate) fn keys(&self, folder: &str) -> Result<HashSet<String>> {
        let names = self.storage.names(folder)?;
        let skip = folder.len() + 1;
        Ok(names.into_iter().map(|name| name[skip..].to_string()).collect())
    }

    /// The tags of all snapshots, by their ids.
    pub fn tags(&self) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let mut tags: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in self.keys(TAGS)? {
            let named = key
                .split_once('/')
                .and_then(|(tag, key)| Some((unescape(tag)?, SnapshotName::parse(key)?)));
            if let Some((tag, name)) = named {
                tags.entry(name.id).or_default().insert(tag);
            }
        }
        Ok(tags)
    }

    /// The snapshot that `text` means: the start of an id, `latest`, `RUN@STEP` or `RUN@latest`.
    pub fn find(&self, text: &str) -> Result<SnapshotName> {
        if let Some((run, step)) = text.rsplit_once('@') {
            let names = self.snapshots_of(run)?;
            let wanted = match step {
                "latest" => None,
                _ => Some(step.parse::<u64>().map_err(|_| {
                    Error::invalid(format!("{text}: a step is a number, or latest"))
                })?),
            };
            let found = names.into_iter().rfind(|name| wanted.is_none_or(|step| name.step == step));
            return found.ok_or_else(|| no_snapshot(text));
        }
        let names = self.snapshots()?;
        if text == "latest" {
            return names.into_iter().next_back().ok_or_else(|| no_snapshot(text));
        }
        if text.len() < ID_DIGITS_MIN || !is_hex(text) {
            let message = format!(
                "{text} is no snapshot: give {ID_DIGITS_MIN} or more digits of its id, latest, or \
                 RUN@STEP"
            );
            return Err(Error::invalid(message));
        }
        let mut found = names.into_iter().filter(|name| name.id.starts_with(text));
        match (found.next(), found.next()) {
            (Some(name), None) => Ok(name),
            (None, _) => Err(no_snapshot(text)),
            (Some(_), Some(_)) => {
                Err(Error::invalid(format!("{text} is the start of more than one id")))
            }
        }
    }

    /// The manifest of a snapshot.
    pub fn manifest(&self, name: &SnapshotName) -> Result<Manifest> {
        self.manifest_of(name)?.ok_or_else(|| no_snapshot(name.short_id()))
    }

    /// The same, if it is still there.
    pub(crate) fn manifest_of(&self, name: &SnapshotName) -> Result<Option<Manifest>> {
        match self.storage.read_all(&name.object()?, MANIFEST_LEN_MAX) {
            Ok(bytes) => {
                let manifest = Manifest::read(&bytes, name);
                manifest.map(Some).map_err(|e| e.at(format_args!("snapshot {}", name.short_id())))
            }
            Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether a snapshot is marked to go.
    pub(crate) fn is_forgotten(&self, name: &SnapshotName) -> Result<bool> {
        Ok(self.storage.stat(&name.forgotten())?.is_some())
    }
}

fn no_snapshot(text: &str) -> Error {
    let message = format!("no snapshot {text}; lmc log shows what there is");
    Error::new(ErrorKind::NotFound, message)
}
