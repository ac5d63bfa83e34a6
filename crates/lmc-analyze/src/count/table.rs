//! Tables of counts by 16 bits, from which the histograms of all smaller fields follow.
//!
//! One number is added for each word instead of one for each field. Only rows that hold something
//! are summed up.

/// Values of 16 bits.
pub(crate) const CELLS: usize = 1 << 16;
/// Cells that share their high byte.
const ROW: usize = 1 << 8;

/// The sums of a table.
pub(crate) struct Sums {
    /// By the low byte.
    pub low: [u32; ROW],
    /// By the bits above the lowest `columns_log2`, of which at most 8 are left out.
    pub rows: Vec<u32>,
    columns_log2: u32,
}

impl Sums {
    /// Nothing yet. Rows are told apart by all but the lowest `columns_log2` bits, at most 8.
    pub(crate) fn new(columns_log2: u32) -> Self {
        Self { low: [0; ROW], rows: vec![0; CELLS >> columns_log2], columns_log2 }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.low.fill(0);
        self.rows.fill(0);
    }

    /// Takes the counts of a table of one block, which is empty then. A block has fewer words than
    /// a `u16` can count.
    pub(crate) fn take(&mut self, table: &mut [u16; CELLS]) {
        let per_row = ROW >> self.columns_log2;
        let mut low = [0_u16; ROW];
        for (row, sums) in
            table.as_chunks_mut::<ROW>().0.iter_mut().zip(self.rows.chunks_exact_mut(per_row))
        {
            if row.iter().fold(0, |any, &count| any | count) == 0 {
                continue;
            }
            for (low, &count) in low.iter_mut().zip(&*row) {
                *low += count;
            }
            for (sum, group) in sums.iter_mut().zip(row.chunks_exact(1 << self.columns_log2)) {
                *sum += u32::from(group.iter().sum::<u16>());
            }
            row.fill(0);
        }
        for (sum, count) in self.low.iter_mut().zip(low) {
            *sum += u32::from(count);
        }
    }

    /// The sums by the high byte.
    pub(crate) fn high(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.chunks_exact(ROW >> self.columns_log2).map(|rows| rows.iter().sum())
    }
}

/// A table of `u32` in several parts. Words next to each other are counted in different parts:
/// where they are alike, an addition would have to wait for the one before it.
#[derive(Debug)]
pub(crate) struct Lanes<const N: usize> {
    pub parts: [Box<[u32; CELLS]>; N],
}

impl<const N: usize> Lanes<N> {
    pub(crate) fn new() -> Self {
        Self { parts: std::array::from_fn(|_| Box::new([0; CELLS])) }
    }

    /// Gives each value that was counted in the first `used` parts with its count, and forgets it.
    pub(crate) fn take(&mut self, used: usize, mut each: impl FnMut(usize, u64)) {
        let parts = &mut self.parts[..used.min(N)];
        for start in (0..CELLS).step_by(ROW) {
            let range = start..start + ROW;
            let any = |part: &[u32; CELLS]| part[range.clone()].iter().fold(0, |any, &n| any | n);
            if parts.iter().all(|part| any(part) == 0) {
                continue;
            }
            for cell in range.clone() {
                let count: u64 = parts.iter().map(|part| u64::from(part[cell])).sum();
                if count > 0 {
                    each(cell, count);
                }
            }
            parts.iter_mut().for_each(|part| part[range.clone()].fill(0));
        }
    }
}
