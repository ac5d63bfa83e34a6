//! Finds candidates for the tensors of a safetensors file, and chooses among them.

use super::Own;
use super::names::Related;
use super::regions::Region;
use super::trial::{Read, Trial, mark};
use crate::Reference;
use crate::context::Context;
use crate::pipeline::each;
use lmc_format::{Conversion, Dtype, Hash, Result};
use lmc_input::{TensorInfo, is_small};
use std::collections::{HashMap, HashSet};

/// A tensor of up to this many bytes with one candidate is not tried: reading its base is just as
/// fast.
const TRIAL_LEN_MIN: u64 = 1 << 20;
/// Most tensors of the same name, or parts of one, that are tried for one tensor: one in each of
/// some bases.
const NAMED_MAX: usize = 64;
/// Most candidates with other names that are tried for one tensor.
const RELATED_MAX: usize = 4;
/// A reference must save this share of a sample: one file should not need another for less.
pub(super) const GAIN_SHARE: usize = 64;

/// A tensor in a base, or in the file itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceTensor<'a> {
    pub source: u64,
    pub tensor: &'a TensorInfo,
}

impl SourceTensor<'_> {
    /// The conversions that give its values the type of `tensor`: none needed, one of two kinds of
    /// rounding, or the values that were rounded. Empty if no conversion can.
    fn conversions(&self, tensor: &TensorInfo) -> &'static [Conversion] {
        match (self.tensor.dtype, tensor.dtype) {
            (from, to) if from == to => &[Conversion::None],
            (Dtype::F32, Dtype::Bf16) => &[Conversion::Bf16Nearest, Conversion::Bf16Cut],
            (Dtype::F32, Dtype::F16) => &[Conversion::F16Nearest, Conversion::F16Cut],
            (Dtype::Bf16, Dtype::F32) => &[Conversion::Bf16Widened],
            (Dtype::F16, Dtype::F32) => &[Conversion::F16Widened],
            _ => &[],
        }
    }

    /// The references to the whole tensor that `tensor` may have.
    fn references(&self, tensor: &TensorInfo) -> Vec<Reference> {
        if self.tensor.shape == tensor.shape { self.behind(tensor, 0) } else { Vec::new() }
    }

    /// The references that `tensor` may have to its own place in this one, which has the same name
    /// or holds it as a part.
    pub(super) fn holding(&self, tensor: &TensorInfo) -> Vec<Reference> {
        let (own, base) = (Region::of(tensor), Region::of(self.tensor));
        let Some(rows) = own.rows_before(&tensor.shape, &base, &self.tensor.shape) else {
            // Bytes that are no numbers may have become more or less.
            return if self.are_bytes(tensor) { self.behind(tensor, 0) } else { Vec::new() };
        };
        let (len, count) = (tensor.range.end - tensor.range.start, tensor.shape.first());
        match count {
            Some(&count) if rows > 0 && count > 0 => {
                match (len % count, (len / count).checked_mul(rows)) {
                    (0, Some(skip)) => self.behind(tensor, skip),
                    // The rows are not whole bytes.
                    _ => Vec::new(),
                }
            }
            _ => self.behind(tensor, 0),
        }
    }

    /// Whether both are bytes that are no numbers. Text in them can be found anywhere near.
    fn are_bytes(&self, tensor: &TensorInfo) -> bool {
        [self.tensor, tensor].iter().all(|own| own.dtype == Dtype::Bytes)
    }

    /// References to the bytes after the first `skip`, which are counted in the type of `tensor`.
    fn behind(&self, tensor: &TensorInfo, skip: u64) -> Vec<Reference> {
        let reference = |&conversion: &Conversion| {
            let start = self.tensor.range.start + conversion.source_len(skip);
            Reference { source: self.source, start, conversion }
        };
        self.conversions(tensor).iter().map(reference).collect()
    }

    fn reference(&self, conversion: Conversion) -> Reference {
        Reference { source: self.source, start: self.tensor.range.start, conversion }
    }
}

