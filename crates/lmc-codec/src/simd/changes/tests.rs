use super::*;
use crate::simd::classes::BitString;
use lmc_testkit::data::Random;

/// Values of `width` bytes; about one in `one_in` differs from its base.
fn pair(random: &mut Random, width: usize, n: usize, one_in: usize) -> (Vec<u8>, Vec<u8>) {
    let base = random.bytes(n * width);
    let mut values = base.clone();
    for value in values.chunks_exact_mut(width) {
        if random.below(one_in) == 0 {
            value[random.below(width)] ^= 1 << random.below(8);
        }
    }
    (values, base)
}

const LENGTHS: [usize; 12] = [0, 1, 8, 63, 64, 65, 127, 128, 129, 200, 1000, 4096];

/// All instruction sets find, take and put back the same values.
#[test]
fn kernels_agree() {
    let mut random = Random::new(21);
    for width_log2 in 0..4 {
        let width = 1 << width_log2;
        for n in LENGTHS {
            for one_in in [1, 2, 5, 100] {
                let (values, base) = pair(&mut random, width, n, one_in);
                let found = |isa| {
                    let mut bits = vec![7; groups(n)];
                    let room = n * width + SLACK;
                    let (mut own, mut own_base) = (vec![0; room], vec![0; room]);
                    let taken = [&mut own[..], &mut own_base[..]];
                    let count = find(isa, width_log2, &values, &base, &mut bits, taken);
                    own.truncate(count * width);
                    own_base.truncate(count * width);
                    (bits, own, own_base)
                };
                let expected = found(Isa::PORTABLE);
                for isa in Isa::available() {
                    let what = format!("{isa:?}, {n} values of {width} bytes, one in {one_in}");
                    let (bits, mut own, own_base) = found(isa);
                    assert_eq!((&bits, &own, &own_base), (&expected.0, &expected.1, &expected.2));
                    let mut taken = vec![0; n * width + SLACK];
                    let count = take(isa, width_log2, &bits, &base, &mut taken);
                    assert_eq!(taken[..count * width], own_base, "{what}");
                    own.resize(own.len() + SLACK, 0xaa);
                    for streaming in [false, true] {
                        let mut dst = vec![0; n * width];
                        put(isa, width_log2, &bits, &own, &base, &mut dst, streaming);
                        assert_eq!(dst, values, "{what}");
                    }
                }
            }
        }
    }
    crate::simd::fence();
}

/// Bits are sorted by the exponents of the base and put back, with any bounds.
#[test]
fn sorted_bits_come_back() {
    let mut random = Random::new(22);
    for (width_log2, exponent_bits) in [(0, 4), (0, 5), (1, 5), (1, 8), (2, 8), (3, 11)] {
        for n in LENGTHS {
            for count in 0..8 {
                let base = random.bytes(n << width_log2);
                let mut bounds: Vec<u8> = (0..count).map(|_| 1 + random.below(255) as u8).collect();
                if random.below(2) == 0 {
                    bounds.iter_mut().for_each(|bound| *bound = 1 + *bound % 16);
                }
                bounds.sort_unstable();
                bounds.dedup();
                let exponent_first = random.below(1 << exponent_bits) as u16 / 2;
                let rule =
                    ContextRule { width_log2, exponent_bits, exponent_first, bounds: &bounds };
                let mut expected = vec![0; groups(n) * bounds.len()];
                masks(Isa::PORTABLE, rule, &base, &mut expected);
                let bytes = random.bytes(8 * groups(n));
                let mut bits: Vec<u64> =
                    bytes.as_chunks().0.iter().map(|&eight| u64::from_le_bytes(eight)).collect();
                if let Some(last) = bits.last_mut() {
                    *last &= valid(n, groups(n) - 1);
                }
                let lens = counts(Isa::best(), &expected, bounds.len(), n);
                assert_eq!(lens.iter().sum::<usize>(), n);
                for isa in Isa::available() {
                    let mut own = vec![1; expected.len()];
                    masks(isa, rule, &base, &mut own);
                    assert_eq!(own, expected, "{isa:?}, {n} values, {rule:?}");
                    let mut strings: Vec<BitString> = Vec::new();
                    strings.resize_with(bounds.len() + 1, BitString::default);
                    strings.iter_mut().for_each(|string| string.clear(n + 64));
                    sort(isa, &own, n, &bits, &mut strings);
                    let flags: Vec<Vec<u8>> = strings
                        .iter_mut()
                        .zip(&lens)
                        .map(|(string, len)| {
                            let mut flags = string.finish().to_vec();
                            assert_eq!(flags.len(), len.div_ceil(8));
                            flags.resize(flags.len() + FLAGS_PADDING, 0);
                            flags
                        })
                        .collect();
                    let mut back = vec![3; bits.len()];
                    unsort(isa, &own, n, &flags, &mut back);
                    assert_eq!(back, bits, "{isa:?}, {n} values, {rule:?}");
                }
            }
        }
    }
}
