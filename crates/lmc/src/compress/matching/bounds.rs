//! Limits the references of a file: to as many bases as it can name, and to what can be restored
//! without exceeding the cost limit.

use super::{Own, Spans};
use crate::BaseSet;
use crate::base::budget::Cost;
use crate::compress::uncoded;
use lmc_format::Result;
use lmc_format::limits::{BASE_STRETCHES_MAX, BASES_MAX};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// Keeps only references to the bases that most bytes refer to, if there are more bases, or more
/// stretches of them, than a file can name.
pub(super) fn drop_rare(spans: &mut Spans, bases: &BaseSet) -> Result<()> {
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    for (cut, reference) in spans.cuts.iter().zip(&spans.references) {
        if let Some(reference) = reference.filter(|reference| !reference.is_own()) {
            *bytes.entry(reference.source).or_default() += cut.range.end - cut.range.start;
        }
    }
    let mut sources: Vec<u64> = bytes.keys().copied().collect();
    sources.sort_unstable_by_key(|source| (Reverse(bytes[source]), *source));
    let mut stretches = 0;
    for (i, source) in sources.into_iter().enumerate() {
        let number = source as usize - 1;
        stretches += bases.list().get(number).map_or(Ok(0), |base| Ok(base.order()?.count()))?;
        if i >= BASES_MAX as usize || stretches > BASE_STRETCHES_MAX {
            bytes.remove(&source);
        }
    }
    for reference in &mut spans.references {
        *reference = reference.filter(|own| own.is_own() || bytes.contains_key(&own.source));
    }
    Ok(())
}

impl Own<'_> {
    /// Drops references if all of them together would make a restore so expensive that it would be
    /// refused: many small tensors, each in a different segment of a base. The shortest go first,
    /// because they cost the most for what they save.
    pub(super) fn drop_costly(&self, spans: &mut Spans) -> Result<()> {
        let len = |spans: &Spans, i: usize| spans.cuts[i].range.end - spans.cuts[i].range.start;
        while self.costs_too_much(spans)? {
            let mut on: Vec<usize> =
                (0..spans.cuts.len()).filter(|&i| spans.references[i].is_some()).collect();
            on.sort_by_key(|&i| (len(spans, i), i));
            on[..on.len().div_ceil(2)].iter().for_each(|&i| spans.references[i] = None);
        }
        Ok(())
    }

    /// Whether a restore would decode so much of the references' sources that it might be refused.
    fn costs_too_much(&self, spans: &Spans) -> Result<bool> {
        let mut cost = Cost::new(self.len, spans.cuts.len());
        for (i, cut) in spans.cuts.iter().enumerate() {
            self.add_cost(spans, i, 0..cut.range.end - cut.range.start, &mut cost)?;
        }
        Ok(cost.is_too_much())
    }

    /// Adds up what decoders will write to read the base of the part `part` of span `i`. If the
    /// base is in the file itself, they decode that part again, and its own base in turn.
    fn add_cost(&self, spans: &Spans, i: usize, part: Range<u64>, cost: &mut Cost) -> Result<()> {
        let Some(reference) = &spans.references[i] else { return Ok(()) };
        let start = reference.start + reference.conversion.source_len(part.start);
        let range = start..reference.end(part.end);
        match (reference.source as usize).checked_sub(1) {
            Some(i) => self.options.bases.list()[i].cost(range, 1, cost),
            None => {
                let file = std::ptr::from_ref(self).addr();
                let below = |i: usize, part, cost: &mut Cost| self.add_cost(spans, i, part, cost);
                uncoded::add_cost(file, &spans.cuts, range, 0, cost, below)
            }
        }
    }
}
