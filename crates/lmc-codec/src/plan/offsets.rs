//! Plans recipes with row and column offsets: fitted on some rows of the tensor, evaluated on
//! others.

use super::choose::{Candidate, JOINT_BITS_MAX, Planner};
use super::coder;
use super::cost::{entropy_bits, histogram};
use super::sample::each_prefetched;
use crate::layout::WordLayout;
use crate::spec::Level;
use crate::transform::offsets::{BlockOffsets, ColumnFit, ColumnOffsets, Field};
use lmc_format::limits::COLUMNS_MAX;
use lmc_format::{Columns, WordMap};
use std::ops::Range;

/// Values that candidates are fitted to and evaluated on, in whole rows, and the least and largest
/// number of these rows; twice as many at the highest level.
const JUDGED_VALUES: usize = 1 << 14;
const JUDGED_ROWS_MIN: usize = 16;
const JUDGED_ROWS_MAX: usize = 512;
/// Rows and columns of the square that shows whether there is anything to fit.
const SQUARE_SIDE: usize = 64;
/// Rows that the columns of the chosen candidate are fitted to.
const FITTED_ROWS: usize = 256;
/// The same if offsets gain at least an eighth of a bit per value: a rough fit gives most of that
/// too.
const FITTED_ROWS_ROUGH: usize = 96;
/// Values that the planes below the symbol are evaluated on.
const LOWER_VALUES: usize = 1 << 12;

/// Rows of a tensor, spread over it: their bytes and their finest symbols, with the sign bit on
/// top.
struct RowSample<'a> {
    planner: Planner,
    row_len: usize,
    tensor: &'a [u8],
    rows: usize,
}

impl RowSample<'_> {
    fn judged_rows(&self) -> usize {
        let scale = if self.planner.level == Level::Max { 2 } else { 1 };
        (scale * JUDGED_VALUES / self.row_len).clamp(scale * JUDGED_ROWS_MIN, JUDGED_ROWS_MAX)
    }

    /// Calls `visit` with the values `cols` of each of about `wanted` rows.
    fn each_row(&self, wanted: usize, cols: Range<usize>, visit: impl FnMut(&[u8])) {
        let width = self.planner.layout.width_log2;
        let row_bytes = self.row_len << width;
        let count = self.rows.min(wanted);
        let part = |i| {
            let row = &self.tensor[self.rows * i / count * row_bytes..][..row_bytes];
            &row[cols.start << width..cols.end << width]
        };
        each_prefetched(count, part, visit);
    }

    /// The bytes of about `wanted` rows, one after the other.
    fn bytes(&self, wanted: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.each_row(wanted, 0..self.row_len, |row| bytes.extend_from_slice(row));
        bytes
    }

    /// Whether rows or columns explain at least a fiftieth of the variance of the exponents, in a
    /// square cut from the sampled rows. This quick check saves most weights a closer one. Less
    /// would gain at most a hundredth of a bit.
    fn has_structure(&self) -> bool {
        let layout = self.planner.layout;
        let side = SQUARE_SIDE.min(self.row_len).min(self.rows);
        if side < SQUARE_SIDE / 4 {
            return true;
        }
        let first = (self.row_len - side) / 2;
        let field = Field { words: self.planner.words(), bits: layout.exponent_bits };
        let mut symbols = [0; SQUARE_SIDE];
        let mut columns = [0_u64; SQUARE_SIDE];
        let (mut sum, mut squares, mut row_squares) = (0, 0, 0);
        self.each_row(side, first..first + side, |bytes| {
            field.symbols(self.planner.isa, bytes, &mut symbols[..side]);
            let exponents = || symbols[..side].iter().map(|&s| u64::from(s));
            let row_sum: u64 = exponents().sum();
            sum += row_sum;
            row_squares += row_sum * row_sum;
            squares += exponents().map(|e| e * e).sum::<u64>();
            columns.iter_mut().zip(exponents()).for_each(|(column, e)| *column += e);
        });
        let column_squares: u64 = columns.iter().map(|c| c * c).sum();
        // All variances are multiplied by side^4. The variance of the means of noise is the total
        // variance divided by the side.
        let side = side as u64;
        let whole = side * side * squares - sum * sum;
        let explained = (side * row_squares - sum * sum) + (side * column_squares - sum * sum);
        explained > 2 * whole / side + whole / 50
    }

    fn symbols(&self, field: Field, bytes: &[u8]) -> Vec<u16> {
        let mut symbols = vec![0; bytes.len() >> field.words.width_log2];
        field.symbols(self.planner.isa, bytes, &mut symbols);
        symbols
    }
}

