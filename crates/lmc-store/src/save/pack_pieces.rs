//! The bytes of a pack before it is put: pieces as they were coded, so that none is copied.

use lmc::Crew;
use lmc_format::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Pieces that are shorter than this are copied together.
const SHORT: usize = 1 << 16;

/// The bytes of a pack.
#[derive(Debug, Default)]
pub(crate) struct PackPieces {
    pieces: Vec<Piece>,
    /// Where each piece starts in the pack.
    starts: Vec<usize>,
    len: usize,
}

#[derive(Debug)]
enum Piece {
    /// A part of bytes that another pack may have the rest of.
    Part(Arc<Vec<u8>>, Range<usize>),
    /// Short pieces together.
    Short(Vec<u8>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Part(bytes, range) => &bytes[range.clone()],
            Self::Short(bytes) => bytes,
        }
    }
}

impl PackPieces {
    /// Bytes in all.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Adds a part of `bytes`.
    pub(crate) fn push(&mut self, bytes: &Arc<Vec<u8>>, part: Range<usize>) {
        let len = part.len();
        match self.pieces.last_mut() {
            Some(Piece::Short(short)) if len < SHORT => {
                short.extend_from_slice(&bytes[part]);
            }
            _ => {
                self.starts.push(self.len);
                self.pieces.push(match len < SHORT {
                    true => Piece::Short(bytes[part].to_vec()),
                    false => Piece::Part(bytes.clone(), part),
                });
            }
        }
        self.len += len;
    }

    /// All bytes, in their order.
    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        self.pieces.iter().map(Piece::bytes).collect()
    }

    /// Fills `out` with the bytes from `at` on.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let ends_early = || Error::truncated("the pack ends early");
        let mut at = usize::try_from(at).map_err(|_| ends_early())?;
        if at.checked_add(out.len()).is_none_or(|end| end > self.len) {
            return Err(ends_early());
        }
        let mut rest = out;
        let first = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        for (piece, start) in self.pieces.iter().zip(&self.starts).skip(first) {
            let own = &piece.bytes()[at - start..];
            let count = own.len().min(rest.len());
            let (out, after) = rest.split_at_mut(count);
            out.copy_from_slice(&own[..count]);
            (rest, at) = (after, at + count);
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Gives the memory to others, as far as no other pack has it.
    pub(crate) fn give_back(self, crew: &Crew) {
        for piece in self.pieces {
            if let Piece::Part(bytes, _) = piece
                && let Some(bytes) = Arc::into_inner(bytes)
            {
                crew.give(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of pieces of all lengths are read from every place, whether they were copied or not.
    #[test]
    fn pieces_are_read() {
        let lens = [1, 5, SHORT - 1, SHORT, 3, SHORT + 7, 2, 2, 0, SHORT];
        let (mut pack, mut all) = (PackPieces::default(), Vec::new());
        for (i, len) in lens.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..len + 9).map(|k| (k * 7 + i) as u8).collect();
            all.extend_from_slice(&bytes[4..4 + len]);
            pack.push(&Arc::new(bytes), 4..4 + len);
        }
        assert_eq!(pack.len(), all.len() as u64);
        assert!(pack.slices().concat() == all);
        for at in [0, 1, 6, SHORT, SHORT + 5, 2 * SHORT + 4, all.len() - 1, all.len()] {
            for len in [0, 1, 3, SHORT + 9, all.len() - at] {
                let mut out = vec![0; len];
                let read = pack.read(at as u64, &mut out);
                assert_eq!(read.is_ok(), at + len <= all.len(), "{len} from {at}");
                assert!(read.is_err() || out == all[at..at + len], "{len} from {at}");
            }
        }
        assert!(pack.read(u64::MAX, &mut [0]).is_err());
    }
}
