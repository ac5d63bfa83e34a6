//! Every instruction set against the portable one.

use super::*;
use crate::entropy::tree;
use lmc_format::TreeTable;

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A table of these code lengths, and the code length of the escape.
fn table(codes: impl IntoIterator<Item = (u8, u8)>, escape: u8) -> TreeTable {
    let mut lengths = [0; 256];
    codes.into_iter().for_each(|(symbol, length)| lengths[usize::from(symbol)] = length);
    TreeTable::new(lengths, escape).expect("a complete code")
}

/// Trees of every kind: flat ones of all sizes, a chain, mixed ones, with and without an escape.
fn tables() -> Vec<TreeTable> {
    let mut all: Vec<TreeTable> =
        (1..=8).map(|bits| table((0..=255).take(1 << bits).map(|s| (s, bits)), 0)).collect();
    all.extend([
        table((1..=12).map(|i| (20 * i, i)).chain([(3, 12)]), 0),
        table((1..=12).map(|i| (20 * i, i)), 12),
        table([(7, 1), (9, 2)], 2),
        table([(200, 1), (3, 3), (100, 3), (101, 3), (255, 3)], 0),
        table((0..255).map(|s| (s, 8)), 8),
        table((0..16).map(|s| (s + 120, 5)).chain((40..104).map(|s| (s, 7))), 0),
        table((0..128).map(|s| (2 * s, 8)).chain((0..64).map(|s| (4 * s + 1, 7))), 0),
    ]);
    let mut seed = 77;
    for spread in [2, 9, 31] {
        let mut histogram = [0; 256];
        for _ in 0..3000 {
            let r = xorshift(&mut seed);
            let symbol = (r >> 8).trailing_zeros() * spread + (r >> 40) as u32 % spread;
            histogram[symbol as usize % 256] += 1;
        }
        all.push(tree::build(&histogram).expect("a table"));
    }
    all
}

/// Bytes that have codes, with short ones more often, and sometimes others if there is an escape.
fn data(table: &TreeTable, n: usize, seed: &mut u64) -> Vec<u8> {
    let mut symbols: Vec<u8> = (0..=255).filter(|&s| table.lengths()[usize::from(s)] > 0).collect();
    symbols.sort_by_key(|&s| (table.lengths()[usize::from(s)], s));
    let mut byte = || {
        let r = xorshift(seed);
        let rank = match r % 3 {
            0 => (r >> 8) as usize % symbols.len(),
            _ => ((r >> 8).trailing_zeros() as usize * 3 + (r >> 50) as usize % 4) % symbols.len(),
        };
        match r % 37 {
            0 if table.escape() > 0 => (r >> 20) as u8,
            _ => symbols[rank],
        }
    };
    (0..n).map(|_| byte()).collect()
}

fn check(table: &TreeTable, src: &[u8]) {
    let tables = Tables::new(table);
    let mut scratch = Scratch::default();
    let mut wanted = Vec::new();
    assert!(encode(Isa::PORTABLE, &tables, src, &mut scratch, &mut wanted).is_ok());
    for isa in Isa::available() {
        let mut out = vec![1, 2, 3];
        assert!(encode(isa, &tables, src, &mut scratch, &mut out).is_ok());
        assert_eq!(out[3..], wanted, "{isa:?} writes {} bytes otherwise", src.len());
        for fill in [0, 0xff] {
            let mut back = vec![fill; src.len()];
            let mut input = Reader::new(&wanted);
            decode(isa, &tables, &mut input, &mut back, &mut scratch).expect("decodes");
            assert_eq!(back, src, "{isa:?} reads {} bytes otherwise", src.len());
            input.finish("stream").expect("all read");
        }
    }
}

/// All instruction sets write the same stream and read it back, at every length up to four vectors
/// and three.
#[test]
fn twins_agree_at_every_length() {
    let mut seed = 1;
    for table in tables() {
        for n in (0..=4 * 64 + 3).chain([1023, 4096, 16384, 16391]) {
            check(&table, &data(&table, n, &mut seed));
        }
    }
}

/// The memory addresses of source and target do not matter.
#[test]
fn twins_agree_at_every_alignment() {
    let mut seed = 2;
    for table in &tables()[8..] {
        for shift in 0..64 {
            let src = data(table, shift + 333, &mut seed);
            check(table, &src[shift..]);
        }
    }
}

