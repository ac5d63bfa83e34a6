//! Row and column offsets (`docs/format.md`, section 3.4): the part that the rows and columns of a
//! matrix have in common is subtracted from its symbols.
//!
//! A symbol is roughly a logarithm: its exponent and top mantissa bits. If a value is a row's scale
//! times a column's scale times noise, its symbol is row plus column plus noise, and only the noise
//! needs coding.

use super::window::EXCEPTION;
use crate::simd::words::{Words, extract16};
use crate::simd::{Isa, symbols};
use std::ops::Range;

/// Where the offsets' base moves symbols to: the middle of the window.
const MIDDLE: i64 = 128;
/// Symbols farther than this from the tensor's middle (mostly zeros) count as if they were this
/// far.
const REACH: u16 = 160;
/// Values sampled for a row's mean, in stretches of [`STRETCH`].
const ROW_SAMPLE: usize = 96;
const STRETCH: usize = 32;
/// Values of a row, in its first segment, that its mean is taken from.
pub(crate) const ROW_HEAD: usize = 2048;

/// Where the symbols of a block's values are: `bits` wide at the top of mapped words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The words.
    pub words: Words,
    /// Width of the symbol.
    pub bits: u8,
}

impl Field {
    fn shift(self) -> u32 {
        (8 << self.words.width_log2) - u32::from(self.bits)
    }

    fn mask(self) -> u16 {
        u16::MAX >> (16 - self.bits)
    }

    /// The symbols of all words of `src`.
    pub(crate) fn symbols(self, isa: Isa, src: &[u8], symbols: &mut [u16]) {
        extract16(isa, self.words, src, self.shift(), self.mask(), symbols);
    }
}

/// The offsets of a tensor's columns, and the reference that rows are measured against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnOffsets {
    /// Added to every offset.
    pub base: u16,
    /// One offset for each column.
    pub cols: Vec<u8>,
    low: u16,
    high: u16,
}

impl ColumnOffsets {
    /// The offsets in a recipe, for decoding.
    pub(crate) fn from_recipe(base: u16, cols: Vec<u8>) -> Self {
        Self { base, cols, low: 0, high: u16::MAX }
    }

    /// Fits the columns of a matrix of symbols of `bits` bits with rows of `row_len`. None if it
    /// has no row.
    pub(crate) fn fit(isa: Isa, bits: u8, row_len: usize, matrix: &[u16]) -> Option<Self> {
        let mut fit = ColumnFit::new(row_len, matrix)?;
        for row in matrix.chunks_exact(row_len) {
            fit.add(isa, row);
        }
        fit.finish(isa, bits, matrix)
    }

    /// Mean of a whole row's symbols, less the columns' offsets.
    fn row_mean(&self, isa: Isa, row: &[u16]) -> i64 {
        let sum = symbols::sum_less_cols(isa, row, self.low, self.high, &self.cols);
        rounded_mean(sum, row.len())
    }

    /// The offset of a whole row of symbols of `bits` bits.
    pub(crate) fn fit_row(&self, isa: Isa, bits: u8, row: &[u16]) -> u8 {
        self.row_offset(self.row_mean(isa, row), bits)
    }

    /// The offset of a row with this mean.
    fn row_offset(&self, mean: i64, bits: u8) -> u8 {
        let mask = i64::from(u16::MAX >> (16 - bits));
        let over = (mean - i64::from(self.base) - MIDDLE) & mask;
        // A row far below the base ends up near the top of the range: the closest offset is then 0.
        if over > mask - mask / 4 { 0 } else { over.min(255) as u8 }
    }
}

/// Available symbols of a block, from value `start` on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownSymbols<'a> {
    /// Place in the block of the first.
    pub start: usize,
    /// The symbols, without offsets.
    pub symbols: &'a [u16],
}

impl<'a> KnownSymbols<'a> {
    fn get(&self, range: Range<usize>) -> Option<&'a [u16]> {
        let start = range.start.checked_sub(self.start)?;
        self.symbols.get(start..range.end - self.start)
    }
}

/// The rows of a block, fitted one by one as its values are reached, so that memory is read once.
#[derive(Debug)]
pub(crate) struct RowFit<'a> {
    columns: &'a ColumnOffsets,
    field: Field,
    /// Column of the block's first value.
    first: usize,
    values: &'a [u8],
    segment_len: usize,
    rows: Vec<u8>,
}

impl<'a> RowFit<'a> {
    /// A fit for a block's `values`, cut into segments of `segment_len` values. The first of them
    /// is the tensor's value `first_value`.
    pub(crate) fn new(
        columns: &'a ColumnOffsets,
        field: Field,
        first_value: u64,
        values: &'a [u8],
        segment_len: usize,
    ) -> Self {
        let first = (first_value % columns.cols.len() as u64) as usize;
        Self { columns, field, first, values, segment_len, rows: Vec::new() }
    }

