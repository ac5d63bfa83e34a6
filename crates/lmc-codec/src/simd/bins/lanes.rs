//! Tables by bin, as bytes that kernels load. They are made once for a recipe, not for each
//! segment.

use super::{BINS, FLIP, Reach};
use lmc_format::Bin;
use lmc_format::limits::BIN_ROWS_MAX;

/// The largest number of rows.
pub(super) const ROWS: usize = BIN_ROWS_MAX as usize;

/// One byte for each bin.
type ByBin = [u8; BINS];

/// Symbols that the sixteen places of each row stand for.
type Rows = [[u8; 16]; ROWS];

#[derive(Debug)]
pub(super) struct Lanes {
    pub shift: ByBin,
    pub centre: ByBin,
    /// The bits of the payload that belong to the difference.
    pub low: ByBin,
    /// The bit of the payload that says whether the sign changed; 0 if there is none.
    pub flip: ByBin,
    /// Low and high bytes of the factor that shifts by the width of a bin and changes the sign.
    pub factor: [ByBin; 2],
    /// The first bin of each row. If a row has no bins, it is above all bins and at most 127.
    pub row_starts: [u8; ROWS],
    /// The number of rows.
    pub row_count: usize,
    /// Where the row of a bin starts among all rows.
    pub row: ByBin,
    pub forward: Rows,
    pub backward: Rows,
    /// The least and the largest step that are not exceptions: of values that keep their sign, and
    /// of those that do not.
    pub reach: [[ByBin; 2]; 2],
}

impl Lanes {
    /// For `bins` and rows. The first row begins at bin 0, and each other row at a bound.
    pub(super) fn new(bins: &[Bin; BINS], bounds: &[u8], rows: &[[u8; 16]]) -> Self {
        let by_bin = |value: &dyn Fn(Bin) -> u8| bins.map(value);
        let factor = |bin: Bin| (-(1_i32 << (15 - bin.shift)) as i16).to_le_bytes();
        let mut row_starts = [0; ROWS];
        row_starts
            .iter_mut()
            .skip(1)
            .zip(bounds)
            .for_each(|(start, &bound)| *start = bound.min(127));
        let row = |bin| bounds.iter().filter(|&&bound| usize::from(bound) <= bin).count() as u8;
        let (mut forward, mut backward) = ([[0; 16]; ROWS], [[0; 16]; ROWS]);
        for (row, (forward, backward)) in rows.iter().zip(forward.iter_mut().zip(&mut backward)) {
            *forward = row.map(symbol);
            (0..).zip(row).for_each(|(from, &to)| backward[usize::from(to)] = symbol(from));
        }
        Self {
            shift: by_bin(&|bin| bin.shift),
            centre: by_bin(&|bin| bin.centre as u8),
            low: by_bin(&|bin| ((1_u16 << bin.shift) - 1) as u8),
            flip: by_bin(&|bin| if bin.has_flip_bit { 1 << bin.shift } else { 0 }),
            factor: [0, 1].map(|byte| by_bin(&|bin| factor(bin)[byte])),
            row_starts,
            row_count: rows.len(),
            row: std::array::from_fn(|bin| row(bin) << 4),
            forward,
            backward,
            reach: [[[0; BINS]; 2]; 2],
        }
    }

    /// The same, with the steps that each bin reaches.
    pub(super) fn with_reach(mut self, reach: &[Reach; BINS]) -> Self {
        self.reach = [0, 1]
            .map(|flip| [reach.map(|own| own[flip].0 as u8), reach.map(|own| own[flip].1 as u8)]);
        self
    }
}

/// The symbol with this place in a row.
fn symbol(place: u8) -> u8 {
    ((place << 5) as i8 >> 5) as u8 ^ if place >= 8 { FLIP } else { 0 }
}
