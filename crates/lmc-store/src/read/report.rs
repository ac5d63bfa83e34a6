//! The history of a store: what each snapshot added and needs, what rules of retention would free,
//! and what is damaged. Each manifest is read once, and a check reads what it reads beside that.

use crate::Store;
use crate::layout::names::{PACKS, SNAPSHOTS, SnapshotName};
use crate::read::count::{Count, Figures};
use crate::read::snapshots::Dated;
use crate::read::stats::Stats;
use crate::storage::ObjectInfo;
use crate::upkeep::check::{CheckOptions, CheckReport, Damage, Hurt, Look, is_damage};
use crate::upkeep::damaged::Damaged;
use crate::upkeep::forget::{Candidates, Keep};
use lmc_format::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The most rules of retention that one report may try.
const RULES_MAX: usize = 64;
/// How many distances between steps there are between the steps that a usual rule keeps.
const USUAL_DISTANCES: u64 = 10;

/// What to report.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// The rules of retention to try; if there are none, a few usual ones.
    pub keep: Vec<Keep>,
    /// Look for damage too. Without this, only manifests that cannot be read are found.
    pub check: Option<CheckOptions>,
}

/// The history of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The sums.
    pub stats: Stats,
    /// The snapshots of each run, in the order in which they were saved; runs by their names.
    pub runs: BTreeMap<String, Vec<SnapshotReport>>,
    /// What each rule would do.
    pub retention: Vec<Retention>,
    /// The objects that are damaged.
    pub damage: Vec<Damage>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Its name.
    pub name: SnapshotName,
    /// Its tags.
    pub tags: BTreeSet<String>,
    /// What its manifest says; none if that cannot be read.
    pub figures: Option<Figures>,
    /// What is damaged in it, each with the file that cannot be restored, if it is about one.
    pub damage: Vec<Error>,
}

/// What a forget by a rule, and a prune after it, would do if no save were running and no pack were
/// too young.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The rule.
    pub keep: Keep,
    /// Snapshots that it would forget.
    pub forgotten: u64,
    /// Bytes of packs that would be removed, those that no snapshot needs now among them. None if
    /// the prune would refuse to work because of damage.
    pub freed: Option<u64>,
}

impl Store {
    /// Reports everything. An error means that the report could not be made; damage is not an
    /// error.
    pub fn report(&self, options: &ReportOptions) -> Result<Report> {
        let (dated, tags, packs) = (self.dated(None)?, self.tags()?, self.list_of(PACKS)?);
        let keep = match options.keep.is_empty() {
            true => usual_rules(&dated),
            false => options.keep.clone(),
        };
        if keep.len() > RULES_MAX {
            return Err(Error::invalid(format!("a report tries at most {RULES_MAX} rules")));
        }
        let candidates = Candidates::new(self, dated.clone(), &tags, Some(&packs));
        let (mut retention, kept_by) = try_rules(candidates, keep)?;
        let mut report = Report::default();
        let (mut count, mut damage) = (Count::default(), BTreeMap::new());
        // Rules that keep a snapshot whose manifest cannot be read: a prune would stop there.
        let mut stopped = 0;
        let mut keys = HashSet::with_capacity(dated.len());
        for Dated { name, .. } in dated {
            let (object, rules) = (name.object()?, kept_by.get(&name.id).copied().unwrap_or(0));
            keys.insert(name.key()?);
            let figures = match self.look_at_manifest(&object, &name)? {
                Look::Good(manifest) => Some(count.add(&name.id, &manifest, rules)),
                Look::Bad(error) => {
                    stopped |= rules;
                    damage.insert(object, error);
                    None
                }
                Look::Gone => continue,
            };
            let tags = tags.get(&name.id).cloned().unwrap_or_default();
            let own = report.runs.entry(name.run.clone()).or_default();
            own.push(SnapshotReport { name, tags, figures, damage: Vec::new() });
        }
        report.stats = count.stats(&packs, &self.list_of(SNAPSHOTS)?);
        let damaged = self.damaged_for_prune(&keys)?;
        for (bit, rule) in retention.iter_mut().enumerate() {
            rule.freed = match stopped & 1 << bit {
                0 => freed(&count, &packs, 1 << bit, damaged.as_ref()),
                _ => None,
            };
        }
        report.retention = retention;
        if let Some(options) = &options.check {
            add_hurt(&mut report.runs, &mut damage, self.check(options)?);
        }
        for own in report.runs.values_mut().flatten() {
            let error = damage.get(&own.name.object()?);
            own.damage.extend(error.cloned());
        }
        let damage = damage.into_iter().map(|(object, error)| Damage { object, error });
        report.damage = damage.collect();
        Ok(report)
    }