/// The name of a tensor, and the columns that a part of it covers.
type Stem<'a> = (&'a str, Vec<(u64, u64)>);

/// The tensors of all bases.
pub(super) struct BaseTensors<'a> {
    tensors: Vec<SourceTensor<'a>>,
    /// For each stem, the rows that its tensors start at, in rising order.
    stems: HashMap<Stem<'a>, Vec<(u64, usize)>>,
}

impl<'a> BaseTensors<'a> {
    fn new(own: &Own<'a>) -> Result<Self> {
        let mut tensors = Vec::new();
        for (i, base) in own.options.bases.list().iter().enumerate() {
            let source = i as u64 + 1;
            tensors.extend(base.tensors()?.iter().map(|tensor| SourceTensor { source, tensor }));
        }
        let mut stems: HashMap<Stem, Vec<(u64, usize)>> = HashMap::new();
        for (i, candidate) in tensors.iter().enumerate() {
            let (row, stem) = stem(candidate.tensor);
            stems.entry(stem).or_default().push((row, i));
        }
        stems.values_mut().for_each(|starts| starts.sort_unstable());
        Ok(Self { tensors, stems })
    }

    /// The tensors of the same name, or parts of one, that start nearest to this tensor, at its row
    /// or before it; in the order of their starts and bases.
    pub(super) fn named(&self, tensor: &TensorInfo) -> Vec<SourceTensor<'a>> {
        let (row, stem) = stem(tensor);
        let starts = self.stems.get(&stem).map_or(&[][..], Vec::as_slice);
        let end = starts.partition_point(|&(start, _)| start <= row);
        let nearest = &starts[end.saturating_sub(NAMED_MAX)..end];
        nearest.iter().map(|&(_, i)| self.tensors[i]).collect()
    }
}

fn stem(tensor: &TensorInfo) -> (u64, Stem<'_>) {
    let region = Region::of(tensor);
    (region.row(), (region.name, region.columns(&tensor.shape)))
}

/// Candidates for the large tensors of the file, in addition to those of the same name.
struct Likely<'a> {
    own: Vec<SourceTensor<'a>>,
    own_related: Related,
    /// For each tensor, the first one in the file that looks the same, which may be itself.
    own_first: HashMap<usize, usize>,
    base_related: Related,
    /// For tensors whose name is in no base: a tensor with the same content.
    base_same: HashMap<usize, usize>,
}

/// The coded size of a tensor's sample, alone and against each candidate, in bytes.
struct Tried {
    alone: usize,
    on: Vec<(Reference, usize)>,
}

