//! Which snapshots are kept, and marking the others.
//!
//! Forgetting makes a mark and removes nothing. A later [`Store::prune`] removes marked snapshots
//! and everything that is then unreferenced. The newest snapshot of each run is always kept, and so
//! is the newest one that can be restored.

use crate::Store;
use crate::layout::manifest::Pack;
use crate::layout::names::{PACKS, SnapshotName};
use crate::layout::path::RelPath;
use crate::read::snapshots::Dated;
use crate::storage::{ObjectInfo, Put};
use crate::upkeep::check::Look;
use crate::upkeep::thin;
use lmc_format::Result;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The rules of retention; a snapshot is kept if any rule keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// This many of the newest snapshots of each run.
    pub last: Option<u64>,
    /// Snapshots whose step is a multiple of this.
    pub every: Option<u64>,
    /// Snapshots with one of these tags.
    pub tags: BTreeSet<String>,
    /// Snapshots saved at most this many milliseconds before the newest one of their run.
    pub within_ms: Option<u64>,
}

/// What is kept and what is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Snapshots that stay.
    pub kept: Vec<SnapshotName>,
    /// Snapshots that are forgotten.
    pub forgotten: Vec<SnapshotName>,
}

/// A snapshot that will lose its optimizer state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thinned {
    /// The snapshot.
    pub name: SnapshotName,
    /// The files that are removed.
    pub files: Vec<RelPath>,
}

impl Keep {
    /// Whether there is any rule.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Splits the snapshots of one run, which are in order, into those that stay and those that are
    /// forgotten; `whole` always stays.
    fn split(
        &self,
        run: &[Dated],
        tags: &BTreeMap<String, BTreeSet<String>>,
        whole: Option<&SnapshotName>,
    ) -> Forgotten {
        let from_end = ranks(run);
        // At most one minute later than now, by the clock of the storage.
        let newest_ms = run.last().map_or(0, |dated| dated.time_ms);
        let highest = run.iter().map(|dated| dated.name.step).max();
        let mut split = Forgotten::default();
        for (i, Dated { time_ms, name }) in run.iter().enumerate() {
            let from_end = from_end[i];
            let has_tag = tags.get(&name.id).is_some_and(|own| !own.is_disjoint(&self.tags));
            // The newest by time and the newest by step: clocks and steps can both go back.
            let is_newest = from_end == 1 || highest == Some(name.step) || whole == Some(name);
            let is_kept = is_newest
                || self.last.is_some_and(|last| from_end <= last)
                || self.every.is_some_and(|every| every > 0 && name.step % every == 0)
                || self.within_ms.is_some_and(|within| newest_ms - time_ms <= within)
                || has_tag;
            let names = if is_kept { &mut split.kept } else { &mut split.forgotten };
            names.push(name.clone());
        }
        split
    }
}

/// The number of each snapshot of a run, counted from the end. A snapshot and its replacement by a
/// rebase count as one: an interrupted rebase leaves both, and older snapshots must not be
/// forgotten because of that.
fn ranks(run: &[Dated]) -> Vec<u64> {
    let mut ranks = vec![0; run.len()];
    let (mut rank, mut after) = (0, None);
    for (i, Dated { name, .. }) in run.iter().enumerate().rev() {
        let own = Some((name.time_ms, name.step));
        rank += u64::from(own != after);
        (ranks[i], after) = (rank, own);
    }
    ranks
}

impl Store {
    /// Which snapshots, of one run or of all runs, `keep` keeps and forgets.
    pub fn plan_forget(&self, keep: &Keep, run: Option<&str>) -> Result<Forgotten> {
        self.split(self.dated(run)?, keep)
    }

    /// Marks snapshots as forgotten: they are no longer shown, and the next prune that begins after
    /// this removes them.
    pub fn forget(&self, names: &[SnapshotName]) -> Result<()> {
        let mark = |name: &SnapshotName| self.storage.put_new(&name.forgotten(), b"");
        let mut met = Vec::new();
        for name in names {
            if mark(name)? == Put::Exists {
                met.push(name);
            }
        }
        // The process that made these marks may have taken them back since.
        met.into_iter().try_for_each(|name| mark(name).map(drop))
    }

    /// Marks the snapshots that a plan by `keep` forgets, except those that have been given a tag
    /// since that keeps them. The result lists these as kept.
    pub fn forget_planned(&self, plan: Forgotten, keep: &Keep) -> Result<Forgotten> {
        let mut marks = Vec::with_capacity(plan.forgotten.len());
        for name in &plan.forgotten {
            marks.push(self.forget_unless(name, &keep.tags)?);
        }
        let mut done = Forgotten { kept: plan.kept, forgotten: Vec::new() };
        for (name, mut mark) in plan.forgotten.into_iter().zip(marks) {
            if mark == Some(Put::Exists) {
                // The process that made it may have taken it back since.
                mark = self.forget_unless(&name, &keep.tags)?;
            }
            let names = if mark.is_some() { &mut done.forgotten } else { &mut done.kept };
            names.push(name);
        }
        Ok(done)
    }

