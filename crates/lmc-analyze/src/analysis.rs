//! The whole work: a series in, a report out.

use crate::figures::{Alone, AloneMeans, Change, ChangeMeans, Exponents};
use crate::opened::Opened;
use crate::pass::{Found, Measured, Pass, Workers};
use crate::report::{CheckpointRow, PairRow, Report, Reshaped, Skipped, TensorRow};
use crate::sample::{self, Sample};
use crate::series::{Checkpoint, Series};
use lmc::{Context, Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap};

/// What is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether everything is read and coded, also where a sample would do.
    pub is_all: bool,
    /// Bytes of the last checkpoint to keep in memory, if engines are to be measured on them.
    pub sample: Option<u64>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The figures.
    pub report: Report,
    /// Parts of the last checkpoint, if they were asked for.
    pub sample: Option<Sample>,
}

/// Measures a series. Before each checkpoint `start` is given its name and the number of bytes that
/// will be read, and says in which context that is done. What cannot be read is left out. Fails if
/// nothing is left.
pub fn analyze(
    series: Series,
    options: Options,
    mut start: impl FnMut(&str, u64) -> Context,
) -> Result<Analysis> {
    let Series { title, checkpoints, skipped } = series;
    let has_prefixes = checkpoints.iter().any(Checkpoint::has_several_keys);
    let report = Report { title, is_all: options.is_all, skipped, ..Report::default() };
    let mut work = Work {
        has_prefixes,
        report,
        kept: Vec::new(),
        numbers: HashMap::new(),
        last: None,
        workers: Workers::default(),
    };
    for checkpoint in checkpoints {
        work.add(checkpoint, &mut start)?;
    }
    if work.report.checkpoints.is_empty() {
        let message = match work.report.skipped.as_slice() {
            [] => "there is nothing to analyze: no checkpoint was found".to_string(),
            [Skipped { path, why }] => format!("{path}: {why}"),
            [Skipped { path, why }, others @ ..] => {
                format!("nothing can be analyzed; {path}: {why}; and {} more", others.len())
            }
        };
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let sample = match options.sample {
        Some(len) => Some(work.sample(len, &start("sample", 0))?),
        None => None,
    };
    Ok(Analysis { report: work.report, sample })
}

/// The work so far.
struct Work {
    has_prefixes: bool,
    report: Report,
    /// The checkpoints of the report.
    kept: Vec<Checkpoint>,
    /// The places of tensors in the report.
    numbers: HashMap<String, usize>,
    /// The last checkpoint, which is the base of the next.
    last: Option<Opened>,
    workers: Workers,
}

impl Work {
    fn add(
        &mut self,
        mut checkpoint: Checkpoint,
        start: &mut impl FnMut(&str, u64) -> Context,
    ) -> Result<()> {
        let opening = start(&checkpoint.name, 0);
        let skipped = &mut self.report.skipped;
        let mut new = Opened::open(&mut checkpoint, self.has_prefixes, &opening, skipped)?;
        if checkpoint.parts.is_empty() {
            return Ok(());
        }
        let distances = distances(self.kept.len());
        let bytes: u64 = new.tensors.iter().map(|tensor| tensor.len()).sum();
        let context = start(&checkpoint.name, self.expected(bytes, distances.len()));
        let codes_all = self.report.is_all;
        let pass = Pass {
            new: &new,
            base: self.last.as_ref(),
            is_full: true,
            codes_all,
            alone: &[],
            workers: &self.workers,
        };
        let Found { mut tensors, failed, failed_base } = pass.run(&context)?;
        let is_bad: Vec<bool> = (0..new.files.len()).map(|i| failed.contains_key(&i)).collect();
        for (file, error) in failed.iter().rev() {
            let part = checkpoint.parts.remove(new.files[*file].part);
            self.report.skipped.push(Skipped::of_error(&part.path, error));
        }
        let is_good = |i: &usize| !is_bad[new.tensors[*i].file];
        let good: Vec<usize> = (0..new.tensors.len()).filter(is_good).collect();
        tensors = good.into_iter().map(|i| std::mem::take(&mut tensors[i])).collect();
        let (files, bytes, own) = new.sizes(&is_bad);
        new.exponents = vec![Exponents::new(); new.tensors.len()];
        new.leave_out(&is_bad);
        if checkpoint.parts.is_empty() {
            return Ok(());
        }
        for (to, from) in new.exponents.iter_mut().zip(&mut tensors) {
            *to = std::mem::take(&mut from.exponents);
        }
        let number = self.kept.len();
        self.add_checkpoint(&checkpoint, &new, &tensors, (files, bytes, bytes - own));
        self.kept.push(checkpoint);
        if let Some(base) = self.last.take() {
            self.note_failed(&base, &failed_base);
            self.add_pair(number, number - 1, &new, &base, &mut tensors, false);
        }
        let alone: Vec<Option<Alone>> = tensors.into_iter().map(|tensor| tensor.alone).collect();
        for distance in distances.into_iter().skip(1) {
            self.add_far(number, number - distance, &new, &alone, &context)?;
        }
        self.last = Some(new);
        Ok(())
    }

    /// Parts of the last checkpoint, and of the one before it.
    fn sample(&mut self, len: u64, context: &Context) -> Result<Sample> {
        let checkpoint = self.kept.len() - 1;
        let old = match checkpoint.checked_sub(1) {
            Some(base) => {
                let skipped = &mut self.report.skipped;
                Some(Opened::open(&mut self.kept[base], self.has_prefixes, context, skipped)?)
            }
            None => None,
        };
        let new = self.last.get_or_insert_default();
        let pieces = sample::read(new, old.as_ref(), len, context)?;
        let has_base = pieces.iter().any(|piece| piece.base.is_some());
        Ok(Sample { checkpoint, base: has_base.then(|| checkpoint - 1), pieces })
    }

    /// About how many bytes will be looked at of a checkpoint with this many.
    fn expected(&self, bytes: u64, distances: usize) -> u64 {
        let far = distances.saturating_sub(1) as u64;
        bytes + if self.report.is_all { far * bytes } else { far * (bytes / 8) }
    }

    /// Compares a checkpoint with one that is farther away.
    fn add_far(
        &mut self,
        number: usize,
        base_number: usize,
        new: &Opened,
        alone: &[Option<Alone>],
        context: &Context,
    ) -> Result<()> {
        let skipped = &mut self.report.skipped;
        let base = &mut self.kept[base_number];
        let base = Opened::open(base, self.has_prefixes, context, skipped)?;
        let is_all = self.report.is_all;
        let pass = Pass {
            new,
            base: Some(&base),
            is_full: false,
            codes_all: is_all,
            alone,
            workers: &self.workers,
        };
        let Found { mut tensors, failed, failed_base } = pass.run(context)?;
        self.note_failed(new, &failed);
        self.note_failed(&base, &failed_base);
        self.add_pair(number, base_number, new, &base, &mut tensors, !is_all);
        Ok(())
    }

    /// Files that could be read once and then could not.
    fn note_failed(&mut self, opened: &Opened, failed: &BTreeMap<usize, Error>) {
        for (&file, error) in failed {
            let path = &opened.files[file].path;
            Skipped::note(&mut self.report.skipped, Skipped::of_error(path, error));
        }
    }

    fn add_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        opened: &Opened,
        tensors: &[Measured],
        (files, bytes, other_bytes): (u64, u64, u64),
    ) {
        let number = self.kept.len();
        let mut total = AloneMeans::default();
        let mut kinds: BTreeMap<String, AloneMeans> = BTreeMap::new();
        let mut dtypes: BTreeMap<String, AloneMeans> = BTreeMap::new();
        for ((tensor, exponents), measured) in
            opened.tensors.iter().zip(&opened.exponents).zip(tensors)
        {
            let Some(alone) = &measured.alone else { continue };
            let dtype = tensor.info.dtype;
            let bits = dtype.float_fields().map_or(0, |fields| fields.exponent_bits);
            let at = *self.numbers.entry(tensor.name.clone()).or_insert(self.report.tensors.len());
            if at == self.report.tensors.len() {
                self.report.tensors.push(TensorRow {
                    name: tensor.name.clone(),
                    kind: kind_of(&tensor.name),
                    dtype: dtype.label().to_string(),
                    shape: tensor.info.shape.clone(),
                    alone: Vec::new(),
                    changes: Vec::new(),
                });
            }
            let row = &mut self.report.tensors[at];
            total.add(alone, exponents, bits);
            kinds.entry(row.kind.clone()).or_default().add(alone, exponents, bits);
            dtypes.entry(dtype.label().to_string()).or_default().add(alone, exponents, bits);
            row.alone.push((number, alone.clone()));
        }
        let mean = |groups: BTreeMap<String, AloneMeans>| {
            groups.into_iter().map(|(name, sums)| (name, sums.mean())).collect()
        };
        self.report.checkpoints.push(CheckpointRow {
            name: checkpoint.name.clone(),
            step: checkpoint.step,
            files,
            bytes,
            other_bytes,
            total: total.mean(),
            kinds: mean(kinds),
            dtypes: mean(dtypes),
        });
    }

    fn add_pair(
        &mut self,
        checkpoint: usize,
        base: usize,
        new: &Opened,
        old: &Opened,
        tensors: &mut [Measured],
        sampled: bool,
    ) {
        let distance = checkpoint - base;
        let number = self.report.pairs.len();
        let mut total = ChangeMeans::default();
        let mut kinds: BTreeMap<String, ChangeMeans> = BTreeMap::new();
        let mut dtypes: BTreeMap<String, ChangeMeans> = BTreeMap::new();
        let (mut only_new, mut reshaped) = (Vec::new(), Vec::new());
        for (tensor, measured) in new.tensors.iter().zip(tensors) {
            let name = &tensor.name;
            match old.find(name).map(|i| &old.tensors[i].info) {
                None => only_new.push(name.clone()),
                Some(old) if (old.dtype, &old.shape) != (tensor.info.dtype, &tensor.info.shape) => {
                    let (old, new) = (old.form(), tensor.info.form());
                    reshaped.push(Reshaped { name: name.clone(), old, new });
                }
                Some(_) => {}
            }
            let Some(change) = measured.change.take() else { continue };
            total.add(&change);
            let dtype = tensor.info.dtype.label().to_string();
            dtypes.entry(dtype).or_default().add(&change);
            if let Some(row) = self.numbers.get(name).map(|&i| &mut self.report.tensors[i]) {
                kinds.entry(row.kind.clone()).or_default().add(&change);
                if distance == 1 {
                    row.changes.push((number, change));
                }
            }
        }
        let only_base = old.tensors.iter().filter(|tensor| new.find(&tensor.name).is_none());
        let only_base = only_base.map(|tensor| tensor.name.clone()).collect();
        let mean = |groups: BTreeMap<String, ChangeMeans>| -> BTreeMap<String, Change> {
            groups.into_iter().map(|(name, sums)| (name, sums.mean())).collect()
        };
        let steps = (self.kept[checkpoint].step, self.kept[base].step);
        let steps = steps
            .0
            .zip(steps.1)
            .and_then(|(new, old)| i64::try_from(i128::from(new) - i128::from(old)).ok());
        self.report.pairs.push(PairRow {
            checkpoint,
            base,
            distance,
            steps,
            sampled,
            total: total.mean(),
            kinds: mean(kinds),
            dtypes: mean(dtypes),
            only_new,
            only_base,
            reshaped,
        });
    }
}