impl Own<'_> {
    /// The reference of each item of a safetensors file.
    pub(super) fn tensors(&self) -> Result<Vec<Option<Reference>>> {
        let in_bases = BaseTensors::new(self)?;
        let read = |source: u64, start: u64, out: &mut [u8]| self.read(source, start, out);
        let context = &self.options.context;
        let large = |i: &usize| {
            let item = &self.layout.items[i + 1];
            item.len > 0 && !is_small(item)
        };
        let large: Vec<usize> = (0..self.tensors.len()).filter(large).collect();
        let likely = self.likely(&in_bases, &large, &read, context)?;
        let tried = each(
            large.len(),
            context,
            || Trial::new(&read),
            |trial, i| self.try_all(trial, &in_bases, &likely, large[i]),
        )?;
        let mut items = vec![None; self.layout.items.len()];
        let mut is_own = HashSet::new();
        for (&i, tried) in large.iter().zip(tried) {
            // In file order, so that the references of earlier tensors are known.
            let can =
                |reference: &Reference| !reference.is_own() || !is_own.contains(&reference.start);
            items[i + 1] = tried.best(can);
            if items[i + 1].is_some_and(|reference| reference.is_own()) {
                is_own.insert(self.tensors[i].range.start);
            }
        }
        let mut trial = Trial::new(&read);
        self.small_tensors(&in_bases, &mut trial, &mut items)?;
        Ok(items)
    }

    /// The references that a tensor may have to tensors of the same name in bases, or to parts of
    /// one.
    pub(super) fn named(&self, in_bases: &BaseTensors, tensor: &TensorInfo) -> Vec<Reference> {
        let len = tensor.range.end - tensor.range.start;
        let found = in_bases.named(tensor).into_iter().flat_map(|own| own.holding(tensor));
        found.filter_map(|reference| self.fitted(reference, len)).collect()
    }

    /// A reference of `len` bytes that lies within its source: bytes that are more than those of
    /// the base may go beyond its end, and begin earlier then.
    fn fitted(&self, reference: Reference, len: u64) -> Option<Reference> {
        let over = reference.end(len).saturating_sub(self.source_len(reference.source));
        let start = match reference.conversion {
            _ if over == 0 => reference.start,
            Conversion::None => reference.start.checked_sub(over)?,
            _ => return None,
        };
        Some(Reference { start, ..reference })
    }

    /// Finds candidates for the large tensors by content or by similar names.
    fn likely<'a>(
        &'a self,
        in_bases: &BaseTensors<'a>,
        large: &[usize],
        read: Read,
        context: &Context,
    ) -> Result<Likely<'a>> {
        let own: Vec<SourceTensor> =
            self.tensors.iter().map(|tensor| SourceTensor { source: 0, tensor }).collect();
        let mut own_related = Related::default();
        large.iter().for_each(|&i| own_related.add(i, &own[i].tensor.name));
        let own_groups = groups(large.iter().map(|&i| (i, &own[i])), |_| true);
        let own_marks = marks(&own_groups, &own, read, context)?;
        let mut first: HashMap<(usize, Hash), usize> = HashMap::new();
        let own_first = own_marks
            .iter()
            .map(|&(group, i, mark)| (i, *first.entry((group, mark)).or_insert(i)))
            .collect();
        let lost: Vec<usize> = large
            .iter()
            .copied()
            .filter(|&i| {
                in_bases
                    .named(own[i].tensor)
                    .iter()
                    .all(|candidate| candidate.holding(own[i].tensor).is_empty())
            })
            .collect();
        let mut base_related = Related::default();
        let mut base_same = HashMap::new();
        if !lost.is_empty() && !in_bases.tensors.is_empty() {
            for (i, candidate) in in_bases.tensors.iter().enumerate() {
                base_related.add(i, &candidate.tensor.name);
            }
            base_same = same_content(&lost, &own, &in_bases.tensors, read, context)?;
        }
        Ok(Likely { own, own_related, own_first, base_related, base_same })
    }

    /// Tries all candidates of tensor `i`.
    fn try_all(
        &self,
        trial: &mut Trial,
        in_bases: &BaseTensors,
        likely: &Likely,
        i: usize,
    ) -> Result<Tried> {
        let tensor = &self.tensors[i];
        let dtype = self.layout.items[i + 1].dtype.unwrap_or(Dtype::Bytes);
        let len = tensor.range.end - tensor.range.start;
        let mut candidates = self.named(in_bases, tensor);
        if dtype == Dtype::Bytes && !candidates.is_empty() {
            // A sample does not show text that has moved.
            return Ok(Tried { alone: usize::MAX, on: vec![(candidates[0], 0)] });
        }
        let is_named = !candidates.is_empty();
        let mut others: Vec<Reference> = Vec::new();
        if !is_named {
            candidates.extend(
                likely.base_same.get(&i).map(|&p| in_bases.tensors[p].reference(Conversion::None)),
            );
            let found = likely.base_related.find(&tensor.name, in_bases.tensors.len());
            others.extend(
                found
                    .iter()
                    .flat_map(|&p| in_bases.tensors[p].references(tensor))
                    .take(RELATED_MAX),
            );
        }
        let first = likely.own_first.get(&i).filter(|&&first| first != i);
        candidates.extend(first.map(|&first| likely.own[first].reference(Conversion::None)));
        let found = likely.own_related.find(&tensor.name, i);
        others
            .extend(found.iter().flat_map(|&p| likely.own[p].references(tensor)).take(RELATED_MAX));
        for reference in others {
            if trial.looks_alike(&tensor.range, &reference, dtype)?
                && !candidates.contains(&reference)
            {
                candidates.push(reference);
            }
        }
        match candidates[..] {
            [] => return Ok(Tried { alone: 0, on: Vec::new() }),
            [one]
                if is_named
                    && (len < TRIAL_LEN_MIN
                        || trial.looks_close(&tensor.range, &one, dtype)?) =>
            {
                return Ok(Tried { alone: usize::MAX, on: vec![(one, 0)] });
            }
            _ => {}
        }
        let alone = trial.alone(&tensor.range, dtype)?;
        let on = |reference: Reference| Ok((reference, trial.on(&reference, len, dtype)?));
        Ok(Tried { alone, on: candidates.into_iter().map(on).collect::<Result<_>>()? })
    }
}

