//! Guesses the element types of bytes that nothing is known about.
//!
//! Values of several bytes show in how often each byte occurs at each position: the bytes at the
//! place of the exponent are unlike the others. This tells which widths are worth a try, and where
//! values start. Then a sample is coded as each of the types that are left.

use crate::io::ByteSource;
use lmc_codec::{Block, Dtype, Encoder, Level, Plan, TensorSpec};
use lmc_format::Result;
use std::ops::Range;

/// Bytes of a file that get a guess of their own.
const WINDOW_LEN: u64 = 1 << 20;
/// The same for a file of this length or more, where guesses should not take long.
const LONG_WINDOW_LEN: u64 = 1 << 22;
const LONG_LEN: u64 = 1 << 28;
/// Pieces of a window that are looked at, and their length.
const PIECES: u64 = 4;
const PIECE_LEN: u64 = 1 << 12;
/// Bytes of the sample of a span, in pieces spread over it.
const SAMPLE_LEN: usize = 1 << 16;
/// The longest values.
const WIDTH_MAX: usize = 8;
/// What a type must save: one part in this many.
const GAIN_SHARE: usize = 100;
/// What a less likely place of values must save.
const PHASE_SHARE: usize = 200;
/// All levels must guess the same, or a higher one could take more bytes.
const LEVEL: Level = Level::Default;

/// The types that are tried, plainest first.
const TYPES: [Dtype; 4] = [Dtype::Bf16, Dtype::F16, Dtype::F32, Dtype::F64];

/// A guess: the element type, and how many bytes after a multiple of their width values start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    pub dtype: Dtype,
    pub phase: usize,
}

const BYTES: Guess = Guess { dtype: Dtype::Bytes, phase: 0 };

/// The type that codes `raw` best, if values start at its first byte.
pub(crate) fn dtype(encoder: &mut Encoder, raw: &[u8]) -> Dtype {
    let sample = sample(raw);
    best(encoder, &[&sample], |_, _| vec![0], None).dtype
}

/// Stretches of a file of one type each, which begin where values do. Together they cover the file
/// but for some of its first bytes.
pub(crate) fn stretches(source: &ByteSource, len: u64) -> Result<Vec<(Range<u64>, Dtype)>> {
    let window_len = if len < LONG_LEN { WINDOW_LEN } else { LONG_WINDOW_LEN };
    let mut encoder = Encoder::new();
    let mut found: Vec<(u64, Guess)> = Vec::new();
    for start in (0..len).step_by(window_len as usize) {
        let window = start..len.min(start + window_len);
        let pieces = pieces(source, &window)?;
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let last = found.last().map(|(_, guess)| *guess);
        let guess = best(&mut encoder, &pieces, phases, last);
        // A window of zeros is like anything.
        let is_blank = pieces.iter().all(|piece| piece.iter().all(|&byte| byte == 0));
        let is_same = found.last().is_some_and(|(_, last)| *last == guess || is_blank);
        if !is_same {
            found.push((start, guess));
        }
    }
    let starts: Vec<u64> =
        found.iter().map(|(start, guess)| len.min(start + guess.phase as u64)).collect();
    let ends = starts.iter().skip(1).copied().chain([len]);
    let all = starts.iter().zip(ends).zip(&found);
    let stretches = all.map(|((&start, end), (_, guess))| (start..end, guess.dtype));
    Ok(stretches.filter(|(range, _)| !range.is_empty()).collect())
}

/// Pieces of a window, each of which starts at a multiple of the longest width.
fn pieces(source: &ByteSource, window: &Range<u64>) -> Result<Vec<Vec<u8>>> {
    let len = window.end - window.start;
    if len <= PIECES * PIECE_LEN {
        return Ok(vec![source.read_vec(window.start, len)?]);
    }
    let room = len - PIECE_LEN;
    let start = |i: u64| window.start + room * i / (PIECES - 1) / PIECE_LEN * PIECE_LEN;
    (0..PIECES).map(|i| source.read_vec(start(i), PIECE_LEN)).collect()
}

/// The best of the types and phases, which `phases` gives for a width; `last`, if it is about as
/// good.
fn best(
    encoder: &mut Encoder,
    pieces: &[&[u8]],
    phases: impl Fn(&Counts, usize) -> Vec<usize>,
    last: Option<Guess>,
) -> Guess {
    let counts = Counts::new(pieces);
    let widths = counts.likely_widths();
    if widths.is_empty() {
        return BYTES;
    }
    let mut out = Vec::new();
    let mut coded_len = |Guess { dtype, phase }: Guess| {
        // All guesses are compared for as many bytes.
        let own = |piece: &&[u8]| piece[phase.min(piece.len())..].to_vec();
        let sample: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| {
                let mut own = own(piece);
                own.truncate(piece.len().saturating_sub(WIDTH_MAX));
                own
            })
            .collect();
        out.clear();
        let spec = TensorSpec { dtype, row_len: 0 };
        // A higher level makes text smaller still, but takes long.
        let text = Plan::new(&spec, Level::Fast, Block::alone(&sample));
        let plan = match text.is_text() {
            true => text,
            false => Plan::new(&spec, LEVEL, Block::alone(&[])),
        };
        encoder.encode_block(&plan, 0, Block::alone(&sample), &mut out);
        out.len()
    };
    let mut best = (BYTES, coded_len(BYTES));
    for dtype in TYPES.into_iter().filter(|dtype| widths.contains(&dtype.width())) {
        let mut own: Option<(Guess, usize)> = None;
        for phase in phases(&counts, dtype.width()) {
            let guess = Guess { dtype, phase };
            let len = coded_len(guess);
            if own.is_none_or(|(_, least)| len < least - least / PHASE_SHARE) {
                own = Some((guess, len));
            }
        }
        // Another phase may be hardly smaller, but deltas need the right one.
        if let Some(own) = own.filter(|(_, len)| *len < best.1 - best.1 / GAIN_SHARE) {
            best = own;
        }
    }
    // Samples differ a little, and values rarely change their place within a file.
    if let Some(last) = last
        && last.dtype == best.0.dtype
        && coded_len(last) <= best.1 + best.1 / PHASE_SHARE
    {
        return last;
    }
    best.0
}