/// The best recipe with offsets for `tensor`, if it costs less than `least` for `n` values.
pub(super) fn choose(
    planner: Planner,
    row_len: u64,
    tensor: &[u8],
    least: u64,
    n: usize,
) -> Option<Candidate> {
    let exponent = planner.layout.exponent_bits;
    let usable =
        planner.level != Level::Fast && exponent == 8 && (8..=COLUMNS_MAX).contains(&row_len);
    let row_len = usize::try_from(row_len).ok().filter(|_| usable)?;
    let rows = tensor.len() / (row_len << planner.layout.width_log2);
    if rows < 8 {
        return None;
    }
    let sample = RowSample { planner, row_len, tensor, rows };
    if !sample.has_structure() {
        return None;
    }
    let bytes = sample.bytes(sample.judged_rows());
    let Extra { layout, extra, bits } = best_extra(&sample, &bytes, least, n)?;
    let is_rough = planner.level == Level::Default && least - bits >= n as u64 / 8;
    let planner = Planner { layout, ..planner };
    let sample = RowSample { planner, ..sample };
    let field = Field { words: planner.words(), bits: layout.exponent_bits + extra };
    let matrix = sample.symbols(field, &bytes);
    let mut fit = ColumnFit::new(row_len, &matrix)?;
    let mut symbols = vec![0; row_len];
    let fitted_rows = if is_rough { FITTED_ROWS_ROUGH } else { FITTED_ROWS };
    sample.each_row(fitted_rows, 0..row_len, |row| {
        field.symbols(planner.isa, row, &mut symbols);
        fit.add(planner.isa, &symbols);
    });
    let fitted = fit.finish(planner.isa, field.bits, &matrix)?;
    let mut candidate = judge(&sample, field, &fitted, &bytes, matrix.chunks_exact(row_len), n);
    let coder = coder::choose_bytes(&fitted.cols);
    candidate.recipe.columns = Some(Columns { count: row_len as u32, base: fitted.base, coder });
    candidate.columns = Some(fitted);
    Some(candidate)
}

/// A symbol for which offsets pay off.
struct Extra {
    /// The layout, with the sign on top if no value is negative.
    layout: WordLayout,
    /// Mantissa bits of the symbol.
    extra: u8,
    /// Its expected cost.
    bits: u64,
}

