//! Tells bytes that are not numbers, such as text, from those that are, by a short look.
//!
//! The answer depends on the bytes and their type alone, so that all levels give the same one.

use super::coder::changes;
use super::cost::{entropy_bits, histogram};
use crate::zstd::ZstdEncoder;
use lmc_format::Dtype;

/// Pieces that are looked at, and the bytes of each. Bytes that are no longer than all of them are
/// looked at whole.
const PIECES: usize = 4;
const PIECE_LEN: usize = 1 << 12;
/// The fastest level that finds repeats.
const LOOK_LEVEL: i32 = 1;
/// What a run of equal bytes costs.
const RUN_BITS: u64 = 24;

/// What is known of bytes from their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// Nothing.
    Any,
    /// They are numbers of one byte: speed matters, and repeats are rare.
    Numbers,
}

impl Bytes {
    /// None if values are not single bytes.
    pub(super) fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::Bytes => Some(Self::Any),
            Dtype::U8 | Dtype::I8 | Dtype::Bool => Some(Self::Numbers),
            _ => None,
        }
    }

    /// Whether these bytes are probably smaller by their repeats than by how often each value
    /// occurs.
    pub(crate) fn is_text(self, bytes: &[u8], zstd: &mut ZstdEncoder) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let pieces = pieces(bytes);
        if self == Self::Any && pieces.iter().all(|piece| is_readable(piece)) {
            return true;
        }
        let (mut by_repeats, mut by_values, mut by_runs) = (0, 0, 0);
        for piece in pieces {
            let Ok(frame) = zstd.compress(LOOK_LEVEL, piece, None) else { return false };
            by_repeats += 8 * frame.len() as u64;
            by_values += entropy_bits(&histogram(piece));
            by_runs += RUN_BITS * u64::from(changes(piece) + 1);
        }
        match self {
            Self::Any => 16 * by_repeats < 15 * by_values,
            Self::Numbers => 4 * by_repeats < 3 * by_values.min(by_runs),
        }
    }
}

/// The pieces to look at.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let last = bytes.len().saturating_sub(PIECE_LEN);
    if bytes.len() <= PIECES * PIECE_LEN {
        return vec![bytes];
    }
    (0..PIECES).map(|i| &bytes[last * i / (PIECES - 1)..][..PIECE_LEN]).collect()
}

/// Whether there are no control characters, and most bytes are ASCII.
fn is_readable(piece: &[u8]) -> bool {
    let is_control = |&b: &u8| b < b' ' && !b"\t\n\x0c\r".contains(&b) || b == 0x7f;
    !piece.iter().any(is_control) && 2 * piece.iter().filter(|b| b.is_ascii()).count() > piece.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_testkit::data::Random;

    fn is_text(kind: Bytes, bytes: &[u8]) -> bool {
        kind.is_text(bytes, &mut ZstdEncoder::default())
    }

    /// Readable text is text whether it repeats or not, and so are bytes with repeats.
    #[test]
    fn text_is_found() {
        let mut random = Random::new(1);
        let line = |i: u32| format!("{{\"step\": {i}, \"loss\": {}}},\n", i * 77 % 1000);
        let log: String = (0..4000).map(line).collect();
        assert!(is_text(Bytes::Any, log.as_bytes()));
        let letters: Vec<u8> = (0..99_999).map(|_| b'0' + random.below(64) as u8).collect();
        assert!(is_text(Bytes::Any, &letters));
        let words: Vec<Vec<u8>> = (0..50).map(|_| random.bytes(30)).collect();
        let repeats: Vec<u8> = (0..9000).flat_map(|_| words[random.below(50)].clone()).collect();
        assert!(is_text(Bytes::Any, &repeats) && is_text(Bytes::Numbers, &repeats));
    }

    /// Numbers are not text, nor is noise.
    #[test]
    fn numbers_are_not_text() {
        let mut random = Random::new(2);
        let weights: Vec<u8> = (0..300_000).map(|_| (random.normal() * 25.0) as i8 as u8).collect();
        let sparse: Vec<u8> =
            (0..300_000).map(|_| if random.below(9) == 0 { 1 } else { 0 }).collect();
        for bytes in [weights, sparse, random.bytes(70_000), random.bytes(700), Vec::new()] {
            assert!(!is_text(Bytes::Numbers, &bytes) && !is_text(Bytes::Any, &bytes[..0]));
        }
        let halves: Vec<u8> = (0..200_000).flat_map(|_| [random.below(256) as u8, 60]).collect();
        assert!(!is_text(Bytes::Numbers, &halves));
    }
}
