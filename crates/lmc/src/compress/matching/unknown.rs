//! References of a file that nothing is known about: its bytes are looked for in a base where they
//! are in the file itself, and a little before and after that.

use super::Own;
use super::trial::Trial;
use crate::{Base, Reference};
use lmc_codec::Dtype;
use lmc_format::{Conversion, Result};
use lmc_input::Cut;
use std::ops::Range;

/// Bytes that are looked for, and how far from where they should be.
const ANCHOR_LEN: u64 = 32;
const REACH: u64 = 1 << 16;
/// Places in a span whose bytes are looked for.
const ANCHORS: u64 = 3;
/// Most bases that are tried.
const BASES_MAX: usize = 16;
/// Nothing is looked for where this share of values already looks alike.
const ALIKE: f64 = 0.9;

/// The longest values.
const WORD_LEN: u64 = 8;

/// How far the bytes of a file are from the same bytes in a base.
type Shift = i64;

/// A part of a span, and where it is in a base.
struct Place {
    range: Range<u64>,
    reference: Reference,
}

impl Own<'_> {
    /// Spans with their references: to the base whose bytes look most alike. A span is cut where
    /// the base begins or ends.
    pub(super) fn unknown(&self, cuts: Vec<Cut>) -> Result<(Vec<Cut>, Vec<Option<Reference>>)> {
        let read = |source: u64, start: u64, out: &mut [u8]| self.read(source, start, out);
        let mut trial = Trial::new(&read);
        let bases = self.options.bases.list();
        let bases = &bases[..bases.len().min(BASES_MAX)];
        // Where the span before was found, the next one probably is too.
        let mut last: Vec<Shift> = vec![0; bases.len()];
        let (mut all, mut references) = (Vec::new(), Vec::new());
        for cut in cuts {
            let mut best: Option<(f64, Place)> = None;
            for (i, (base, last)) in bases.iter().zip(&mut last).enumerate() {
                let base = (&**base, i as u64 + 1);
                let found = self.place(&mut trial, &cut, base, *last)?;
                let Some((alike, shift, place)) = found else { continue };
                *last = shift;
                if best.as_ref().is_none_or(|(most, _)| alike > *most) {
                    best = Some((alike, place));
                }
            }
            let Some((_, Place { range, reference })) = best else {
                all.push(cut);
                references.push(None);
                continue;
            };
            let Range { start, end } = cut.range;
            for (part, reference) in [
                (start..range.start, None),
                (range.clone(), Some(reference)),
                (range.end..end, None),
            ] {
                if !part.is_empty() {
                    all.push(Cut { range: part, ..cut.clone() });
                    references.push(reference);
                }
            }
        }
        Ok((all, references))
    }

    /// The most likely place of a span in a base, how far that is from its place in the file, and
    /// the share of its values that look alike.
    fn place(
        &self,
        trial: &mut Trial,
        cut: &Cut,
        base: (&Base, u64),
        last: Shift,
    ) -> Result<Option<(f64, Shift, Place)>> {
        // The file may have grown or shrunk in front of this.
        let resized = base.0.original_len().cast_signed() - self.len.cast_signed();
        let dtype = cut.dtype.unwrap_or(Dtype::Bytes);
        let mut best: Option<(f64, Shift, Place)> = None;
        let (mut shifts, mut next) = (vec![last, 0, resized], 0);
        let expected = shifts.len();
        while let Some(&shift) = shifts.get(next) {
            let is_new = !shifts[..next].contains(&shift);
            if is_new && let Some(place) = self.place_at(cut, base, shift)? {
                let alike = trial.alike(&place.range, &place.reference, dtype)?;
                if best.as_ref().is_none_or(|(most, ..)| alike > *most) {
                    best = Some((alike, shift, place));
                }
            }
            next += 1;
            if next == expected && best.as_ref().is_none_or(|(most, ..)| *most < ALIKE) {
                shifts.extend(self.anchors(cut, base, last)?);
            }
        }
        Ok(best)
    }

    /// The place of a span if its bytes are this much further in a base than in the file: all of
    /// the span, or most of it where the base begins or ends within it.
    fn place_at(
        &self,
        cut: &Cut,
        (base, source): (&Base, u64),
        shift: Shift,
    ) -> Result<Option<Place>> {
        let len = cut.range.end - cut.range.start;
        let start = self.original(cut.range.start).cast_signed().saturating_add(shift);
        let room = base.original_len().cast_signed().saturating_sub(start).max(0).cast_unsigned();
        // Both ends stay where values begin.
        let skip = start.min(0).unsigned_abs().next_multiple_of(WORD_LEN);
        let end = if room < len { room / WORD_LEN * WORD_LEN } else { len };
        let is_most = end.saturating_sub(skip) >= len.div_ceil(2);
        let is_whole = (skip, end) == (0, len);
        if !is_most || !is_whole && cut.items.len() > 1 {
            return Ok(None);
        }
        let range = cut.range.start + skip..cut.range.start + end;
        let own = start.saturating_add_unsigned(skip).cast_unsigned();
        let (outside, data) = base.order()?.parts(&(own..own + (end - skip)));
        let start = if data.is_empty() { outside.start } else { data.start };
        let is_within = start + (end - skip) <= base.original_len();
        let reference = Reference { source, start, conversion: Conversion::None };
        Ok(is_within.then_some(Place { range, reference }))
    }

    /// Where an arranged byte is in the file.
    fn original(&self, at: u64) -> u64 {
        self.order.pieces(at..at + 1).next().map_or(at, |piece| piece.start)
    }

    /// How far some bytes of a span are from the same bytes in a base.
    fn anchors(&self, cut: &Cut, (base, _): (&Base, u64), last: Shift) -> Result<Vec<Shift>> {
        let len = cut.range.end - cut.range.start;
        let mut shifts = Vec::new();
        for i in 0..ANCHORS {
            let at = cut.range.start + len / (ANCHORS + 1) * (i + 1);
            let mut anchor = [0; ANCHOR_LEN as usize];
            if at + ANCHOR_LEN > cut.range.end {
                continue;
            }
            self.read(0, at, &mut anchor)?;
            let own = self.original(at);
            let middle = own.saturating_add_signed(last);
            let range = within(base, middle.saturating_sub(REACH)..middle.saturating_add(REACH));
            let mut bytes = vec![0; (range.end - range.start) as usize];
            base.sample_original(range.start, &mut bytes)?;
            shifts.extend(
                only_place(&bytes, &anchor)
                    .map(|place| (range.start + place as u64).cast_signed() - own.cast_signed()),
            );
        }
        shifts.sort_unstable();
        shifts.dedup();
        Ok(shifts)
    }
}

fn within(base: &Base, range: Range<u64>) -> Range<u64> {
    let len = base.original_len();
    range.start.min(len)..range.end.min(len)
}

/// Where `wanted` is in `bytes`, if it is there exactly once: zeros are everywhere.
fn only_place(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut places = bytes.windows(wanted.len()).enumerate().filter(|(_, own)| *own == wanted);
    let (first, _) = places.next()?;
    places.next().is_none().then_some(first)
}