    /// Column of the block's first value.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// The offsets of the rows fitted so far.
    pub(crate) fn rows(&self) -> &[u8] {
        &self.rows
    }

    /// Where a step over the values from `start` to at most `end` should end: where a row ends, or
    /// at `end` if there are no rows.
    pub(crate) fn step_end(&self, start: usize, end: usize) -> usize {
        let past = (self.first + end) % self.columns.cols.len();
        if end - start > past { end - past } else { end }
    }

    /// The offsets of all values before value `end` of the block. Symbols in `known` are not read
    /// from memory.
    pub(crate) fn up_to(&mut self, isa: Isa, end: usize, known: KnownSymbols) -> BlockOffsets<'_> {
        let row_len = self.columns.cols.len();
        while self.rows.len() * row_len < self.first + end {
            let row_start = self.rows.len() * row_len;
            let head = self.head(row_start);
            let mean = self.sampled_mean(isa, head.start + self.first - row_start, head, known);
            self.rows.push(self.columns.row_offset(mean, self.field.bits));
        }
        BlockOffsets {
            base: self.columns.base,
            cols: &self.columns.cols,
            rows: &self.rows,
            first: self.first,
            bits: self.field.bits,
        }
    }

    /// The values used for the mean of the row that starts `row_start` values after column 0 of the
    /// block's first row: its part in one segment, if that is large enough.
    fn head(&self, row_start: usize) -> Range<usize> {
        let n = self.values.len() >> self.field.words.width_log2;
        let start = row_start.saturating_sub(self.first);
        let end = (row_start + self.columns.cols.len() - self.first).min(start + ROW_HEAD).min(n);
        let segment_end = (start / self.segment_len + 1) * self.segment_len;
        if segment_end - start < ROW_SAMPLE { start..end } else { start..end.min(segment_end) }
    }

    /// Mean of a sample of the symbols of `head`, which starts in column `col`, less their columns'
    /// offsets.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn sampled_mean(&self, isa: Isa, col: usize, head: Range<usize>, known: KnownSymbols) -> i64 {
        let ColumnOffsets { cols, low, high, .. } = self.columns;
        let width = self.field.words.width_log2;
        let mut read = [0; STRETCH];
        let (mut sum, mut used) = (0, 0);
        for stretch in stretches(head.len()) {
            let place = head.start + stretch.start..head.start + stretch.end;
            let symbols = known.get(place.clone()).unwrap_or_else(|| {
                let bytes = &self.values[place.start << width..place.end << width];
                self.field.symbols(isa, bytes, &mut read[..stretch.len()]);
                &read[..stretch.len()]
            });
            let cols = &cols[col + stretch.start..col + stretch.end];
            sum += symbols::sum_less_cols(isa, symbols, *low, *high, cols);
            used += stretch.len();
        }
        rounded_mean(sum, used)
    }
}

/// The stretches of a row of `n` values that its mean is taken from.
fn stretches(n: usize) -> impl Iterator<Item = Range<usize>> {
    let count = (ROW_SAMPLE / STRETCH).min(n.div_ceil(STRETCH)).max(1);
    (0..count).map(move |i| {
        let start = n * i / count;
        start..(start + STRETCH).min(n * (i + 1) / count)
    })
}

/// A fit of columns to rows that arrive one by one.
#[derive(Debug)]
pub(crate) struct ColumnFit {
    sums: Vec<u32>,
    rows: u32,
    low: u16,
    high: u16,
}

impl ColumnFit {
    /// A fit for rows of `row_len` symbols like those of `matrix`; None if that is empty.
    pub(crate) fn new(row_len: usize, matrix: &[u16]) -> Option<Self> {
        let (low, high) = bounds(matrix)?;
        Some(Self { sums: vec![0; row_len], rows: 0, low, high })
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, isa: Isa, row: &[u16]) {
        symbols::add_to_sums(isa, row, self.low, self.high, &mut self.sums);
        self.rows += 1;
    }

    /// The offsets, with the base set by the rows of `matrix`; None if no row was added or `matrix`
    /// has none.
    pub(crate) fn finish(self, isa: Isa, bits: u8, matrix: &[u16]) -> Option<ColumnOffsets> {
        let means = self.sums.iter().map(|&sum| rounded_mean(i64::from(sum), self.rows as usize));
        let least = means.clone().min()?;
        let cols: Vec<u8> = means.map(|mean| (mean - least).min(255) as u8).collect();
        let mut fitted = ColumnOffsets { base: 0, cols, low: self.low, high: self.high };
        let rows = matrix.chunks_exact(self.sums.len());
        let least_row = rows.map(|row| fitted.row_mean(isa, row)).min()?;
        // Rows are stored relative to the least one seen, with some room for rows below it.
        fitted.base = (least_row - MIDDLE - 16) as u16 & (u16::MAX >> (16 - bits));
        Some(fitted)
    }
}

