//! What a file may refer to: no more bases than it can name, and nothing that would make a restore so
//! dear that it would be refused.

use super::{Own, Spans};
use crate::effort::Cost;
use lmc_format::Result;
use lmc_format::limits::BASES_MAX;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Drops references to all but the bases that most bytes refer to, if there are more than a file can
/// name.
pub(super) fn drop_rare(spans: &mut Spans) {
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    for (cut, reference) in spans.cuts.iter().zip(&spans.references) {
        if let Some(reference) = reference.filter(|reference| !reference.is_own()) {
            *bytes.entry(reference.source).or_default() += cut.range.end - cut.range.start;
        }
    }
    let mut sources: Vec<u64> = bytes.keys().copied().collect();
    sources.sort_unstable_by_key(|source| (Reverse(bytes[source]), *source));
    for source in sources.into_iter().skip(BASES_MAX as usize) {
        bytes.remove(&source);
    }
    for reference in &mut spans.references {
        *reference = reference.filter(|own| own.is_own() || bytes.contains_key(&own.source));
    }
}

impl Own<'_> {
    /// Drops references to bases if all of them together would make a restore so dear that it would be
    /// refused: many small tensors, each in another segment of a base. The shortest go first, which
    /// cost most for what they give.
    pub(super) fn drop_dear(&self, spans: &mut Spans) -> Result<()> {
        let len = |spans: &Spans, i: usize| spans.cuts[i].range.end - spans.cuts[i].range.start;
        let is_on_base = |spans: &Spans, i: usize| spans.references[i].is_some_and(|r| !r.is_own());
        while self.is_dear(spans)? {
            let mut on: Vec<usize> =
                (0..spans.cuts.len()).filter(|&i| is_on_base(spans, i)).collect();
            on.sort_by_key(|&i| (len(spans, i), i));
            on[..on.len().div_ceil(2)].iter().for_each(|&i| spans.references[i] = None);
        }
        Ok(())
    }

    /// Whether a restore would decode so much of bases that it might be refused.
    fn is_dear(&self, spans: &Spans) -> Result<bool> {
        let bases = self.options.bases.list();
        let mut cost = Cost::new(self.source_len(0)?, spans.cuts.len());
        for (cut, reference) in spans.cuts.iter().zip(&spans.references) {
            if let Some(reference) = reference.filter(|reference| !reference.is_own()) {
                let range = reference.start..reference.end(cut.range.end - cut.range.start);
                bases[reference.source as usize - 1].cost(range, 1, &mut cost)?;
            }
        }
        Ok(cost.is_too_much())
    }
}
