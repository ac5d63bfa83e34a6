//! References of small tensors, which share spans: a run of them has one, if those of its tensors
//! stand one behind the other.

use super::Own;
use super::find::Known;
use super::trial::Trial;
use crate::Reference;
use lmc_format::Result;
use lmc_input::is_small;
use std::ops::Range;

/// Bytes that a reference must save, where the tensors of a run are in spans of their own for it.
const GAIN_MIN: u64 = 256;

impl Own<'_> {
    /// Sets the references of small tensors; those of others are not touched.
    pub(super) fn small_tensors(
        &self,
        known: &Known,
        trial: &mut Trial,
        items: &mut [Option<Reference>],
    ) -> Result<()> {
        for (i, tensor) in self.layout.tensors.iter().enumerate() {
            let len = tensor.range.end - tensor.range.start;
            if len > 0 && is_small(&self.layout.items[i + 1]) {
                items[i + 1] = self.by_name(known, trial, tensor)?;
            }
        }
        let mut first = 1;
        while first < items.len() {
            let run = self.run(items, first);
            first = run.end;
            if items[run.start].is_some() && !self.pays(trial, items, run.clone())? {
                items[run].fill(None);
            }
        }
        Ok(())
    }

    /// The tensor of the same name, or of which this one is the rounding.
    fn by_name(
        &self,
        known: &Known,
        trial: &mut Trial,
        tensor: &lmc_input::Tensor,
    ) -> Result<Option<Reference>> {
        for place in known.named(&tensor.name) {
            let conversions = place.conversions(tensor);
            let Some(&first) = conversions.first() else { continue };
            let start = place.tensor.range.start;
            let conversion = match conversions {
                [_] => first,
                _ => trial.conversion(&tensor.range, place.source, start, conversions)?,
            };
            return Ok(Some(Reference { source: place.source, start, conversion }));
        }
        Ok(None)
    }

    /// The items from `first` on that would share a span by their references.
    fn run(&self, items: &[Option<Reference>], first: usize) -> Range<usize> {
        let mut last = first;
        let mut end = first + 1;
        while end < items.len() && is_small(&self.layout.items[end]) {
            let item = &self.layout.items[end];
            if item.len > 0 {
                let is_one = item.dtype == self.layout.items[last].dtype
                    && items[last].is_some()
                    && is_small(&self.layout.items[last])
                    && self.may_share(items, last, end);
                if !is_one {
                    break;
                }
                last = end;
            }
            end += 1;
        }
        first..end
    }

    /// Whether a run gains by its reference more than a span of its own costs.
    fn pays(
        &self,
        trial: &mut Trial,
        items: &[Option<Reference>],
        run: Range<usize>,
    ) -> Result<bool> {
        let (first, last) = (run.start, run.end - 1);
        let all = &self.layout.items;
        let (Some(reference), Some(dtype)) = (items[first], all[first].dtype) else {
            return Ok(false);
        };
        if !is_small(&all[first]) {
            return Ok(true);
        }
        let range = self.starts[first]..self.starts[last] + all[last].len;
        let shares =
            |i: usize| all.get(i).is_some_and(|item| is_small(item) && item.dtype == Some(dtype));
        let is_cut_out = first > 1 && shares(first - 1) || shares(run.end);
        let alone = trial.alone(&range, dtype)?;
        let on = trial.on(&reference, range.end - range.start, dtype)?;
        let gain = alone.saturating_sub(on) as u64 * (range.end - range.start);
        let gain = gain / trial.sample_len().max(1) as u64;
        Ok(gain >= if is_cut_out { GAIN_MIN } else { 16 })
    }
}
