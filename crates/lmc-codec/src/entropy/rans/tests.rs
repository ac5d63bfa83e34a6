//! Streams in both directions, and tables that no stream may have.

use super::*;

struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bytes that follow the frequencies of `table`.
    fn bytes(&mut self, table: &RansTable, len: usize) -> Vec<u8> {
        let slots: Vec<u8> = (0..=255_u8)
            .flat_map(|s| vec![s; usize::from(table.freqs()[usize::from(s)])])
            .collect();
        (0..len).map(|_| slots[(self.next() >> 40) as usize % 4096]).collect()
    }
}

fn histogram(bytes: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for &byte in bytes {
        counts[usize::from(byte)] += 1;
    }
    counts
}

fn table_of(freqs: &[(u8, u16)]) -> RansTable {
    let mut all = [0; 256];
    for &(symbol, freq) in freqs {
        all[usize::from(symbol)] = freq;
    }
    RansTable::new(all).unwrap()
}

/// Tables: skewed, uniform, two symbols, one that dominates either way round, and one with a
/// frequency whose reciprocal must be rounded down.
fn tables() -> Vec<RansTable> {
    let mut skewed = [0; 256];
    for (i, count) in skewed.iter_mut().skip(100).take(60).enumerate() {
        *count = 1_000_000 >> (i / 3);
    }
    vec![
        build(&skewed).unwrap(),
        RansTable::new([16; 256]).unwrap(),
        table_of(&[(3, 2048), (200, 2048)]),
        table_of(&[(0, 4095), (255, 1)]),
        table_of(&[(7, 1), (8, 4095)]),
        table_of(&[(1, 2731), (2, 1000), (9, 365)]),
    ]
}

fn encode(isa: Isa, table: &RansTable, src: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa];
    assert!(Encoder::new(table).encode(isa, src, &mut out).is_ok());
    assert_eq!(out.remove(0), 0xaa);
    out
}

fn decode(isa: Isa, table: &RansTable, stream: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut dst = vec![0; len];
    let mut input = Reader::new(stream);
    Decoder::new(table).decode(isa, &mut input, &mut dst)?;
    input.finish("the stream")?;
    Ok(dst)
}

/// Decodes exactly as the format's text says; panics on a bad stream.
fn decode_by_the_text(table: &RansTable, stream: &[u8], len: usize) -> Vec<u8> {
    let mut input = Reader::new(stream);
    let words = input.varint("words").unwrap();
    let mut x: Vec<u32> =
        (0..32).map(|_| u32::from_le_bytes(input.array("state").unwrap())).collect();
    assert_eq!(input.rest().len() as u64, 2 * words);
    let mut out = Vec::new();
    for i in 0..len {
        let x = &mut x[i % 32];
        let (slot, mut below, mut symbol) = (*x % 4096, 0, 0_usize);
        while slot >= below + u32::from(table.freqs()[symbol]) {
            below += u32::from(table.freqs()[symbol]);
            symbol += 1;
        }
        *x = u32::from(table.freqs()[symbol]) * (*x / 4096) + slot - below;
        if *x < 1 << 16 {
            *x = *x << 16 | u32::from(input.u16("word").unwrap());
        }
        out.push(symbol as u8);
    }
    assert!(input.rest().is_empty() && x.iter().all(|&x| x == 1 << 16));
    out
}

fn check_all_isas(table: &RansTable, src: &[u8]) {
    let stream = encode(Isa::PORTABLE, table, src);
    assert_eq!(decode_by_the_text(table, &stream, src.len()), src);
    for isa in Isa::available() {
        assert_eq!(encode(isa, table, src), stream, "{isa:?} writes other bytes");
        assert_eq!(decode(isa, table, &stream, src.len()).as_deref(), Ok(src), "{isa:?}");
    }
}