    /// Marks a snapshot unless it has one of `tags`; returns how. A process that adds a tag looks
    /// for the mark afterwards, and here tags are looked for after the mark: at least one of them
    /// sees the other.
    fn forget_unless(&self, name: &SnapshotName, tags: &BTreeSet<String>) -> Result<Option<Put>> {
        if self.has_one_of(name, tags)? {
            return Ok(None);
        }
        let mark = name.forgotten();
        // A mark that already existed is not ours to take back.
        if self.storage.put_new(&mark, b"")? == Put::Exists {
            return Ok(Some(Put::Exists));
        }
        let has_tag = self.has_one_of(name, tags);
        // If the look fails, the snapshot may have a tag.
        if !matches!(has_tag, Ok(false)) {
            self.storage.delete(&[mark])?;
        }
        Ok((!has_tag?).then_some(Put::Created))
    }

    /// The kept snapshots that have optimizer state beside their weights and that `keep` would not
    /// keep, each with the files that would be removed. The newest snapshot of each run is never
    /// one of them.
    pub fn plan_thin(&self, kept: &[SnapshotName], keep: &Keep) -> Result<Vec<Thinned>> {
        let mut thinned = Vec::new();
        let kept: HashSet<&str> = kept.iter().map(|name| name.id.as_str()).collect();
        let mut dated = self.dated(None)?;
        dated.retain(|dated| kept.contains(dated.name.id.as_str()));
        for name in self.split(dated, keep)?.forgotten {
            let files = self.manifest_of(&name)?.map(|manifest| thin::optimizer_files(&manifest));
            let files = files.unwrap_or_default();
            if !files.is_empty() {
                thinned.push(Thinned { name, files });
            }
        }
        Ok(thinned)
    }

    fn split(&self, snapshots: Vec<Dated>, keep: &Keep) -> Result<Forgotten> {
        let tags = self.tags()?;
        Candidates::new(self, snapshots, &tags, None).split(keep)
    }
}

/// Snapshots by their runs, which rules split into those that stay and those that are forgotten.
/// Nothing is looked up twice, however many rules are tried.
pub(crate) struct Candidates<'a> {
    store: &'a Store,
    tags: &'a BTreeMap<String, BTreeSet<String>>,
    runs: BTreeMap<String, Run>,
    /// The existing packs, once they were listed.
    packs: Option<HashMap<String, u64>>,
}

/// The snapshots of a run in order, and the newest whole one among them, once it was looked for.
#[derive(Default)]
struct Run {
    snapshots: Vec<Dated>,
    newest_whole: Option<Option<SnapshotName>>,
}

impl<'a> Candidates<'a> {
    /// The snapshots are in order; `packs` are the existing ones, if they are known.
    pub(crate) fn new(
        store: &'a Store,
        snapshots: Vec<Dated>,
        tags: &'a BTreeMap<String, BTreeSet<String>>,
        packs: Option<&[ObjectInfo]>,
    ) -> Self {
        let mut runs: BTreeMap<String, Run> = BTreeMap::new();
        for dated in snapshots {
            runs.entry(dated.name.run.clone()).or_default().snapshots.push(dated);
        }
        Self { store, tags, runs, packs: packs.map(sizes) }
    }

    /// What a rule keeps and forgets.
    pub(crate) fn split(&mut self, keep: &Keep) -> Result<Forgotten> {
        let mut all = Forgotten::default();
        for Run { snapshots, newest_whole } in self.runs.values_mut() {
            let mut split = keep.split(snapshots, self.tags, None);
            if !split.forgotten.is_empty() {
                let whole = match newest_whole {
                    Some(whole) => whole,
                    None => {
                        newest_whole.insert(find_whole(self.store, snapshots, &mut self.packs)?)
                    }
                };
                split = keep.split(snapshots, self.tags, whole.as_ref());
            }
            all.kept.extend(split.kept);
            all.forgotten.extend(split.forgotten);
        }
        Ok(all)
    }
}

/// The newest snapshot of a run that has a good manifest and all its packs, by their sizes. Any
/// newer one is damaged, or its save is about to take it back.
fn find_whole(
    store: &Store,
    run: &[Dated],
    packs: &mut Option<HashMap<String, u64>>,
) -> Result<Option<SnapshotName>> {
    let packs = match packs {
        Some(packs) => packs,
        None => packs.insert(sizes(&store.list_of(PACKS)?)),
    };
    for Dated { name, .. } in run.iter().rev() {
        let Look::Good(manifest) = store.look_at_manifest(&name.object()?, name)? else { continue };
        let is_there = |pack: &Pack| packs.get(&pack.name.object()) == Some(&pack.size);
        if manifest.packs.iter().all(is_there) {
            return Ok(Some(name.clone()));
        }
    }
    Ok(None)
}

/// The sizes of objects, by their names.
fn sizes(objects: &[ObjectInfo]) -> HashMap<String, u64> {
    objects.iter().map(|entry| (entry.name.clone(), entry.stat.size)).collect()
}
