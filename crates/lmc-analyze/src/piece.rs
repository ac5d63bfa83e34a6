//! How a tensor is read: in pieces, of which all or a part at their start is looked at.

use crate::count::BLOCK_LEN;
use std::ops::Range;

/// Bytes of a piece, as many as those of a span of an archive.
const PIECE_LEN: u64 = 8 << 20;
/// Bytes of a piece that are read in one go.
const PART_LEN: u64 = 1 << 19;
/// Bytes of each piece that are coded if not everything is.
const CODED_LEN: u64 = 1 << 20;
/// Bytes of each piece that are looked at against a base that is farther away: there are several.
const FAR_LEN: u64 = 1 << 18;
/// Tensors of at least so many pieces are compared with such a base in every other piece only.
const FAR_COUNT: u64 = 4;
/// Longer rows are cut anywhere.
const ROW_LEN_MAX: u64 = 1 << 20;

/// How much of each piece is looked at, where not all of it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    All,
    /// What is coded alone and against the checkpoint before.
    Coded,
    /// What is compared with a base that is farther away.
    Far,
}

impl Part {
    /// Bytes of piece `i` of a tensor of `len` bytes.
    fn of_piece(self, i: u64, len: u64) -> u64 {
        match self {
            Self::All => u64::MAX / 2,
            Self::Far if i % 2 == 1 && Piece::count(len) >= FAR_COUNT => 0,
            Self::Far if len > CODED_LEN => FAR_LEN,
            Self::Coded | Self::Far => CODED_LEN,
        }
    }
}

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
    /// with a row, as it does in archives, unless rows are very long. With [`Part::All`], that
    /// of all pieces covers the tensor.
    pub(crate) fn new(i: u64, len: u64, row_bytes: u64, part: Part) -> Self {
        let (start, end) = (i * PIECE_LEN, len.min((i + 1) * PIECE_LEN));
        let row = |at: u64| match row_bytes {
            1..=ROW_LEN_MAX => at.next_multiple_of(row_bytes).min(len),
            _ => at,
        };
        let mut coded = row(start)..row(end);
        coded.end = coded.end.min(coded.start + part.of_piece(i, len));
        Self { all: start..end, coded }
    }

    /// The parts in which both are read, one after the other: all that is coded is in the first.
    /// They are small, so that they stay in the caches while they are counted.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (start, end) = (self.all.start, self.all.end.max(self.coded.end));
        let first = (self.coded.end - start).next_multiple_of(BLOCK_LEN as u64).max(PART_LEN);
        let first = (start + first).min(end);
        let others = (first..end).step_by(PART_LEN as usize);
        std::iter::once(start..first).chain(others.map(move |at| at..end.min(at + PART_LEN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pieces(len: u64, row_bytes: u64, part: Part) -> Vec<Piece> {
        (0..Piece::count(len)).map(|i| Piece::new(i, len, row_bytes, part)).collect()
    }

    /// All pieces together are the tensor, and so is what is coded of them if all is; it begins
    /// with a row.
    #[test]
    fn pieces_cover_the_tensor() {
        for (len, row) in
            [(0, 0), (1, 0), (30 * MIB, 3000), (30_000_000, 3000), (17 * MIB, 2 * MIB)]
        {
            for piece in pieces(len, row, Part::Coded) {
                let first = piece.parts().next().expect("a part");
                assert!(first.end >= piece.coded.end && first.end - first.start <= 4 * MIB);
            }
            let pieces = pieces(len, row, Part::All);
            let (mut all, mut coded) = (0, 0);
            for piece in &pieces {
                assert_eq!((piece.all.start, piece.coded.start), (all, coded));
                let parts: Vec<_> = piece.parts().collect();
                assert_eq!(parts[0].start, all);
                assert!(parts[0].end >= piece.coded.end && piece.coded.start >= all);
                assert!(parts.windows(2).all(|two| two[0].end == two[1].start));
                // A block that goes on in the next part would be counted as two.
                let ends = parts[..parts.len() - 1].iter().map(|part| part.end);
                assert!(ends.clone().all(|end| (end - all).is_multiple_of(BLOCK_LEN as u64)));
                let end = parts.last().map_or(all, |part| part.end);
                assert_eq!(end, piece.all.end.max(piece.coded.end));
                if (1..MIB).contains(&row) {
                    assert_eq!(coded % row, 0);
                }
                (all, coded) = (piece.all.end, piece.coded.end);
            }
            assert_eq!((all, coded), (len, len));
        }
    }

    /// A sample is the first MiB of eight, and all of a tensor that has no more than one. For bases
    /// that are far away it is the first quarter of it, in every other eight MiB of long tensors.
    #[test]
    fn samples_are_a_part() {
        let sampled = |len, row, part| -> Vec<(u64, u64)> {
            let pieces = pieces(len, row, part).into_iter();
            pieces.map(|piece| (piece.coded.start, piece.coded.end)).collect()
        };
        let coded = |len, row| sampled(len, row, Part::Coded);
        assert_eq!(sampled(MIB, 4096, Part::Far), [(0, MIB)]);
        let far = sampled(16 * MIB, 4096, Part::Far);
        assert_eq!(far, [(0, MIB / 4), (8 * MIB, 8 * MIB + MIB / 4)]);
        let far: u64 =
            pieces(40 * MIB, 4096, Part::Far).iter().map(|p| p.coded.end - p.coded.start).sum();
        assert_eq!(far, 3 * MIB / 4);
        assert_eq!(coded(MIB, 4096), [(0, MIB)]);
        assert_eq!(coded(100, 0), [(0, 100)]);
        assert_eq!(coded(16 * MIB, 4096), [(0, MIB), (8 * MIB, 9 * MIB)]);
        let row = (8 * MIB).next_multiple_of(3000);
        assert_eq!(coded(12 * MIB, 3000), [(0, MIB), (row, row + MIB)]);
    }
}
