//! Which snapshots exist, and which one a user means.

use crate::Store;
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::layout::names::{
    FORGOTTEN, MARKER, PAGE_MAX, SNAPSHOTS, SnapshotName, TAGS, escape, is_hex, parse_page,
    unescape,
};
use crate::save::ancestors::LOOKED_AT_MAX;
use crate::storage::{ObjectInfo, Stat};
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The fewest digits of an id that may name a snapshot.
const ID_DIGITS_MIN: usize = 4;
/// Snapshots on a page. Concurrent writers that do not see each other may add a few more.
const PAGE_LEN: usize = 256;

/// How far the time of a snapshot may be ahead of the storage's time. A later time comes from a
/// clock that is wrong.
pub(crate) const AHEAD_MAX_MS: u64 = 60_000;
/// How many times snapshots are listed while some of them disappear.
pub(crate) const LISTS_MAX: usize = 8;

/// A snapshot and the time at which it counts as saved: its own time, but not later than the
/// storage's time of its manifest. So a clock that was wrong once, here or where a copy came from,
/// does not decide which snapshot is the newest or which one is old.
#[derive(Clone, Debug)]
pub(crate) struct Dated {
    pub time_ms: u64,
    pub name: SnapshotName,
}

impl Dated {
    fn new(name: SnapshotName, stat: &Stat) -> Self {
        let time_ms = name.time_ms.min(stat.modified_ms.saturating_add(AHEAD_MAX_MS));
        Self { time_ms, name }
    }

    /// The key by which snapshots are ordered.
    fn order(&self) -> (u64, &SnapshotName) {
        (self.time_ms, &self.name)
    }
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Recent {
    /// The page that the next snapshot goes to.
    pub page: u64,
    /// The newest snapshots, newest first: the parent and those before it.
    pub names: Vec<SnapshotName>,
}

impl Store {
    /// All snapshots in the order in which they were saved. Only names and times are read.
    pub fn snapshots(&self) -> Result<Vec<SnapshotName>> {
        Ok(names(self.dated(None)?))
    }

    /// The snapshots of one run.
    pub fn snapshots_of(&self, run: &str) -> Result<Vec<SnapshotName>> {
        Ok(names(self.dated(Some(run))?))
    }

    /// The snapshots of one run or of all runs, in order, and when each counts as saved.
    pub(crate) fn dated(&self, run: Option<&str>) -> Result<Vec<Dated>> {
        let list = || match run {
            None => self.list_of(SNAPSHOTS),
            Some(run) => {
                let entries = self.storage.list(&format!("{SNAPSHOTS}/{}", escape(run)?))?;
                if entries.is_empty() {
                    self.check_folder(SNAPSHOTS)?;
                }
                Ok(entries)
            }
        };
        let (entries, marks) = self.list_and_marks(list, |entry| &entry.name)?;
        let shown = shown(entries.iter().map(|entry| entry.name.as_str()), &marks);
        let dated = shown.into_iter().map(|(i, name)| Dated::new(name, &entries[i].stat));
        let mut dated: Vec<Dated> = dated.collect();
        dated.sort_unstable_by(|one, other| one.order().cmp(&other.order()));
        Ok(dated)
    }

    /// Lists objects below the folder of snapshots, and then marks: a snapshot that is forgotten in
    /// between is hidden and not shown by mistake. If a mark hides a snapshot, the objects are
    /// listed once more: its replacement was made before the mark.
    pub(crate) fn list_and_marks<T>(
        &self,
        list: impl Fn() -> Result<Vec<T>>,
        name: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, HashSet<String>)> {
        let (objects, marks) = (list()?, self.marks()?);
        let is_hidden =
            |object: &T| name(object).rsplit_once('-').is_some_and(|(_, id)| marks.contains(id));
        let objects = if objects.iter().any(is_hidden) { list()? } else { objects };
        Ok((objects, marks))
    }

    /// The snapshots of one run or of all runs, in any order. Only names are read.
    fn unordered(&self, run: Option<&str>) -> Result<Vec<SnapshotName>> {
        let list = || match run {
            None => self.names_of(SNAPSHOTS),
            Some(run) => self.storage.names(&format!("{SNAPSHOTS}/{}", escape(run)?)),
        };
        let (objects, marks) = self.list_and_marks(list, |object| object)?;
        if objects.is_empty() {
            self.check_folder(SNAPSHOTS)?;
        }
        let shown = shown(objects.iter().map(String::as_str), &marks);
        Ok(shown.into_iter().map(|(_, name)| name).collect())
    }

