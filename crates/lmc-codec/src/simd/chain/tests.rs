//! Every instruction set against the portable one.

use super::*;
use crate::simd::words::split_top;

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn tables() -> Vec<ChainTable> {
    let table = |widths: &[u8], symbols: &[u8]| {
        ChainTable::new(widths.to_vec(), symbols.to_vec()).expect("a valid table")
    };
    vec![
        table(&[1], &[7]),
        table(&[2], &[9, 8, 10]),
        table(&[2, 1, 1, 2], &[120, 121, 119, 118, 117, 116, 115, 114]),
        table(&[1; 12], &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        table(&[2; 4], &[0, 255, 128, 127, 1, 2, 200, 100, 50, 25, 12, 6]),
        table(&[2, 2, 1], &[250, 251, 252, 253, 254, 255, 249]),
        table(&[2], &[5, 5, 5]),
    ]
}

/// Bytes that mostly have symbols, the early symbols more often, and sometimes have none.
fn data(table: &ChainTable, n: usize, seed: &mut u64) -> Vec<u8> {
    let symbols = table.symbols();
    (0..n)
        .map(|_| {
            let r = xorshift(seed);
            match r % 31 {
                0 => (r >> 32) as u8,
                _ => symbols[((r >> 8).trailing_zeros() as usize).min(symbols.len() - 1)],
            }
        })
        .collect()
}

fn check(table: &ChainTable, src: &[u8]) {
    let tables = Tables::new(table);
    let mut scratch = Scratch::default();
    let mut wanted = Vec::new();
    encode(Isa::PORTABLE, &tables, src, &mut scratch, &mut wanted);
    for isa in Isa::available() {
        let mut out = vec![1, 2, 3];
        encode(isa, &tables, src, &mut scratch, &mut out);
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
        for n in (0..=4 * 64 + 3).chain([4095, 4096, 16384, 16391]) {
            check(&table, &data(&table, n, &mut seed));
        }
        check(&table, &[0xaa; 300]);
    }
}

/// The memory addresses of source and target do not matter.
#[test]
fn twins_agree_at_every_alignment() {
    let mut seed = 2;
    let table = &tables()[2];
    for shift in 0..64 {
        let src = data(table, shift + 333, &mut seed);
        check(table, &src[shift..]);
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
        encode(Isa::PORTABLE, &tables, &src, &mut scratch, &mut stream);
        for isa in Isa::available() {
            for len in 0..stream.len() {
                let mut back = vec![0; src.len()];
                let mut input = Reader::new(&stream[..len]);
                assert!(decode(isa, &tables, &mut input, &mut back, &mut scratch).is_err());
            }
        }
    }
}

/// Arbitrary bytes never make two instruction sets disagree.
#[test]
fn noise_reads_the_same_everywhere() {
    let mut seed = 4;
    for table in tables() {
        let tables = Tables::new(&table);
        let mut scratch = Scratch::default();
        for round in 0..300 {
            let noise: Vec<u8> = (0..round).map(|_| xorshift(&mut seed) as u8).collect();
            let n = (xorshift(&mut seed) % 400) as usize;
            let mut results = Vec::new();
            for isa in Isa::available() {
                let mut back = vec![0; n];
                let mut input = Reader::new(&noise);
                let result = decode(isa, &tables, &mut input, &mut back, &mut scratch);
                results.push(result.map(|()| (back, input.rest().len())));
            }
            assert!(results.windows(2).all(|w| w[0] == w[1]));
        }
    }
}

/// Words whose top bytes are those of [`data`], at an address moved by `shift`.
fn words(table: &ChainTable, width: usize, n: usize, shift: usize, seed: &mut u64) -> Vec<u8> {
    let mut all = vec![0; shift];
    for top in data(table, n, seed) {
        let noise = xorshift(seed) as u32;
        let word = (noise >> 8 | u32::from(top) << 24) >> (32 - 8 * width);
        match width {
            2 => all.extend((word as u16).rotate_right(1).to_le_bytes()),
            _ => all.extend(word.rotate_right(1).to_le_bytes()),
        }
    }
    all
}

/// Coding words in one pass gives the same as in two, and they are read back. This holds at every
/// length up to four vectors and three, at any address of input and output, and with or without the
/// caches.
#[test]
fn words_in_one_pass_or_two() {
    let mut seed = 5;
    let mut scratch = Scratch::default();
    for (table, width) in tables().iter().flat_map(|table| [(table, 2), (table, 4)]) {
        let tables = Tables::new(table);
        for n in (0..=4 * 64 + 3).chain([2048, 4096 + 5]) {
            let shift = n % 64;
            let src = words(table, width, n, shift, &mut seed);
            let src = &src[shift..];
            let mut top = vec![0; n];
            let mut wanted = vec![0xee; n % 67];
            let start = wanted.len();
            split_top(Isa::PORTABLE, width, src, &mut top, &mut wanted);
            encode(Isa::PORTABLE, &tables, &top, &mut scratch, &mut wanted);
            for (isa, streaming) in
                Isa::available().into_iter().flat_map(|isa| [(isa, false), (isa, true)])
            {
                let hints = Hints { streaming, ahead: &[] };
                let mut out = vec![0xee; start];
                encode_words(isa, width, &tables, src, &mut top, &mut scratch, &mut out, streaming);
                assert!(out == wanted, "{isa:?} writes {n} words of {width} otherwise");
                let mut input = Reader::new(&out[start..]);
                let records = input.take(n * (width - 1), "records").expect("records");
                let mut back = vec![7; shift + n * width];
                decode_words(
                    isa,
                    width,
                    &tables,
                    &mut input,
                    records,
                    &mut top,
                    &mut scratch,
                    &mut back[shift..],
                    hints,
                )
                .expect("decodes");
                input.finish("stream").expect("all read");
                assert!(back[shift..] == *src, "{isa:?} reads {n} words of {width} otherwise");
            }
        }
    }
}