/// All instruction sets write the same bytes, read them back, and agree with the format's text.
#[test]
fn all_isas_agree() {
    let mut random = XorShift(0x9e37_79b9_7f4a_7c15);
    for table in tables() {
        for len in (0..=260).chain([2047, 2048, 2049, 4096, 10_007, 131_072]) {
            check_all_isas(&table, &random.bytes(&table, len));
        }
    }
}

/// Bytes that the table does not expect still make a stream, though a much longer one: the room for
/// words grows as needed.
#[test]
fn unexpected_bytes_survive() {
    for (table, byte) in [(&tables()[3], 255), (&tables()[4], 7)] {
        for len in [1, 31, 32, 5_000, 50_000] {
            check_all_isas(table, &vec![byte; len]);
        }
        check_all_isas(table, &vec![if byte == 7 { 8 } else { 0 }; 100_000]);
    }
}

/// An empty stream has no words and 32 states of 2^16, as the format says.
#[test]
fn empty_stream_is_fixed() {
    let mut expected = vec![0];
    expected.extend([0, 0, 1, 0].repeat(32));
    for isa in Isa::available() {
        assert_eq!(encode(isa, &tables()[0], &[]), expected);
    }
}

/// Every truncation is an error, and bytes after a stream are left alone.
#[test]
fn ends_are_exact() {
    let table = &tables()[0];
    let src = XorShift(7).bytes(table, 150);
    let mut stream = encode(Isa::PORTABLE, table, &src);
    for isa in Isa::available() {
        for len in 0..stream.len() {
            assert!(decode(isa, table, &stream[..len], src.len()).is_err(), "{len} bytes");
        }
    }
    stream.extend([1, 2, 3]);
    for isa in Isa::available() {
        let (mut input, mut dst) = (Reader::new(&stream), vec![0; src.len()]);
        Decoder::new(table).decode(isa, &mut input, &mut dst).unwrap();
        assert_eq!(input.rest(), [1, 2, 3]);
    }
}

/// A flipped bit never makes a decoder panic, and all instruction sets agree on it.
#[test]
fn flipped_bits_are_harmless() {
    for table in tables() {
        let src = XorShift(99).bytes(&table, 333);
        let stream = encode(Isa::PORTABLE, &table, &src);
        for bit in 0..8 * stream.len() {
            let mut flipped = stream.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let expected = decode(Isa::PORTABLE, &table, &flipped, src.len());
            for isa in Isa::available() {
                assert_eq!(decode(isa, &table, &flipped, src.len()), expected, "bit {bit}");
            }
        }
    }
}

/// Random states and words never panic, whatever the lengths; nearly all are errors.
#[test]
fn noise_is_harmless() {
    let mut random = XorShift(12_345);
    for table in tables() {
        for round in 0..300 {
            let count = random.next() as usize % 200;
            let mut stream = Vec::new();
            varint::write(&mut stream, count as u64);
            stream.extend((0..STATES_LEN + 2 * count).map(|_| random.next() as u8 | 1));
            let len = if round % 2 == 0 { random.next() as usize % 1000 } else { 100_000 };
            let expected = decode(Isa::PORTABLE, &table, &stream, len);
            for isa in Isa::available() {
                assert_eq!(decode(isa, &table, &stream, len), expected);
            }
        }
    }
}

/// Low states, wrong final states, too many words and too few are all refused.
#[test]
fn bad_streams_are_refused() {
    let table = &tables()[0];
    let src = XorShift(5).bytes(table, 640);
    let good = encode(Isa::PORTABLE, table, &src);
    let mut low = good.clone();
    low[2..6].copy_from_slice(&0xffff_u32.to_le_bytes());
    let mut more = good.clone();
    more[0] += 1;
    more.extend([0, 0]);
    let mut fewer = good.clone();
    fewer[0] -= 1;
    fewer.truncate(good.len() - 2);
    let mut other = good.clone();
    *other.last_mut().unwrap() ^= 1;
    assert!(good[0] > 0x80 && good[0] < 0xff, "the count must have two bytes for this test");
    for isa in Isa::available() {
        assert!(decode(isa, table, &good, 640).is_ok());
        for bad in [&low, &more, &fewer, &other] {
            assert!(decode(isa, table, bad, 640).is_err());
        }
        assert!(decode(isa, table, &good, 639).is_err());
        assert!(decode(isa, table, &good, 641).is_err());
    }
}