/// The distances at which a checkpoint is compared that has `before` others before it: 1, 2 and 4
/// in any case, 8 if it is a second one, 16 if it is a fourth, and so on. So the work for a
/// checkpoint does not grow with the length of the series, and there are pairs at every distance.
fn distances(before: usize) -> Vec<usize> {
    let all = (0..usize::BITS).map(|i| 1 << i).take_while(|&distance| distance <= before);
    all.filter(|&distance: &usize| before.is_multiple_of((distance / 4).max(1))).collect()
}

/// The kind of layer of a tensor: its name with a `*` for each number that is a word.
fn kind_of(name: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut kind = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        kind += if word.bytes().all(|byte| byte.is_ascii_digit()) { "*" } else { word };
        rest = after;
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are words become stars, and no other digits do.
    #[test]
    fn kinds_of_layers() {
        for (name, kind) in [
            ("layers.0.mlp.up_proj.weight", "layers.*.mlp.up_proj.weight"),
            ("a/12/b.3", "a/*/b.*"),
            ("experts.11.w1", "experts.*.w1"),
            ("layer_7.w", "layer_7.w"),
            ("5", "*"),
            ("", ""),
            ("größe.1é.2", "größe.1é.*"),
            ("..", ".."),
        ] {
            assert_eq!(kind_of(name), kind);
        }
    }

    /// Each checkpoint is compared at powers of two, and at long distances only now and then.
    #[test]
    fn distances_double() {
        assert!(distances(0).is_empty());
        assert_eq!(distances(1), [1]);
        assert_eq!(distances(7), [1, 2, 4]);
        assert_eq!(distances(8), [1, 2, 4, 8]);
        assert_eq!(distances(9), [1, 2, 4]);
        assert_eq!(distances(1000), [1, 2, 4, 8, 16, 32]);
        for distance in (0..10).map(|i| 1 << i) {
            assert!(distances(distance).contains(&distance));
        }
        let pairs: usize = (0..10_000).map(|before| distances(before).len()).sum();
        assert!(pairs < 40_000, "{pairs}");
    }
}
