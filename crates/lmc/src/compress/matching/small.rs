//! References of small tensors, which share spans: a run of them has one reference if the
//! references of its tensors follow each other directly.

use super::Own;
use super::find::{BaseTensors, GAIN_SHARE};
use super::trial::Trial;
use crate::Reference;
use lmc_format::Result;
use lmc_input::is_small;
use std::ops::Range;

/// The fewest bytes that a reference must save.
const GAIN_MIN: u64 = 64;
/// The same if the run needs a span of its own for the reference.
const GAIN_MIN_APART: u64 = 256;

impl Own<'_> {
    /// Sets the references of small tensors and leaves all others alone.
    pub(super) fn small_tensors(
        &self,
        in_bases: &BaseTensors,
        trial: &mut Trial,
        items: &mut [Option<Reference>],
    ) -> Result<()> {
        for (i, tensor) in self.tensors.iter().enumerate() {
            let len = tensor.range.end - tensor.range.start;
            if len > 0 && is_small(&self.layout.items[i + 1]) {
                items[i + 1] = self.by_name(in_bases, trial, tensor)?;
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

    /// The reference to the tensor of the same name, as it is or rounded, that is most like this
    /// one.
    fn by_name(
        &self,
        in_bases: &BaseTensors,
        trial: &mut Trial,
        tensor: &lmc_input::TensorInfo,
    ) -> Result<Option<Reference>> {
        let candidates = self.named(in_bases, tensor);
        match candidates[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => trial.closest(&tensor.range, &candidates),
        }
    }

    /// The items from `first` on that could share a span, judging by their references.
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

    /// Whether the reference of a run saves more than a separate span costs.
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
        let is_apart = first > 1 && shares(first - 1) || shares(run.end);
        let alone = trial.alone(&range, dtype)?;
        let on = trial.on(&reference, range.end - range.start, dtype)?;
        if on >= alone - alone / GAIN_SHARE {
            return Ok(false);
        }
        let gain = (alone - on) as u64 * (range.end - range.start);
        let gain = gain / trial.sample_len().max(1) as u64;
        Ok(gain >= if is_apart { GAIN_MIN_APART } else { GAIN_MIN })
    }
}
