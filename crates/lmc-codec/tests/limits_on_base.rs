//! Memory of blocks on a base: what they claim is checked before anything is paid for it.

use crate::common::hostile::{KIB, MIB, block, chain, decode_against, decode_bound, level_len};
use lmc_codec::Isa;
use lmc_codec::internals::RansEncoder;
use lmc_format::limits::SEGMENT_LOG2_MAX;
use lmc_format::{
    Bin, BinRecipe, BinRules, ChangeRecipe, Coder, ContextTables, FlagContexts, RansTable,
    SymbolCoder, varint,
};

/// A recipe with one bin, whose payloads are as long as they can be.
fn bin_rules(width_log2: u8, raw_bytes: u8, segment_log2: u8) -> BinRules {
    let bins = vec![Bin { shift: 8, has_flip_bit: false, centre: 0 }];
    let (bounds, rows) = (Vec::new(), Vec::new());
    let (exponent_bits, exponent_first) = (7, 0);
    BinRules {
        width_log2,
        is_integer: false,
        raw_bytes,
        segment_log2,
        exponent_bits,
        exponent_first,
        bins,
        bounds,
        rows,
    }
}

/// The same with a coder of symbols.
fn bin_recipe(width_log2: u8, raw_bytes: u8, segment_log2: u8, coder: Coder) -> BinRecipe {
    let rules = bin_rules(width_log2, raw_bytes, segment_log2);
    BinRecipe { rules, symbols: SymbolCoder::One(coder) }
}

/// The same with as many contexts of flags as there can be, which are all in use.
fn change_recipe(rules: BinRules, flags: Coder) -> ChangeRecipe {
    let contexts =
        FlagContexts { bounds: (1..8).map(|i| 16 * i).collect(), coders: vec![flags; 8] };
    let (coder, changed) = (chain(), contexts.clone());
    ChangeRecipe { rules, coder, has_lengths: false, changed, uncommon: Some(contexts) }
}

/// A base of `n` values whose exponents are in all contexts of [`change_recipe`], as many in each,
/// but for the last few.
fn base_in_contexts(n: usize, width: usize) -> Vec<u8> {
    let mut base = vec![0; n * width];
    for (i, value) in base.chunks_exact_mut(width).enumerate() {
        value[width - 1] = 16 * (i % 8) as u8;
    }
    base
}

/// Blocks by bins, with the longest payloads there can be, hold no more than other blocks do.
#[test]
fn bins_are_bounded_by_the_output() {
    for raw_len in [0, 1, 1000, 64 * KIB, MIB, 8 * MIB] {
        let base = vec![0; raw_len];
        for width_log2 in 0..4 {
            let width = 1 << width_log2;
            let mut body = Vec::new();
            bin_recipe(width_log2, 0, SEGMENT_LOG2_MAX, chain()).write(&mut body);
            body.resize(body.len() + raw_len % width, 0);
            let (n, most) = (raw_len / width, 1 << SEGMENT_LOG2_MAX);
            let lengths: Vec<usize> = (0..n).step_by(most).map(|i| (n - i).min(most)).collect();
            // No exceptions, the symbols, and a byte of payload for each.
            let segment_len = |n: usize| 1 + level_len(n) + n;
            for &n in &lengths {
                body.extend_from_slice(&(segment_len(n) as u32).to_le_bytes()[..3]);
            }
            let coded: usize = lengths.iter().map(|&n| segment_len(n)).sum();
            body.resize(body.len() + coded, 0);
            let block = block(2, raw_len as u64, &body);
            for isa in Isa::available() {
                let (done, held, _) = decode_against(isa, &block, Some(&base), raw_len);
                assert!(done, "{raw_len} bytes of width {width} are refused");
                assert!(held <= decode_bound(raw_len), "{raw_len} of width {width} hold {held}");
            }
        }
    }
}

/// Symbols by context, with as many tables as there can be, hold no more than other blocks do.
#[test]
fn symbols_by_context_are_bounded_by_the_output() {
    let mut freqs = [0; 256];
    (freqs[0], freqs[0x40]) = (4000, 96);
    let table = RansTable::new(freqs).expect("frequencies");
    let tables = ContextTables::new((1..16).collect(), vec![table; 16]).expect("tables");
    let encoder = RansEncoder::by_context(&tables);
    for raw_len in [0, 1000, 64 * KIB, MIB, 8 * MIB] {
        let base = vec![0; raw_len];
        for width_log2 in 0..4 {
            let rules = bin_rules(width_log2, 0, SEGMENT_LOG2_MAX);
            let symbols = SymbolCoder::ByContext(tables.clone());
            let mut body = Vec::new();
            BinRecipe { rules, symbols }.write(&mut body);
            let (n, most) = (raw_len >> width_log2, 1 << SEGMENT_LOG2_MAX);
            // No exceptions, the symbols, and a byte of payload for each.
            let segment = |n: usize| {
                let (mut out, zeros) = (vec![0], vec![0; n]);
                assert!(encoder.encode_by_context(Isa::best(), &zeros, &zeros, &mut out).is_ok());
                [out, zeros].concat()
            };
            let segments: Vec<Vec<u8>> =
                (0..n).step_by(most).map(|i| segment((n - i).min(most))).collect();
            for segment in &segments {
                body.extend_from_slice(&(segment.len() as u32).to_le_bytes()[..3]);
            }
            body.extend(segments.concat());
            let block = block(2, raw_len as u64, &body);
            for isa in Isa::available() {
                let (done, held, _) = decode_against(isa, &block, Some(&base), raw_len);
                assert!(done, "{raw_len} bytes of width 2^{width_log2} are refused");
                let bound = decode_bound(raw_len);
                assert!(held <= bound, "{raw_len} of width 2^{width_log2} hold {held}");
            }
        }
    }
}