impl Tried {
    /// The best candidate that may be used, if it saves enough; the first of two that are equally
    /// good.
    fn best(self, can: impl Fn(&Reference) -> bool) -> Option<Reference> {
        let fitting = self.on.into_iter().filter(|(reference, _)| can(reference));
        let (best, len) = fitting.min_by_key(|(_, len)| *len)?;
        (len < self.alone - self.alone / GAIN_SHARE).then_some(best)
    }
}

/// Type and length: equal tensors have the same.
type TypeAndLen = (Dtype, u64);

fn kind(candidate: &SourceTensor) -> TypeAndLen {
    (candidate.tensor.dtype, candidate.tensor.range.end - candidate.tensor.range.start)
}

/// Tensors of the same kind, in order; only kinds that `is_wanted`.
fn groups<'a, 'p>(
    tensors: impl Iterator<Item = (usize, &'p SourceTensor<'a>)>,
    is_wanted: impl Fn(&TypeAndLen) -> bool,
) -> Vec<Vec<usize>>
where
    'a: 'p,
{
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut of_kind: HashMap<TypeAndLen, usize> = HashMap::new();
    for (i, candidate) in tensors.filter(|(_, candidate)| is_wanted(&kind(candidate))) {
        let group = *of_kind.entry(kind(candidate)).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(i);
    }
    groups
}

/// The marks of all tensors of groups that have more than one, with their groups.
fn marks(
    groups: &[Vec<usize>],
    tensors: &[SourceTensor],
    read: Read,
    context: &Context,
) -> Result<Vec<(usize, usize, Hash)>> {
    let several = groups.iter().enumerate().filter(|(_, members)| members.len() > 1);
    let wanted: Vec<(usize, usize)> =
        several.flat_map(|(group, members)| members.iter().map(move |&i| (group, i))).collect();
    each(
        wanted.len(),
        context,
        || (),
        |(), k| {
            let (group, i) = wanted[k];
            Ok((group, i, mark(read, tensors[i].source, &tensors[i].tensor.range)?))
        },
    )
}

/// For tensors of the file, numbered by `lost`, the tensors in bases that have the same content.
fn same_content(
    lost: &[usize],
    own: &[SourceTensor],
    in_bases: &[SourceTensor],
    read: Read,
    context: &Context,
) -> Result<HashMap<usize, usize>> {
    let kinds: HashSet<TypeAndLen> = lost.iter().map(|&i| kind(&own[i])).collect();
    // Both in one list, with those of bases first.
    let all: Vec<SourceTensor> =
        in_bases.iter().chain(lost.iter().map(|&i| &own[i])).copied().collect();
    let groups = groups(all.iter().enumerate(), |kind| kinds.contains(kind));
    let mut first: HashMap<(usize, Hash), usize> = HashMap::new();
    let mut same = HashMap::new();
    for (group, i, mark) in marks(&groups, &all, read, context)? {
        match i.checked_sub(in_bases.len()) {
            None => {
                first.entry((group, mark)).or_insert(i);
            }
            Some(k) => {
                same.extend(first.get(&(group, mark)).map(|&candidate| (lost[k], candidate)));
            }
        }
    }
    Ok(same)
}