/// A byte without a frequency is refused at any place and leaves `out` unchanged.
#[test]
fn absent_bytes_are_refused() {
    let table = &tables()[0];
    let encoder = Encoder::new(table);
    for len in [1, 32, 100, 5000] {
        for place in [0, len / 2, len - 1] {
            let mut src = XorShift(3).bytes(table, len);
            src[place] = 0;
            for isa in Isa::available() {
                let mut out = vec![1, 2, 3];
                assert!(encoder.encode(isa, &src, &mut out).is_err());
                assert_eq!(out, [1, 2, 3]);
            }
        }
    }
}

/// Extreme histograms give valid tables with every symbol in them; fewer than two give none.
#[test]
fn extreme_histograms_build() {
    assert_eq!(build(&[0; 256]), None);
    let mut counts = [0; 256];
    counts[9] = 77;
    assert_eq!(build(&counts), None);
    counts[10] = u32::MAX;
    assert_eq!(build(&counts), Some(table_of(&[(9, 1), (10, 4095)])));
    for dominant in [0, 1, 5, 255] {
        let mut counts = [1; 256];
        counts[dominant] = u32::MAX;
        let table = build(&counts).unwrap();
        assert_eq!(table.freqs()[dominant], 4096 - 255);
    }
    assert_eq!(build(&[u32::MAX; 256]), RansTable::new([16; 256]).ok());
    assert_eq!(build(&[1; 256]), RansTable::new([16; 256]).ok());
}

/// Moving one unit of frequency between any two symbols never lowers the cost.
#[test]
fn tables_cannot_be_bettered() {
    let mut random = XorShift(4711);
    for round in 0..60 {
        let mut counts = [0_u32; 256];
        let symbols = 2 + random.next() as usize % 100;
        for count in counts.iter_mut().take(symbols) {
            *count = 1 + (random.next() >> 40 >> (random.next() % (1 + round % 24))) as u32;
        }
        let table = build(&counts).unwrap();
        let cost = |freqs: &[u16; 256]| -> f64 {
            let bits = |(&f, &c): (&u16, &u32)| f64::from(c) * -(f64::from(f) / 4096.0).log2();
            freqs.iter().zip(&counts).filter(|&(_, &c)| c > 0).map(bits).sum()
        };
        let best = cost(table.freqs());
        for (up, down) in (0..symbols).flat_map(|a| (0..symbols).map(move |b| (a, b))) {
            let mut other = *table.freqs();
            if up != down && other[down] > 1 {
                (other[up], other[down]) = (other[up] + 1, other[down] - 1);
                // The logarithms have 20 fractional bits, hence the tolerance.
                let total: u64 = counts.iter().map(|&c| u64::from(c)).sum();
                assert!(cost(&other) > best - total as f64 / 200_000.0);
            }
        }
    }
}

/// The estimate is exact for powers of two, close to the real length, and `None` if a byte is not
/// in the table.
#[test]
fn estimates_hold() {
    let uniform = RansTable::new([16; 256]).unwrap();
    assert_eq!(cost_bits(&uniform, &[3; 256]), Some(8 * 3 * 256));
    assert_eq!(cost_bits(&uniform, &[u32::MAX; 256]), Some(8 * 256 * u64::from(u32::MAX)));
    assert_eq!(cost_bits(&tables()[2], &[1; 256]), None);
    for table in tables() {
        let src = XorShift(31).bytes(&table, 100_000);
        let estimate = cost_bits(&table, &histogram(&src)).unwrap() as f64 / 8.0;
        let real = encode(Isa::PORTABLE, &table, &src).len() as f64 - 131.0 + 32.0;
        assert!((real - estimate).abs() < 40.0 + estimate / 1000.0, "{real} for {estimate}");
    }
}
