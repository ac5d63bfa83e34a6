//! Every instruction set against the portable one, and every split against its inverse.

use super::*;

fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        })
        .collect()
}

/// The hand-written splits give the same as the plain ones at every length and alignment, and
/// merging undoes them.
#[test]
fn split_top_twins() {
    for width in [2, 4] {
        for n in (0..=4 * 64 + 3).chain([4096 + 5]) {
            let align = n % 64;
            let src = noise(n * width + align, n as u64);
            let src = &src[align..];
            let mut wanted = (vec![0; n], Vec::new());
            split_top(Isa::PORTABLE, width, src, &mut wanted.0, &mut wanted.1);
            for isa in Isa::available() {
                let mut got = (vec![9; n], Vec::new());
                split_top(isa, width, src, &mut got.0, &mut got.1);
                assert!(got == wanted, "{isa:?} splits {n} words of {width} otherwise");
                for streaming in [false, true] {
                    let mut back = vec![7; n * width + 128];
                    let start = back.as_ptr().align_offset(64) + if streaming { 0 } else { align };
                    let back = &mut back[start..][..n * width];
                    merge_top(isa, width, &got.0, &got.1, back, streaming);
                    assert!(back == src, "{isa:?} merges {n} words of {width} otherwise");
                }
            }
        }
    }
}

/// Words that are cut into fields at any place and composed again come back, for every width and
/// map.
#[test]
fn extract_then_compose() {
    for isa in Isa::available() {
        for width_log2 in 0..4_u8 {
            for map in [WordMap::None, WordMap::Rotate, WordMap::Zigzag] {
                let words = Words { width_log2, map };
                let bits = 8_u32 << width_log2;
                let n = 131;
                let src = noise(n << width_log2, u64::from(bits));
                let mut symbols = vec![0_u16; n];
                let symbol_bits = bits.min(11);
                extract16(
                    isa,
                    words,
                    &src,
                    bits - symbol_bits,
                    (1 << symbol_bits) - 1,
                    &mut symbols,
                );
                let mut planes = Vec::new();
                let mut left = bits - symbol_bits;
                while left > 0 {
                    let take = if left.is_multiple_of(8) { 8 } else { left % 8 };
                    left -= take;
                    let mut plane = vec![0; n];
                    extract8(isa, words, &src, left, (0xff_u16 >> (8 - take)) as u8, &mut plane);
                    planes.push((plane, left));
                }
                let mut parts = vec![WordField::Shorts(&symbols, u16::MAX, bits - symbol_bits)];
                parts.extend(
                    planes.iter().map(|(plane, shift)| WordField::Bytes(plane, 0xff, *shift)),
                );
                let mut back = vec![1; src.len()];
                compose(isa, words, &parts, &mut back);
                assert_eq!(back, src, "{isa:?} {words:?}");
            }
        }
    }
}

/// The wide split gives the same as the general one, and merging undoes it.
#[test]
fn wide_cuts() {
    for isa in Isa::available() {
        for (width_log2, map) in [(1, WordMap::Rotate), (2, WordMap::Rotate), (2, WordMap::None)] {
            for symbol_bits in 9..16_u8 {
                let words = Words { width_log2, map };
                let cut = WideCut { words, symbol_bits };
                let n = 4 * 32 + 3;
                let src = noise(n << width_log2, u64::from(symbol_bits));
                let (mut symbols, mut partial) = (vec![0; n], vec![0; n]);
                let mut pairs = Vec::new();
                let streaming = symbol_bits % 2 == 0;
                split_wide(isa, cut, &src, &mut symbols, &mut partial, &mut pairs, streaming);
                let bits = (8_u32 << width_log2) - u32::from(symbol_bits);
                let mut wanted = vec![0; n];
                extract16(isa, words, &src, bits, u16::MAX >> (16 - symbol_bits), &mut wanted);
                assert_eq!(symbols, wanted);
                for streaming in [false, true] {
                    let mut back = vec![1; src.len()];
                    merge_wide(isa, cut, &symbols, &partial, &pairs, &mut back, streaming);
                    assert_eq!(back, src, "{isa:?} {cut:?}");
                }
            }
        }
    }
}