fn rounded_mean(sum: i64, n: usize) -> i64 {
    let n = n.max(1) as i64;
    (2 * sum + n).div_euclid(2 * n)
}

/// The range that symbols are clamped to: around the median of a sample.
fn bounds(matrix: &[u16]) -> Option<(u16, u16)> {
    let mut sample: Vec<u16> = matrix.iter().copied().step_by(matrix.len() / 512 + 1).collect();
    let middle = sample.len() / 2;
    if sample.is_empty() {
        return None;
    }
    let (_, &mut median, _) = sample.select_nth_unstable(middle);
    Some((median.saturating_sub(REACH), median.saturating_add(REACH)))
}

/// The offsets of one block. A walk over its values gives row and columns stretch by stretch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockOffsets<'a> {
    /// Added to every offset.
    pub base: u16,
    /// One for each column.
    pub cols: &'a [u8],
    /// One for each row that the block touches.
    pub rows: &'a [u8],
    /// Column of the block's first value.
    pub first: usize,
    /// Bits of a symbol.
    pub bits: u8,
}

impl BlockOffsets<'_> {
    /// Calls `apply` with each stretch of `plane` that lies in one row, the row's offset, and the
    /// columns' offsets.
    ///
    /// `start` is the place in the block of the plane's first value.
    #[expect(
        clippy::indexing_slicing,
        reason = "a column is below their number, and a stretch ends with its row"
    )]
    fn each_row<T>(
        &self,
        start: usize,
        mut plane: &mut [T],
        mut apply: impl FnMut(&mut [T], u16, &[u8]),
    ) {
        let mut place = self.first + start;
        while !plane.is_empty() {
            let (row, col) = (place / self.cols.len(), place % self.cols.len());
            let len = (self.cols.len() - col).min(plane.len());
            let (stretch, rest) = plane.split_at_mut(len);
            let row = self.rows.get(row).copied().unwrap_or(0);
            apply(stretch, self.base.wrapping_add(u16::from(row)), &self.cols[col..][..len]);
            place += len;
            plane = rest;
        }
    }

    /// Writes the rest of wide symbols without the offsets, as [`super::window::forward`] does.
    pub(crate) fn forward_windowed(
        &self,
        isa: Isa,
        start: usize,
        symbols: &[u16],
        bias: u16,
        plane: &mut [u8],
        exceptions: &mut Vec<u8>,
    ) {
        let mask = u16::MAX >> (16 - self.bits);
        let mut rest = symbols;
        self.each_row(start, plane, |bytes, row, cols| {
            let (symbols, after) = rest.split_at(bytes.len());
            rest = after;
            if symbols::narrow_less(isa, symbols, row, cols, mask, bias, bytes) != EXCEPTION {
                return;
            }
            for ((&symbol, &col), _) in
                symbols.iter().zip(cols).zip(bytes).filter(|(_, byte)| **byte == EXCEPTION)
            {
                let left = symbol.wrapping_sub(row.wrapping_add(u16::from(col))) & mask;
                exceptions.extend_from_slice(&left.to_le_bytes());
            }
        });
    }

    /// Subtracts the offsets from wide symbols.
    pub(crate) fn forward16(&self, isa: Isa, start: usize, plane: &mut [u16]) {
        let mask = u16::MAX >> (16 - self.bits);
        self.each_row(start, plane, |s, row, cols| symbols::subtract16(isa, s, row, cols, mask));
    }

    /// Adds the offsets back to wide symbols.
    pub(crate) fn inverse16(&self, isa: Isa, start: usize, plane: &mut [u16]) {
        let mask = u16::MAX >> (16 - self.bits);
        self.each_row(start, plane, |s, row, cols| symbols::add16(isa, s, row, cols, mask));
    }

    /// Subtracts the offsets from symbols of at most 8 bits.
    pub(crate) fn forward8(&self, isa: Isa, start: usize, plane: &mut [u8]) {
        let mask = u8::MAX >> (8 - self.bits);
        self.each_row(start, plane, |s, row, cols| {
            symbols::subtract8(isa, s, row as u8, cols, mask)
        });
    }

    /// Adds the offsets back to symbols of at most 8 bits.
    pub(crate) fn inverse8(&self, isa: Isa, start: usize, plane: &mut [u8]) {
        let mask = u8::MAX >> (8 - self.bits);
        self.each_row(start, plane, |s, row, cols| symbols::add8(isa, s, row as u8, cols, mask));
    }
}
