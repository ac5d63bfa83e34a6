//! Canonical Huffman code in four parts (`docs/format.md`, section 5.3).
//!
//! In: a histogram, from which [`build`] makes a [`HuffmanTable`]; then bytes for [`Encoder`], or a
//! stream for [`Decoder`]. Out: the stream, or the bytes. Invariants: no code is longer than 12
//! bits. A code is in the stream with its first bit lowest. The four parts of a stream are
//! independent of each other, so that both directions can work on them in turn.

#[allow(clippy::indexing_slicing, reason = "sees only what its caller owns")]
mod build;
mod decode;
#[allow(clippy::indexing_slicing, reason = "sees only what its caller owns")]
mod encode;

pub use build::build;
pub(crate) use build::cost_bits;
pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;

use lmc_format::HuffmanTable;

/// Longest code in bits.
const BITS_MAX: usize = 12;

/// Parts of a stream.
const PARTS: usize = 4;

/// Code of each symbol as it is in the stream: the first bit of the code is bit 0.
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
fn stream_codes(table: &HuffmanTable) -> [u16; 256] {
    let mut counts = [0_u16; 16];
    for &length in table.lengths().iter().filter(|&&l| l > 0) {
        counts[usize::from(length & 15)] += 1;
    }
    let mut next = [0_u16; 16];
    for length in 1..16 {
        next[length] = next[length - 1].wrapping_add(counts[length - 1]) << 1;
    }
    let mut codes = [0; 256];
    for (code, &length) in codes.iter_mut().zip(table.lengths()).filter(|(_, l)| **l > 0) {
        let slot = &mut next[usize::from(length & 15)];
        *code = slot.reverse_bits() >> (16 - u32::from(length & 15));
        *slot = slot.wrapping_add(1);
    }
    codes
}

