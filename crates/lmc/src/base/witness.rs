//! Makes sure that two reads of the same bytes give the same result.
//!
//! When something is coded against a file, or against an earlier part of the same file, bytes are
//! read that are also read elsewhere: to be stored, or to compute the hash that names the file. If
//! the file is written to in between, for example through a mapping that changes no time stamp, the
//! archive could not be restored. So each such file has a witness. It keeps a hash of every piece
//! as it was first read, for whatever reason, and every later read of the piece must have the same
//! hash.
//!
//! The hash has a random seed, which nobody outside the process knows: nobody can construct two
//! contents with the same hash. Reads that only choose (samples in `matching`, the search in
//! `rounding_sources`) need no witness: the coded bytes are right whatever those reads saw.

use crate::item_hash::ItemHasher;
use lmc_format::{Error, ErrorKind, Hash, Result, seeded_hash};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a piece; the last piece of a run is shorter. A piece is always read whole, however
/// little of it is wanted.
const PIECE_LEN: u64 = 1 << 16;
/// Pieces that are read in one go, so that they are hashed while they are in the cache.
const PIECES_AT_ONCE: u64 = 16;

/// The pieces of a file as they were when they were first read.
#[derive(Debug)]
pub(crate) struct Witness {
    seed: u64,
    runs: Vec<Run>,
    /// The hashes; 0 means not read yet.
    pieces: Vec<AtomicU64>,
}

/// A stretch of the file that is divided into pieces from its start.
#[derive(Clone, Debug)]
struct Run {
    range: Range<u64>,
    /// The number of its first piece.
    first: usize,
}

/// A piece: its number and its bytes in the file.
type Piece = (usize, Range<u64>);

impl Witness {
    /// A witness of these stretches of a file, which are in order and do not overlap.
    pub(crate) fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut count = 0;
        let run = |range: Range<u64>| {
            let run = Run { first: count, range };
            count += (run.range.end - run.range.start).div_ceil(PIECE_LEN) as usize;
            run
        };
        let runs = ranges.into_iter().map(run).collect();
        let seed = RandomState::new().hash_one(count);
        Self { seed, runs, pieces: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Fills `out` with the bytes from `start` on, using `read`. Fails if one of their pieces has
    /// changed since it was read before. Bytes outside all runs are read without a check.
    pub(crate) fn read(
        &self,
        start: u64,
        out: &mut [u8],
        read: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let end = start + out.len() as u64;
        let mut whole = Vec::new();
        let mut at = start;
        while at < end {
            let (to, is_whole) = self.whole_until(at, end);
            let place = (at - start) as usize..(to - start) as usize;
            if is_whole {
                read(at, &mut out[place.clone()])?;
                self.saw(at, &out[place])?;
            } else if let Some((_, piece)) = self.piece(at) {
                whole.resize((piece.end - piece.start) as usize, 0);
                read(piece.start, &mut whole)?;
                self.saw(piece.start, &whole)?;
                let own = (at - piece.start) as usize..(to - piece.start) as usize;
                out[place].copy_from_slice(&whole[own]);
            } else {
                read(at, &mut out[place])?;
            }
            at = to;
        }
        Ok(())
    }

    /// The end of the whole pieces that follow from `at`, if one starts there and ends before
    /// `end`. Otherwise the end of the wanted part of the piece that holds `at`, or of the bytes
    /// outside all pieces.
    fn whole_until(&self, at: u64, end: u64) -> (u64, bool) {
        let most = end.min(at + PIECES_AT_ONCE * PIECE_LEN);
        let mut to = at;
        while let Some((_, piece)) = self.piece(to).filter(|(_, p)| p.start == to && p.end <= most)
        {
            to = piece.end;
        }
        if to > at {
            return (to, true);
        }
        let next = || self.runs.get(self.runs.partition_point(|run| run.range.start <= at));
        let stop = match self.piece(at) {
            Some((_, piece)) => piece.end,
            None => next().map_or(end, |run| run.range.start),
        };
        (stop.min(end), false)
    }

    /// Records whole pieces from `start` on, which have been read; fails if one of them has
    /// changed.
    fn saw(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let (mut at, mut rest) = (start, bytes);
        while let Some((number, piece)) = self.piece(at).filter(|_| !rest.is_empty()) {
            let (own, after) = rest.split_at((piece.end - piece.start) as usize);
            self.note(number, seeded_hash(self.seed, own))?;
            (at, rest) = (piece.end, after);
        }
        Ok(())
    }

    /// Records all pieces that hold any of the bytes `range`, as `slice` gives them; fails if one
    /// of them has changed. Says whether `slice` had all of them.
    pub(crate) fn saw_around<'b>(
        &self,
        range: Range<u64>,
        slice: impl Fn(u64, u64) -> Option<&'b [u8]>,
    ) -> Result<bool> {
        let mut at = range.start;
        while at < range.end {
            let Some((number, piece)) = self.piece(at) else { return Ok(false) };
            let Some(bytes) = slice(piece.start, piece.end - piece.start) else {
                return Ok(false);
            };
            self.note(number, seeded_hash(self.seed, bytes))?;
            at = piece.end;
        }
        Ok(true)
    }

    /// Records the start of the file, which has been read; `read` gives the rest of its last piece.
    pub(crate) fn saw_start(
        &self,
        bytes: &[u8],
        read: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let mut again = vec![0; bytes.len()];
        self.read(0, &mut again, read)?;
        if again == bytes { Ok(()) } else { Err(changed()) }
    }