/// Blocks by changes of which every value differs, with as many contexts as there can be and the
/// longest payloads, stay below their bound.
#[test]
fn changes_are_bounded_by_the_output() {
    for raw_len in [0, 1, 1000, 64 * KIB, 512 * KIB, MIB, 8 * MIB] {
        for width_log2 in 0..4 {
            let width = 1 << width_log2;
            let (n, most) = (raw_len / width, 1 << SEGMENT_LOG2_MAX);
            let mut base = base_in_contexts(n, width);
            base.resize(raw_len, 0);
            let mut body = Vec::new();
            let rules = bin_rules(width_log2, 0, SEGMENT_LOG2_MAX);
            change_recipe(rules, Coder::Runs).write(&mut body);
            body.resize(body.len() + raw_len % width, 0);
            let segments: Vec<Vec<u8>> =
                (0..n).step_by(most).map(|i| every_change((n - i).min(most))).collect();
            for segment in &segments {
                body.extend_from_slice(&(segment.len() as u32).to_le_bytes()[..3]);
            }
            body.extend(segments.concat());
            let block = block(2, raw_len as u64, &body);
            for isa in Isa::available() {
                let (done, held, _) = decode_against(isa, &block, Some(&base), raw_len);
                assert!(done, "{raw_len} bytes of width {width} are refused");
                assert!(held <= change_bound(raw_len), "{raw_len} of width {width} hold {held}");
            }
        }
    }
}

/// The most that decoding changes into `raw_len` bytes may hold.
///
/// The worst case is that of bytes: for each, masks of two times seven contexts (7/4), two times
/// its flag in its place and in its context and once in a byte for eight (5/8), the values that
/// differ and their bases (2), the symbols and those that are not 0 (2), the payload (1) and the
/// two buffers of the chain (2). A segment of 2^18 values of 8 bytes takes 23.4 for each.
fn change_bound(raw_len: usize) -> usize {
    (raw_len * 19 / 2).min(raw_len + 5 * MIB) + 2 * MIB
}

/// A segment by changes of `n` values with the base of [`base_in_contexts`]: all have both flags,
/// the symbol that the chain has first, and a byte of payload.
fn every_change(n: usize) -> Vec<u8> {
    let mut flags = Vec::new();
    for context in 0..8 {
        let own = (n + 7 - context) / 8;
        if own >= 8 {
            varint::write(&mut flags, (own as u64 / 8 - 1) << 1 | 1);
            flags.push(0xff);
        }
        if !own.is_multiple_of(8) {
            flags.extend_from_slice(&[0, 0xff >> (8 - own % 8)]);
        }
    }
    // Between the flags there are no exceptions.
    let rest = vec![0; level_len(n) + n];
    [&flags[..], &[0], &flags, &rest].concat()
}

/// Flags whose stream says that it is longer than the segment is are refused before anything is
/// held for them.
#[test]
fn flags_without_bytes_are_refused() {
    let base = base_in_contexts(KIB, 2);
    for len in [2, KIB as u64, 1 << 32, 1 << 63, u64::MAX] {
        let rules = bin_rules(1, 0, 10);
        let recipe = ChangeRecipe { has_lengths: true, ..change_recipe(rules, Coder::Raw) };
        let mut body = Vec::new();
        recipe.write(&mut body);
        let mut segment = Vec::new();
        varint::write(&mut segment, len);
        segment.push(0xff);
        body.extend_from_slice(&[segment.len() as u8, 0, 0]);
        body.extend(segment);
        let block = block(2, base.len() as u64, &body);
        for isa in Isa::available() {
            let (done, held, _) = decode_against(isa, &block, Some(&base), base.len());
            assert!(!done, "flags of {len} bytes are taken");
            assert!(held <= 64 * KIB, "flags of {len} bytes hold {held}");
        }
    }
}

/// More exceptions than a segment has bytes for, up to as many as a number can say, are refused
/// before anything is held for them, whatever a listed one takes.
#[test]
fn exceptions_without_bytes_are_refused() {
    let base = vec![0; 8 * KIB];
    for (width_log2, raw_bytes) in [(0, 0), (1, 0), (1, 1), (2, 1), (3, 0), (3, 5)] {
        let width = 1 << width_log2;
        let mut recipe = Vec::new();
        bin_recipe(width_log2, raw_bytes, 10, Coder::Constant(0x40)).write(&mut recipe);
        for count in [257, KIB as u64, 1 << 32, 1 << 61, 1 << 63, u64::MAX] {
            let mut segment = vec![0; 256 * usize::from(raw_bytes)];
            varint::write(&mut segment, count);
            segment.resize(segment.len() + 256 * (width - usize::from(raw_bytes)) + 256, 0);
            let len = (segment.len() as u32).to_le_bytes();
            let block = block(2, 256 * width as u64, &[&recipe, &len[..3], &segment].concat());
            for isa in Isa::available() {
                let base = &base[..256 * width];
                let (done, held, _) = decode_against(isa, &block, Some(base), base.len());
                assert!(!done, "{count} exceptions of 256 values of {width} bytes are taken");
                assert!(held <= 64 * KIB, "{count} exceptions hold {held}");
            }
        }
    }
}