/// Where values of this width may start, the likeliest first: after the byte that is most unlike
/// noise, which is the top byte of most floats, or at a multiple of the width.
fn phases(counts: &Counts, width: usize) -> Vec<usize> {
    let costs = counts.costs(width);
    let least = |&a: &usize, &b: &usize| costs[a].total_cmp(&costs[b]);
    let top = (0..width).min_by(least).unwrap_or(0);
    let mut phases = vec![(top + 1) % width, 0];
    phases.dedup();
    phases
}

/// How often each byte occurs at each position, counted modulo the longest width.
struct Counts([[u32; 256]; WIDTH_MAX]);

impl Counts {
    fn new(pieces: &[&[u8]]) -> Self {
        let mut counts = Self([[0; 256]; WIDTH_MAX]);
        for piece in pieces {
            for word in piece.as_chunks::<WIDTH_MAX>().0 {
                word.iter().zip(&mut counts.0).for_each(|(&byte, own)| own[byte as usize] += 1);
            }
        }
        counts
    }

    /// For each position in values of this width, the bits that its bytes take, with their table.
    fn costs(&self, width: usize) -> Vec<f64> {
        let position = |i: usize| {
            let mut sum = [0_u32; 256];
            for counts in self.0.iter().skip(i).step_by(width) {
                sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let all: u32 = sum.iter().sum();
            let own = |&count: &u32| {
                let count = f64::from(count);
                count * (f64::from(all) / count).log2()
            };
            let present = || sum.iter().filter(|&&count| count > 0);
            // A symbol of a table takes about six bits.
            present().map(own).sum::<f64>() + 6.0 * present().count() as f64
        };
        (0..width).map(position).collect()
    }

    /// Widths that may code the bytes better than no width.
    fn likely_widths(&self) -> Vec<usize> {
        let cost = |width: usize| self.costs(width).iter().sum::<f64>();
        let plain = cost(1);
        let costs = [2, 4, 8].map(|width| (width, cost(width)));
        let least = costs.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
        let is_likely = |&(_, cost): &(usize, f64)| cost < 0.99 * plain && cost < 1.05 * least;
        costs.iter().filter(|own| is_likely(own)).map(|(width, _)| *width).collect()
    }
}

/// Pieces of `raw`. Each starts at a multiple of its length, so that words stay whole.
fn sample(raw: &[u8]) -> Vec<u8> {
    let piece_len = PIECE_LEN as usize;
    let pieces = raw.len() / piece_len;
    let wanted = SAMPLE_LEN / piece_len;
    if pieces <= wanted {
        return raw.to_vec();
    }
    let piece = |i: usize| &raw[pieces * i / wanted * piece_len..][..piece_len];
    (0..wanted).flat_map(piece).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Input;
    use lmc_testkit::data::{Kind, Random, words};

    fn found(bytes: &[u8]) -> Vec<(Range<u64>, Dtype)> {
        let source = ByteSource::new(Input::Bytes(bytes)).unwrap();
        stretches(&source, bytes.len() as u64).unwrap()
    }

    /// Types are found wherever values start.
    #[test]
    fn types_and_phases() {
        for (dtype, width) in [(Dtype::Bf16, 2), (Dtype::F32, 4), (Dtype::F64, 8)] {
            let values = words(Kind::Weights, width, true, 3_000_000 / width, 5);
            for phase in 0..width {
                let bytes = [&vec![7; phase + 8][..], &values].concat();
                let all = found(&bytes);
                assert_eq!(all.len(), 1, "{dtype:?} {phase}: {all:?}");
                assert_eq!(all[0], (phase as u64..bytes.len() as u64, dtype));
            }
        }
    }

    /// A file of several types is cut where they change, about.
    #[test]
    fn several_types() {
        let random = Random::new(1).bytes(2 << 20);
        let f32s = words(Kind::Weights, 4, true, 1 << 20, 2);
        let bf16s = words(Kind::Weights, 2, true, 1 << 20, 3);
        let bytes = [&random[..], &f32s, &vec![0; 1 << 20], &bf16s].concat();
        let types: Vec<Dtype> = found(&bytes).iter().map(|(_, dtype)| *dtype).collect();
        assert_eq!(types, [Dtype::Bytes, Dtype::F32, Dtype::Bf16]);
    }

    /// Files of any length are covered, but for fewer bytes than a value has.
    #[test]
    fn all_is_covered() {
        for len in [0, 1, 7, 8, 4096, (1 << 20) + 1, (3 << 20) - 1] {
            let all = found(&words(Kind::Weights, 4, true, len / 4 + 1, 5)[..len]);
            let mut end = all.first().map_or(len as u64, |(range, _)| range.start);
            assert!(end < 8);
            for (range, _) in all {
                assert_eq!(range.start, end);
                end = range.end;
            }
            assert_eq!(end, len as u64);
        }
    }
}