    /// The hasher for a run while it is coded; none if `range` is not a run.
    pub(crate) fn hasher(&self, range: &Range<u64>) -> Option<ItemHasher> {
        let run = self.runs.binary_search_by_key(&range.start, |run| run.range.start).ok();
        let len = run.map(|i| self.runs[i].range.end - self.runs[i].range.start)?;
        let piece_len = |i: u64| PIECE_LEN.min(len - i * PIECE_LEN);
        let lens = (0..len.div_ceil(PIECE_LEN)).map(piece_len).collect();
        Some(ItemHasher::seeded(lens, self.seed))
    }

    /// Records what the hasher of a run has seen; fails if it differs from an earlier read.
    pub(crate) fn saw_run(&self, start: u64, hashes: Option<ItemHasher>) -> Result<()> {
        let Some((first, _)) = self.piece(start) else { return Ok(()) };
        let hashes = hashes.into_iter().flat_map(ItemHasher::finish).enumerate();
        hashes.into_iter().try_for_each(|(i, hash)| self.note(first + i, hash))
    }

    fn note(&self, number: usize, hash: Hash) -> Result<()> {
        // Half of the hash is enough: two contents share it with a chance of 1 in 2^64.
        let hash = (hash as u64).max(1);
        let first =
            self.pieces[number].compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
        match first {
            Err(before) if before != hash => Err(changed()),
            _ => Ok(()),
        }
    }

    /// The piece that holds the byte at `at`.
    fn piece(&self, at: u64) -> Option<Piece> {
        let i = self.runs.partition_point(|run| run.range.start <= at).checked_sub(1)?;
        let run = &self.runs[i];
        let number = (at - run.range.start) / PIECE_LEN;
        let start = run.range.start + number * PIECE_LEN;
        let range = start..run.range.end.min(start + PIECE_LEN);
        (at < run.range.end).then_some((run.first + number as usize, range))
    }
}

/// The error for a file that has changed.
pub(crate) fn changed() -> Error {
    let message = "changed while it was read, so nothing of it is kept; try again when nobody \
                   writes to it";
    Error::new(ErrorKind::Conflict, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness() -> Witness {
        Witness::new([0..150_000, 150_000..150_010, 200_000..400_000])
    }

    fn bytes() -> Vec<u8> {
        (0..450_000_u64).map(|i| ((i * i) >> 7) as u8).collect()
    }

    fn read<'a>(from: &'a [u8]) -> impl Fn(u64, &mut [u8]) -> Result<()> + 'a {
        |at, out: &mut [u8]| {
            out.copy_from_slice(&from[at as usize..][..out.len()]);
            Ok(())
        }
    }

    /// Any stretch is read correctly, within runs, across them and outside them, again and again.
    #[test]
    fn reads_are_what_is_there() {
        let (witness, bytes) = (witness(), bytes());
        let ends = [0, 1, 65_535, 65_536, 149_999, 150_005, 170_000, 265_536, 399_999, 450_000];
        for start in ends {
            for end in ends.into_iter().filter(|&end| end >= start) {
                let mut out = vec![0; end - start];
                witness.read(start as u64, &mut out, read(&bytes)).unwrap();
                assert!(out == bytes[start..end], "{start} to {end}");
            }
        }
    }

    /// A byte that has changed since its piece was read gives an error, however little of the piece
    /// is wanted and in whichever order it is read and coded. A byte outside the runs does not.
    #[test]
    fn changes_are_found() {
        for place in [0, 65_535, 65_536, 149_999, 150_009, 200_000, 399_999] {
            let (mut bytes, mut out) = (bytes(), [0; 1]);
            let (reads, codes) = (witness(), witness());
            reads.read(place, &mut out, read(&bytes)).unwrap();
            let run = codes.runs.iter().find(|run| run.range.contains(&place)).unwrap().clone();
            let code = |witness: &Witness, bytes: &[u8]| {
                let mut hasher = witness.hasher(&run.range).unwrap();
                hasher.write(&bytes[run.range.start as usize..run.range.end as usize]);
                witness.saw_run(run.range.start, Some(hasher))
            };
            code(&codes, &bytes).unwrap();
            code(&reads, &bytes).unwrap();
            bytes[place as usize] ^= 1;
            for witness in [reads, codes] {
                // Another byte of the same piece, where there is one before it.
                let (_, piece) = witness.piece(place).unwrap();
                let near = piece.start.max(place.saturating_sub(1));
                let error = witness.read(near, &mut out, read(&bytes)).unwrap_err();
                assert_eq!(error.kind, ErrorKind::Conflict, "{place}");
                assert!(code(&witness, &bytes).is_err(), "{place}");
            }
        }
        let (mut bytes, witness, mut out) = (bytes(), witness(), vec![0; 450_000]);
        witness.read(0, &mut out, read(&bytes)).unwrap();
        (bytes[170_000], bytes[449_999]) = (!bytes[170_000], !bytes[449_999]);
        witness.read(0, &mut out, read(&bytes)).unwrap();
        assert!(out == bytes);
    }

    /// The start of a file is compared byte for byte, even where it ends in the middle of a piece.
    #[test]
    fn starts_are_compared() {
        let bytes = bytes();
        for len in [0, 8, 65_536, 70_000, 150_000] {
            let witness = witness();
            witness.saw_start(&bytes[..len], read(&bytes)).unwrap();
            let mut other = bytes.clone();
            other[len / 2] ^= 1;
            assert!(len == 0 || witness.saw_start(&other[..len], read(&bytes)).is_err());
            assert!(
                len == 0
                    || witness.read(0, &mut other.clone()[..1], read(&other)).is_err()
                        == (len / 2 < 65_536)
            );
        }
    }
}