    /// What a prune would see in `damaged/`; none if it would stop there. `keys` are those of all
    /// snapshots.
    fn damaged_for_prune(&self, keys: &HashSet<String>) -> Result<Option<Damaged>> {
        let mut damaged = match self.look_at_damaged() {
            Err(e) if is_damage(&e) => return Ok(None),
            damaged => damaged?,
        };
        let marks = self.marks()?;
        let is_marked = |key: &str| SnapshotName::parse(key).is_some_and(|n| marks.contains(&n.id));
        damaged.forgive(|key| keys.contains(key) || is_marked(key));
        Ok(Some(damaged))
    }
}

/// What each rule forgets, and the rules that keep each snapshot, one bit for each.
fn try_rules(
    mut candidates: Candidates,
    rules: Vec<Keep>,
) -> Result<(Vec<Retention>, HashMap<String, u64>)> {
    let mut kept_by: HashMap<String, u64> = HashMap::new();
    let mut retention = Vec::with_capacity(rules.len());
    for (bit, keep) in rules.into_iter().enumerate() {
        let split = candidates.split(&keep)?;
        for name in split.kept {
            *kept_by.entry(name.id).or_default() |= 1 << bit;
        }
        retention.push(Retention { keep, forgotten: split.forgotten.len() as u64, freed: None });
    }
    Ok((retention, kept_by))
}

/// Bytes that a prune would free after a forget by a rule; none if it would refuse to work.
fn freed(count: &Count, packs: &[ObjectInfo], rule: u64, damaged: Option<&Damaged>) -> Option<u64> {
    let damaged = damaged?;
    match damaged.keeps_all() {
        true => Some(0),
        false => Some(count.freed(packs, rule, |object| damaged.packs.contains(object))),
    }
}

/// Adds what a check found: damaged objects by their names, and files that cannot be restored.
fn add_hurt(
    runs: &mut BTreeMap<String, Vec<SnapshotReport>>,
    damage: &mut BTreeMap<String, Error>,
    checked: CheckReport,
) {
    let packs = checked.damaged.into_iter().map(|(_, damage)| damage);
    for Damage { object, error } in checked.manifests.into_iter().chain(packs) {
        damage.entry(object).or_insert(error);
    }
    let mut hurt: HashMap<String, Vec<Error>> = HashMap::new();
    for Hurt { snapshot, path, error } in checked.hurt {
        hurt.entry(snapshot.id).or_default().push(error.at(path));
    }
    for own in runs.values_mut().flatten() {
        own.damage.extend(hurt.remove(&own.name.id).unwrap_or_default());
    }
}

/// The rules that are tried if none is given: the newest 1, 3 and 10, and every step that is a
/// multiple of ten times the usual distance between steps, if there is one.
fn usual_rules(snapshots: &[Dated]) -> Vec<Keep> {
    let last = |last: u64| Keep { last: Some(last), ..Keep::default() };
    let mut rules = vec![last(1), last(3), last(10)];
    let mut newest: HashMap<&str, u64> = HashMap::new();
    let mut distances: BTreeMap<u64, u64> = BTreeMap::new();
    for Dated { name, .. } in snapshots {
        let before = newest.insert(&name.run, name.step);
        if let Some(distance) = before.map(|before| name.step.abs_diff(before)).filter(|&d| d > 0) {
            *distances.entry(distance).or_default() += 1;
        }
    }
    // The smallest of those that are equally frequent.
    let usual = distances.into_iter().rev().max_by_key(|(_, count)| *count);
    let every = usual.map_or(0, |(distance, _)| distance.saturating_mul(USUAL_DISTANCES));
    let is_kept = |dated: &Dated| dated.name.step > 0 && dated.name.step.is_multiple_of(every);
    if snapshots.iter().any(is_kept) {
        rules.push(Keep { every: Some(every), ..Keep::default() });
    }
    rules
}