/// Symbols in each part of a stream of `n` symbols.
fn part_lengths(n: usize) -> [usize; PARTS] {
    let quarter = n.div_ceil(PARTS);
    std::array::from_fn(|j| quarter.min(n.saturating_sub(j.saturating_mul(quarter))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::{Reader, varint};

    /// A generator of test bytes; the same on every machine.
    struct Xorshift(u64);

    impl Xorshift {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// Bytes whose symbols get rarer by half each, or by less for a larger `spread`.
        fn skewed(&mut self, n: usize, spread: u32) -> Vec<u8> {
            let mut byte = || (self.next() >> 8).trailing_zeros() * spread;
            let firsts: Vec<u32> = (0..n).map(|_| byte()).collect();
            firsts.iter().map(|f| (f + (self.next() as u32 >> 7) % spread) as u8).collect()
        }
    }

    fn histogram(src: &[u8]) -> [u32; 256] {
        let mut histogram = [0; 256];
        src.iter().for_each(|&b| histogram[usize::from(b)] += 1);
        histogram
    }

    fn table_with_all(src: &[u8]) -> HuffmanTable {
        let mut counts = histogram(src);
        counts[0] += 1;
        counts[1] += 1;
        build(&counts).unwrap()
    }

    fn encoded(table: &HuffmanTable, src: &[u8]) -> Vec<u8> {
        let mut out = vec![0xaa; 3];
        assert!(Encoder::new(table).encode(src, &mut out).is_ok());
        assert_eq!(out[..3], [0xaa; 3]);
        out.split_off(3)
    }

    fn decoded(table: &HuffmanTable, stream: &[u8], n: usize) -> lmc_format::Result<Vec<u8>> {
        let mut dst = vec![0x55; n];
        let mut input = Reader::new(stream);
        Decoder::new(table).decode(&mut input, &mut dst)?;
        input.finish("the stream")?;
        Ok(dst)
    }

    /// Encodes and decodes; checks the cost and where the reader is left.
    fn check(table: &HuffmanTable, src: &[u8]) {
        let mut stream = encoded(table, src);
        let bits = cost_bits(table, &histogram(src)).unwrap() as usize;
        let header = parts_of(&stream).0;
        assert!(stream.len() - header >= bits.div_ceil(8));
        assert!(stream.len() - header <= bits.div_ceil(8) + 3);
        assert_eq!(decoded(table, &stream, src.len()).unwrap(), src);
        stream.extend([1, 2, 3]);
        let mut input = Reader::new(&stream);
        Decoder::new(table).decode(&mut input, &mut vec![0; src.len()]).unwrap();
        assert_eq!(input.rest(), [1, 2, 3]);
    }

    /// Length of a stream's header and the lengths of its parts.
    fn parts_of(stream: &[u8]) -> (usize, [usize; 4]) {
        let mut input = Reader::new(stream);
        let lengths = std::array::from_fn(|_| input.varint("part").unwrap() as usize);
        (stream.len() - input.rest().len(), lengths)
    }

    /// A stream made of the given parts.
    fn assemble(parts: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = Vec::new();
        parts.iter().for_each(|p| varint::write(&mut stream, p.len() as u64));
        parts.iter().for_each(|p| stream.extend(p));
        stream
    }

    /// The parts of a stream as owned bytes.
    fn disassemble(stream: &[u8]) -> Vec<Vec<u8>> {
        let (header, lengths) = parts_of(stream);
        let mut input = Reader::new(&stream[header..]);
        lengths.iter().map(|&l| input.take(l, "part").unwrap().to_vec()).collect()
    }

    /// The symbols of one part, read bit by bit as the format's text says; `None` where it says to
    /// reject.
    fn naive_part(table: &HuffmanTable, part: &[u8], n: usize) -> Option<Vec<u8>> {
        let mut order: Vec<u8> =
            (0..=255).filter(|&s| table.lengths()[usize::from(s)] > 0).collect();
        order.sort_by_key(|&s| (table.lengths()[usize::from(s)], s));
        let mut bits = part.iter().flat_map(|byte| (0..8).map(move |i| byte >> i & 1));
        let mut symbols = Vec::new();
        while symbols.len() < n {
            let (mut code, mut length, mut next, mut place) = (0_u32, 0, 0_u32, 0);
            loop {
                (code, length, next) = (code << 1 | u32::from(bits.next()?), length + 1, next << 1);
                let count =
                    order.iter().filter(|&&s| table.lengths()[usize::from(s)] == length).count();
                if code < next + count as u32 {
                    symbols.push(order[place + (code - next) as usize]);
                    break;
                }
                (next, place) = (next + count as u32, place + count);
            }
        }
        let padding: Vec<u8> = bits.collect();
        (padding.len() < 8 && padding.iter().all(|&bit| bit == 0)).then_some(symbols)
    }

    /// Good and bad streams are accepted or refused as by a decoder written from the text.
    #[test]
    fn agrees_with_a_naive_decoder() {
        let mut random = Xorshift(31);
        let (mut taken, mut refused) = (0, 0);
        for round in 0..3000 {
            let n = random.next() as usize % 400;
            let src = random.skewed(n, 1 + round % 6);
            let table = table_with_all(&src);
            let mut parts = disassemble(&encoded(&table, &src));
            for _ in 0..round % 4 {
                let at = random.next() as usize;
                let part = &mut parts[at % 4];
                match part.len() {
                    0 => part.push(0),
                    len => part[at / 4 % len] ^= 1 << (at >> 40 & 7),
                }
            }
            let naive: Option<Vec<Vec<u8>>> = std::iter::zip(&parts, part_lengths(n))
                .map(|(part, n)| naive_part(&table, part, n))
                .collect();
            let fast = decoded(&table, &assemble(&parts), n).ok();
            assert_eq!(fast, naive.map(|parts| parts.concat()));
            *if fast.is_some() { &mut taken } else { &mut refused } += 1;
        }
        assert!(taken > 500 && refused > 500, "{taken} {refused}");
    }

    /// Every small size and some large ones come back, for steep, mild and flat histograms.
    #[test]
    fn roundtrip_at_many_sizes() {
        let mut random = Xorshift(0x1234_5678_9abc_def1);
        for n in (0..=300).chain([1000, 4095, 4096, 4097, 65_536, 100_003]) {
            for spread in [1, 2, 5] {
                let src = random.skewed(n, spread);
                check(&table_with_all(&src), &src);
            }
            let src: Vec<u8> = (0..n).map(|_| random.next() as u8).collect();
            check(&table_with_all(&src), &src);
            let src: Vec<u8> = (0..n).map(|_| (random.next() >> 9) as u8 & 1).collect();
            check(&table_with_all(&src), &src);
            check(&table_with_all(&src), &vec![1; n]);
        }
    }

    /// Parts of very different density come back: they leave the shared loop at different times.
    #[test]
    fn roundtrip_of_uneven_parts() {
        let mut random = Xorshift(99);
        let mut src = vec![0; 30_000];
        src.extend((0..10_000).map(|_| random.next() as u8));
        check(&table_with_all(&src), &src);
        src.reverse();
        check(&table_with_all(&src), &src);
    }

    /// Codes at the length limit come back, also if the data uses only the rarest symbols.
    #[test]
    fn roundtrip_at_the_length_limit() {
        let mut counts = [0_u32; 256];
        (counts[0], counts[1]) = (1, 1);
        (2..40).for_each(|i| counts[i] = counts[i - 1] + counts[i - 2]);
        let table = build(&counts).unwrap();
        assert_eq!(table.lengths().iter().max(), Some(&12));
        check(&table, &vec![0; 10_001]);
        check(&table, &vec![39; 10_001]);
        let mut random = Xorshift(7);
        let src: Vec<u8> = (0..9_999).map(|_| (random.next() % 40) as u8).collect();
        check(&table, &src);
    }

    /// A hand-made stream matches the format: code order, bit order, parts, no bytes for n = 0.
    #[test]
    fn stream_is_as_the_format_says() {
        let mut lengths = [0; 256];
        (lengths[5], lengths[7], lengths[9]) = (2, 1, 2);
        let table = HuffmanTable::new(lengths).unwrap();
        assert_eq!(encoded(&table, &[]), [0, 0, 0, 0]);
        // Codes: 7 is 0, 5 is 10, 9 is 11; the first bit of a code goes lowest.
        assert_eq!(encoded(&table, &[5, 7, 9, 9, 7]), [1, 1, 1, 0, 0b001, 0b1111, 0b0]);
    }

    /// A byte without a code is refused in every position and leaves the output as it was.
    #[test]
    fn absent_symbols_are_refused() {
        let table = build(&histogram(&[1, 2, 2, 3])).unwrap();
        for n in [1, 2, 3, 4, 15, 16, 17, 64, 67] {
            for bad in 0..n {
                let mut src = vec![2; n];
                src[bad] = 4;
                let mut out = vec![9, 8];
                assert!(Encoder::new(&table).encode(&src, &mut out).is_err());
                assert_eq!(out, [9, 8]);
            }
        }
        assert_eq!(cost_bits(&table, &histogram(&[4])), None);
    }

    /// Every proper prefix of a stream is an error.
    #[test]
    fn truncation_is_an_error() {
        for n in [0, 1, 5, 64, 300] {
            let src = Xorshift(3).skewed(n, 3);
            let table = table_with_all(&src);
            let stream = encoded(&table, &src);
            for cut in 0..stream.len() {
                assert!(decoded(&table, &stream[..cut], n).is_err(), "{cut} of {n}");
            }
        }
    }

    /// A single flipped bit never makes the decoder panic, and one in the parts never gives the
    /// original bytes.
    #[test]
    fn bit_flips_never_panic() {
        let src = Xorshift(11).skewed(600, 3);
        let table = table_with_all(&src);
        let stream = encoded(&table, &src);
        for bit in 0..stream.len() * 8 {
            let mut wrong = stream.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(decoded(&table, &wrong, src.len()).ok().as_ref(), Some(&src));
        }
    }

    /// Random bytes instead of a stream never make the decoder panic.
    #[test]
    fn random_streams_never_panic() {
        let mut random = Xorshift(23);
        let table = table_with_all(&random.skewed(5000, 4));
        for n in (0..2000).step_by(7) {
            let len = random.next() as usize % (n / 8 + 9);
            let parts: Vec<Vec<u8>> =
                (0..4).map(|_| (0..len).map(|_| random.next() as u8).collect()).collect();
            let _ = decoded(&table, &assemble(&parts), n);
            let _ = decoded(&table, &parts[0], n);
        }
    }

    /// A set padding bit is refused, in each part.
    #[test]
    fn padding_must_be_zero() {
        for n in [7, 40, 500] {
            let src = vec![1; n];
            let table = build(&histogram(&[0, 1, 1, 2])).unwrap();
            let parts = disassemble(&encoded(&table, &src));
            for (j, symbols) in part_lengths(n).into_iter().enumerate() {
                for bit in (symbols % 8..8).filter(|_| symbols % 8 > 0) {
                    let mut wrong = parts.clone();
                    *wrong[j].last_mut().unwrap() |= 1 << bit;
                    assert!(decoded(&table, &assemble(&wrong), n).is_err(), "{n} {j} {bit}");
                }
            }
        }
    }

    /// A part with a byte more or less than its bits need is refused, as are moved borders.
    #[test]
    fn part_lengths_must_fit() {
        for n in [5, 64, 1000] {
            let src = Xorshift(5).skewed(n, 2);
            let table = table_with_all(&src);
            let parts = disassemble(&encoded(&table, &src));
            for j in 0..4 {
                let mut longer = parts.clone();
                longer[j].push(0);
                assert!(decoded(&table, &assemble(&longer), n).is_err());
                longer[j].extend([0; 20]);
                assert!(decoded(&table, &assemble(&longer), n).is_err());
                let mut shorter = parts.clone();
                if shorter[j].pop().is_some() {
                    assert!(decoded(&table, &assemble(&shorter), n).is_err());
                }
            }
            let mut moved = parts.clone();
            let byte = moved[0].pop().unwrap();
            moved[1].insert(0, byte);
            assert!(decoded(&table, &assemble(&moved), n).is_err());
        }
    }

    /// Lengths that do not fit memory are refused, not added up.
    #[test]
    fn huge_part_lengths_are_refused() {
        let table = build(&histogram(&[0, 1])).unwrap();
        let mut stream = Vec::new();
        (0..4).for_each(|_| varint::write(&mut stream, u64::MAX));
        assert!(decoded(&table, &stream, 8).is_err());
    }
}