/// The best symbol with offsets; None if they do not pay off.
fn best_extra(sample: &RowSample, bytes: &[u8], mut least: u64, n: usize) -> Option<Extra> {
    let planner = sample.planner;
    // The finest symbol with the sign on top. Without the sign it is the symbol of the rotated
    // word.
    let plain = WordLayout { map: WordMap::None, ..planner.layout };
    let words = Planner { layout: plain, ..planner }.words();
    let signed_bits = 1 + plain.exponent_bits + JOINT_BITS_MAX;
    let finest = sample.symbols(Field { words, bits: signed_bits }, bytes);
    let unsigned = u16::MAX >> (17 - signed_bits);
    let has_sign = finest.iter().fold(0, |any, &s| any | s) > unsigned;
    // If no value is negative, the sign is left on top, so that the symbol includes it and nothing
    // else has to store it.
    let layout = if has_sign { planner.layout } else { planner.layout.with_sign_on_top() };
    let planner = Planner { layout, ..planner };
    let sample = RowSample { planner, ..*sample };
    // A gain of less than a hundredth of a bit per value may be random, and is not worth the
    // decoder's time.
    let margin = n as u64 / 100;
    let mut found = None;
    let most = if planner.level == Level::Max { JOINT_BITS_MAX } else { JOINT_BITS_MAX - 1 };
    // Without negative values, the values are squares or similar: offsets leave almost only noise,
    // and the finest symbol takes most of it.
    for extra in if has_sign { 0 } else { most }..=most {
        let field = Field { words: planner.words(), bits: layout.exponent_bits + extra };
        let symbols: Vec<u16> =
            finest.iter().map(|&s| (s & unsigned) >> (JOINT_BITS_MAX - extra)).collect();
        let rows = || symbols.chunks_exact(sample.row_len);
        let odd = rows().skip(1).step_by(2).collect::<Vec<_>>().concat();
        let fitted = ColumnOffsets::fit(planner.isa, field.bits, sample.row_len, &odd)?;
        let mut candidate = judge(&sample, field, &fitted, bytes, rows().step_by(2), n);
        // Columns fitted on few rows cost more than the final ones will: about log2(e) / 2 bits per
        // value, divided by the number of rows.
        let few = (odd.len() / sample.row_len).max(1) as u64;
        let final_rows = sample.rows.clamp(1, FITTED_ROWS) as u64;
        let noise = (n as u64 * 72 / 100 / few).saturating_sub(n as u64 * 72 / 100 / final_rows);
        candidate.bits = candidate.bits.saturating_sub(noise);
        if has_sign && extra == 0 {
            // Signed values gain little or nothing. The same rows without offsets show which.
            let plain = without_offsets(&sample, field, bytes, rows().step_by(2), n);
            if candidate.bits + margin >= plain {
                return None;
            }
        }
        if candidate.bits + margin < least {
            least = candidate.bits;
            found = Some(Extra { layout, extra, bits: least });
        } else if found.is_some() {
            break;
        }
    }
    found
}

/// Cost of these rows of unchanged symbols, for `n` values.
fn without_offsets<'a>(
    sample: &RowSample,
    field: Field,
    bytes: &[u8],
    rows: impl Iterator<Item = &'a [u16]>,
    n: usize,
) -> u64 {
    let symbols = rows.collect::<Vec<_>>().concat();
    let lower = bytes.len().min(LOWER_VALUES << field.words.width_log2);
    let candidate = sample.planner.finish(&bytes[..lower], field.bits, &symbols);
    candidate.bits * n as u64 / symbols.len().max(1) as u64
}

/// The candidate for these rows of symbols; its cost is for `n` values.
fn judge<'a>(
    sample: &RowSample,
    field: Field,
    fitted: &ColumnOffsets,
    bytes: &[u8],
    rows: impl Iterator<Item = &'a [u16]>,
    n: usize,
) -> Candidate {
    let isa = sample.planner.isa;
    let mut symbols = Vec::new();
    for row in rows {
        let start = symbols.len();
        symbols.extend_from_slice(row);
        let offsets = BlockOffsets {
            base: fitted.base,
            cols: &fitted.cols,
            rows: &[fitted.fit_row(isa, field.bits, row)],
            first: 0,
            bits: field.bits,
        };
        offsets.forward16(isa, 0, &mut symbols[start..]);
    }
    let lower = bytes.len().min(LOWER_VALUES << field.words.width_log2);
    let mut candidate = sample.planner.finish(&bytes[..lower], field.bits, &symbols);
    let scaled = |bits: u64, from: usize| bits * n as u64 / from.max(1) as u64;
    // The vectors themselves, distributed over the tensor: a byte for each row, the columns'
    // entropy and a table.
    let vectors = entropy_bits(&histogram(&fitted.cols)) + 64 * 8 + 8 * sample.rows as u64;
    candidate.bits =
        scaled(candidate.bits, symbols.len()) + scaled(vectors, sample.rows * sample.row_len);
    candidate
}