    /// The snapshots on a page of a run, including forgotten ones, in any order.
    pub(crate) fn names_on_page(&self, run: &str, page: u64) -> Result<Vec<SnapshotName>> {
        let objects = self.storage.names(&format!("{SNAPSHOTS}/{}/{page:08}", escape(run)?))?;
        if objects.is_empty() {
            self.check_folder(SNAPSHOTS)?;
        }
        let skip = SNAPSHOTS.len() + 1;
        Ok(objects.iter().filter_map(|object| SnapshotName::parse(&object[skip..])).collect())
    }

    /// The newest `wanted` snapshot of one run or of all runs.
    fn newest_wanted(
        &self,
        run: Option<&str>,
        wanted: impl Fn(&SnapshotName) -> bool,
    ) -> Result<Option<SnapshotName>> {
        for _ in 0..LISTS_MAX {
            let mut names = self.unordered(run)?;
            names.retain(&wanted);
            if let Some(newest) = self.newest_of(names)? {
                return Ok(newest);
            }
        }
        let message = "snapshots are removed faster than the newest can be found; try again";
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// The newest of some snapshots. The time of its manifest is looked up. Those of others are
    /// needed only if it counts as older than its name says. None if a snapshot is gone, since its
    /// replacement is not in the list.
    fn newest_of(&self, mut names: Vec<SnapshotName>) -> Result<Option<Option<SnapshotName>>> {
        names.sort_unstable();
        let mut newest: Option<Dated> = None;
        for name in names.into_iter().rev() {
            // No snapshot counts as later than its name says.
            if newest.as_ref().is_some_and(|newest| newest.order() >= (name.time_ms, &name)) {
                break;
            }
            let Some(stat) = self.storage.stat(&name.object()?)? else { return Ok(None) };
            let dated = Dated::new(name, &stat);
            if newest.as_ref().is_none_or(|newest| newest.order() < dated.order()) {
                newest = Some(dated);
            }
        }
        Ok(Some(newest.map(|newest| newest.name)))
    }

    /// When a snapshot counts as saved; none if it is gone.
    pub(crate) fn counted_ms(&self, name: &SnapshotName) -> Result<Option<u64>> {
        let stat = self.storage.stat(&name.object()?)?;
        Ok(stat.map(|stat| Dated::new(name.clone(), &stat).time_ms))
    }

    /// The newest snapshots of a run, and where the next one goes. The cost does not grow with the
    /// run, except for one name in a list per page.
    pub(crate) fn recent(&self, run: &str) -> Result<Recent> {
        let folder = format!("{SNAPSHOTS}/{}", escape(run)?);
        let mut pages: Vec<u64> =
            self.storage.folders(&folder)?.iter().filter_map(|page| parse_page(page)).collect();
        pages.sort_unstable();
        if pages.is_empty() {
            self.check_folder(SNAPSHOTS)?;
        }
        let mut found: Vec<Dated> = Vec::new();
        let mut recent = Recent { page: pages.last().copied().unwrap_or(0), names: Vec::new() };
        let mut forgotten: Option<HashSet<String>> = None;
        for &page in pages.iter().rev() {
            let list = || self.storage.list(&format!("{folder}/{page:08}"));
            // A mark that is made later is found when the manifest is read.
            let (objects, marks) = match forgotten.take() {
                Some(marks) => (list()?, marks),
                None => self.list_and_marks(list, |entry| &entry.name)?,
            };
            if page == recent.page && objects.len() >= PAGE_LEN {
                recent.page = (page + 1).min(PAGE_MAX);
            }
            let parse = |entry: &ObjectInfo| {
                let (_, name) = entry.name.rsplit_once('/')?;
                let name = SnapshotName::parse_in(run, &format!("{page:08}/{name}"))?;
                Some(Dated::new(name, &entry.stat))
            };
            let dated = objects.iter().filter_map(parse);
            found.extend(dated.filter(|dated| !marks.contains(&dated.name.id)));
            forgotten = Some(marks);
            if found.len() > LOOKED_AT_MAX {
                break;
            }
        }
        found.sort_unstable_by(|one, other| other.order().cmp(&one.order()));
        found.truncate(LOOKED_AT_MAX + 1);
        recent.names = names(found);
        Ok(recent)
    }

    /// The newest snapshot of a run, if there is one. The cost does not grow with the run.
    pub fn newest(&self, run: &str) -> Result<Option<SnapshotName>> {
        Ok(self.recent(run)?.names.into_iter().next())
    }

    /// The ids of forgotten snapshots.
    pub(crate) fn marks(&self) -> Result<HashSet<String>> {
        self.keys(FORGOTTEN)
    }

    /// The names below a folder whose objects are named after snapshots.
    pub(crate) fn keys(&self, folder: &str) -> Result<HashSet<String>> {
        let names = self.names_of(folder)?;
        let skip = folder.len() + 1;
        Ok(names.into_iter().map(|name| name[skip..].to_string()).collect())
    }

    /// The names of all objects in one of the store's folders. If the folder's marker is missing,
    /// that is an error and not an empty list: the folder may have been renamed or may not be
    /// mounted.
    pub(crate) fn names_of(&self, folder: &str) -> Result<Vec<String>> {
        let (mut names, marker) = (self.storage.names(folder)?, marker(folder));
        let len = names.len();
        names.retain(|name| *name != marker);
        self.believe(folder, names.len() < len)?;
        Ok(names)
    }

    /// The same with sizes and times.
    pub(crate) fn list_of(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        let (mut entries, marker) = (self.storage.list(folder)?, marker(folder));
        let len = entries.len();
        entries.retain(|entry| entry.name != marker);
        self.believe(folder, entries.len() < len)?;
        Ok(entries)
    }

    /// Fails unless one of the store's folders exists.
    pub(crate) fn check_folder(&self, folder: &str) -> Result<()> {
        let has_marker = !self.config.has_markers || self.storage.stat(&marker(folder))?.is_some();
        self.believe(folder, has_marker)
    }

    fn believe(&self, folder: &str, has_marker: bool) -> Result<()> {
        if has_marker || !self.config.has_markers {
            return Ok(());
        }
        let marker = marker(folder);
        let message = format!(
            "{folder}/ is missing or has no {marker}: it may be renamed, not mounted, or not \
             copied yet, so it is not treated as empty and nothing was changed; put it back, or \
             create an empty {marker} if its contents are lost"
        );
        Err(Error::corrupt(message))
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
            let wanted = match step {
                "latest" => None,
                _ => Some(step.parse::<u64>().map_err(|_| {
                    Error::invalid(format!("{text}: a step is a number, or latest"))
                })?),
            };
            let is_wanted = |name: &SnapshotName| wanted.is_none_or(|step| name.step == step);
            return self.newest_wanted(Some(run), is_wanted)?.ok_or_else(|| no_snapshot(text));
        }
        if text == "latest" {
            return self.newest_wanted(None, |_| true)?.ok_or_else(|| no_snapshot(text));
        }
        if text.len() < ID_DIGITS_MIN || !is_hex(text) {
            let message = format!(
                "{text} is not a snapshot: give {ID_DIGITS_MIN} or more digits of its id, latest, \
                 or RUN@STEP"
            );
            return Err(Error::invalid(message));
        }
        let names = self.unordered(None)?;
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

    /// The manifest of a snapshot, if it still exists.
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

    /// An error about a snapshot that was being read. If something is missing, that is damage if
    /// the snapshot exists and is not forgotten: a prune removes manifests before their packs.
    pub(crate) fn judge(&self, name: &SnapshotName, mut error: Error) -> Error {
        // If the look fails, nobody can tell.
        let is_there = || matches!(self.read_leased(name), Ok(Some(_)));
        if error.kind == ErrorKind::NotFound && is_there() {
            error.kind = ErrorKind::Corrupt;
        }
        error
    }

    /// Whether a snapshot has a mark.
    pub(crate) fn is_forgotten(&self, name: &SnapshotName) -> Result<bool> {
        Ok(self.storage.stat(&name.forgotten())?.is_some())
    }
}

/// Which of these objects below the folder of snapshots are snapshots without a mark, by their
/// numbers.
fn shown<'a>(
    objects: impl Iterator<Item = &'a str>,
    marks: &HashSet<String>,
) -> Vec<(usize, SnapshotName)> {
    let mut runs: HashMap<&str, Option<String>> = HashMap::new();
    let mut shown = Vec::new();
    for (i, object) in objects.enumerate() {
        let key = &object[SNAPSHOTS.len() + 1..];
        let Some((escaped, rest)) = key.split_once('/') else { continue };
        let run = runs.entry(escaped).or_insert_with(|| unescape(escaped));
        let name = run.as_ref().and_then(|run| SnapshotName::parse_in(run, rest));
        let name = name.filter(|name| !marks.contains(&name.id));
        shown.extend(name.map(|name| (i, name)));
    }
    shown
}

/// The object that shows that a folder exists.
fn marker(folder: &str) -> String {
    format!("{folder}/{MARKER}")
}

fn names(dated: Vec<Dated>) -> Vec<SnapshotName> {
    dated.into_iter().map(|dated| dated.name).collect()
}

fn no_snapshot(text: &str) -> Error {
    let message = format!("no snapshot {text}");
    Error::new(ErrorKind::NotFound, message).with_advice(Advice::ListSnapshots)
}
