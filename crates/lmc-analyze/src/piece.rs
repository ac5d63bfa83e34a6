//! How a tensor is read: in pieces, of which all or one MiB in eight is looked at.

use std::ops::Range;

/// Bytes of a piece, as many as those of a span of an archive.
const PIECE_LEN: u64 = 8 << 20;
/// Bytes of each piece that are looked at if not everything is.
const SAMPLE_LEN: u64 = 1 << 20;

/// Bytes of a tensor, counted from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// All of it. It starts at a multiple of 64 KiB.
    pub all: Range<u64>,
    /// What is coded as one span: rows of a matrix, or a sample of them.
    pub coded: Range<u64>,
}

impl Piece {
    /// The number of pieces of a tensor of `len` bytes.
    pub(crate) fn count(len: u64) -> u64 {
        len.div_ceil(PIECE_LEN)
    }

    /// Piece `i` of a tensor of `len` bytes with rows of `row_bytes`, or 0. What is coded begins
    /// with a row, as it does in archives, unless rows are very long. If `is_all`, that of all
    /// pieces covers the tensor.
    pub(crate) fn new(i: u64, len: u64, row_bytes: u64, is_all: bool) -> Self {
        let (start, end) = (i * PIECE_LEN, len.min((i + 1) * PIECE_LEN));
        let row = |at: u64| match row_bytes {
            1..=SAMPLE_LEN => at.next_multiple_of(row_bytes).min(len),
            _ => at,
        };
        let mut coded = row(start)..row(end);
        if !is_all {
            coded.end = coded.end.min(coded.start + SAMPLE_LEN);
        }
        Self { all: start..end, coded }
    }

    /// The bytes to read for both.
    pub(crate) fn read(&self) -> Range<u64> {
        self.all.start..self.all.end.max(self.coded.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pieces(len: u64, row_bytes: u64, is_all: bool) -> Vec<Piece> {
        (0..Piece::count(len)).map(|i| Piece::new(i, len, row_bytes, is_all)).collect()
    }

    /// All pieces together are the tensor, and so is what is coded of them if all is; it begins
    /// with a row.
    #[test]
    fn pieces_cover_the_tensor() {
        for (len, row) in
            [(0, 0), (1, 0), (30 * MIB, 3000), (30_000_000, 3000), (17 * MIB, 2 * MIB)]
        {
            let pieces = pieces(len, row, true);
            let (mut all, mut coded) = (0, 0);
            for piece in &pieces {
                assert_eq!((piece.all.start, piece.coded.start), (all, coded));
                assert_eq!(piece.read().start, all);
                assert!(piece.read().end >= piece.coded.end && piece.coded.start >= all);
                if (1..MIB).contains(&row) {
                    assert_eq!(coded % row, 0);
                }
                (all, coded) = (piece.all.end, piece.coded.end);
            }
            assert_eq!((all, coded), (len, len));
        }
    }

    /// A sample is one MiB of each eight, and all of a tensor that has no more.
    #[test]
    fn samples_are_an_eighth() {
        let coded = |len, row| -> Vec<(u64, u64)> {
            let pieces = pieces(len, row, false).into_iter();
            pieces.map(|piece| (piece.coded.start, piece.coded.end)).collect()
        };
        assert_eq!(coded(MIB, 4096), [(0, MIB)]);
        assert_eq!(coded(100, 0), [(0, 100)]);
        assert_eq!(coded(16 * MIB, 4096), [(0, MIB), (8 * MIB, 9 * MIB)]);
        let row = (8 * MIB).next_multiple_of(3000);
        assert_eq!(coded(12 * MIB, 3000), [(0, MIB), (row, row + MIB)]);
    }
}