/// In planes of a single byte value, all bytes go the same way through the tree, also with an
/// escape.
#[test]
fn twins_agree_on_one_byte() {
    for table in tables() {
        for byte in (0..=255).filter(|&b| table.escape() > 0 || table.lengths()[b as usize] > 0) {
            check(&table, &[byte; 300]);
        }
    }
}

/// A stream is as the format says: nodes breadth first, with one bit per byte or a flat node's
/// bits, and the bytes of the escape unchanged.
#[test]
fn stream_is_as_the_format_says() {
    let encoded = |table: &TreeTable, src: &[u8]| {
        let mut out = Vec::new();
        let (tables, scratch) = (Tables::new(table), &mut Scratch::default());
        assert!(encode(Isa::PORTABLE, &tables, src, scratch, &mut out).is_ok());
        out
    };
    // 200 is 0; 3, 100, 101 and 255 are two bits after a 1.
    let flat = &tables()[11];
    assert_eq!(encoded(flat, &[200, 3, 255, 200, 101]), [0b10110, 0b10_1100]);
    // 7 is 0, 9 is 10, the escape 11.
    let escape = &tables()[10];
    assert_eq!(encoded(escape, &[7, 9, 8, 7, 200, 9]), [0b110110, 0b0110, 8, 200]);
    assert!(encoded(escape, &[]).is_empty());
}

/// A byte without a code is refused at any place if there is no escape, and leaves the output as it
/// was.
#[test]
fn absent_bytes_are_refused() {
    let table = &tables()[11];
    let tables = Tables::new(table);
    for len in [1, 64, 200, 5000] {
        for place in [0, len / 2, len - 1] {
            let mut src = vec![200; len];
            src[place] = 201;
            for isa in Isa::available() {
                let mut out = vec![1, 2, 3];
                assert!(encode(isa, &tables, &src, &mut Scratch::default(), &mut out).is_err());
                assert_eq!(out, [1, 2, 3]);
            }
        }
    }
}

/// A stream cut short anywhere is refused by every instruction set.
#[test]
fn truncation_is_an_error() {
    let mut seed = 3;
    for table in tables() {
        let tables = Tables::new(&table);
        let mut scratch = Scratch::default();
        let mut stream = Vec::new();
        let src = data(&table, 200, &mut seed);
        assert!(encode(Isa::PORTABLE, &tables, &src, &mut scratch, &mut stream).is_ok());
        for isa in Isa::available() {
            for len in 0..stream.len() {
                let mut back = vec![0; src.len()];
                let mut input = Reader::new(&stream[..len]);
                assert!(decode(isa, &tables, &mut input, &mut back, &mut scratch).is_err());
            }
        }
    }
}

/// Nonzero padding bits are refused.
#[test]
fn padding_must_be_zero() {
    let tables = Tables::new(&tables()[11]);
    for isa in Isa::available() {
        let refused = |stream: &[u8]| {
            let mut input = Reader::new(stream);
            decode(isa, &tables, &mut input, &mut [0; 5], &mut Scratch::default()).is_err()
        };
        assert!(!refused(&[0b10110, 0b10_1100]));
        assert!(refused(&[0b110110, 0b10_1100]));
        assert!(refused(&[0b10110, 0b110_1100]));
    }
}

/// Arbitrary bytes never make two instruction sets disagree, and never panic.
#[test]
fn noise_reads_the_same_everywhere() {
    let mut seed = 4;
    for table in tables() {
        let tables = Tables::new(&table);
        let mut scratch = Scratch::default();
        let mut taken = 0;
        for round in 0..400 {
            let noise: Vec<u8> = (0..round).map(|_| xorshift(&mut seed) as u8).collect();
            // Whole bytes of bits have no padding.
            let n = (xorshift(&mut seed) % 400) as usize;
            let n = if round % 2 == 0 { n } else { n / 64 * 64 };
            let mut results = Vec::new();
            for isa in Isa::available() {
                let mut back = vec![0; n];
                let mut input = Reader::new(&noise);
                let result = decode(isa, &tables, &mut input, &mut back, &mut scratch);
                results.push(result.map(|()| (back, input.rest().len())));
            }
            assert!(results.windows(2).all(|w| w[0] == w[1]));
            taken += usize::from(results[0].is_ok());
        }
        assert!(taken > 0, "no noise was a stream");
    }
}
