//! All kernels give the same results as safe Rust.

use super::*;
use crate::simd::classes::BitString;
use lmc_format::Bin;
use lmc_testkit::data::Random;

/// Rules with random bins and rows.
fn rules(random: &mut Random, width_log2: u8, raw_bytes: u8, exponent_bits: u8) -> BinRules {
    let is_integer = random.below(3) == 0;
    let bins = (0..1 + random.below(32)).map(|_| {
        let shift = random.below(9) as u8;
        let has_flip_bit = shift < 8 && random.below(3) == 0 && !is_integer;
        Bin { shift, has_flip_bit, centre: random.below(13) as i8 - 6 }
    });
    let bins: Vec<Bin> = bins.collect();
    let count = random.below(9).min(bins.len());
    let bounds = (1..count).map(|i| (i * bins.len() / count) as u8).collect();
    let row = |_| {
        let mut row: [u8; 16] = std::array::from_fn(|i| i as u8);
        (1..16).for_each(|i| row.swap(i, random.below(i + 1)));
        row
    };
    let rows = (0..count).map(row).collect();
    let exponent_first = random.below(1 << exponent_bits) as u16;
    BinRules {
        width_log2,
        is_integer,
        raw_bytes,
        segment_log2: 14,
        exponent_bits,
        exponent_first,
        bins,
        bounds,
        rows,
    }
}

/// Tables of `rules`; some of them make more exceptions than necessary.
fn tables(random: &mut Random, rules: &BinRules, is_changed: bool) -> Tables {
    if is_changed {
        return Tables::of_changes(rules);
    }
    let mut ends = || random.below(112) as i8 - 56;
    let reach: [Reach; BINS] = std::array::from_fn(|_| [(ends(), ends()), (ends(), ends())]);
    let tables = Tables::new(rules);
    if random.below(2) == 0 { tables } else { tables.with_reach(|bin| reach[bin]) }
}

/// Values at all distances from their base, in words of one width. If `is_changed`, none is equal
/// to its base.
fn pair(random: &mut Random, width: usize, n: usize, is_changed: bool) -> (Vec<u8>, Vec<u8>) {
    let base = random.bytes(n * width);
    let mut values = Vec::with_capacity(base.len());
    for word in base.chunks_exact(width) {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(word);
        let distance = random.next_u64() >> random.below(64);
        let apart = u64::from_le_bytes(bytes).wrapping_add(distance).wrapping_sub(distance / 2);
        let flip = u64::from(random.below(8) == 0) << (8 * width - 1);
        let is_same = (apart ^ flip).to_le_bytes()[..width] == *word;
        let other = u64::from(is_same && is_changed);
        values.extend_from_slice(&(apart ^ flip ^ other).to_le_bytes()[..width]);
    }
    (values, base)
}

struct Cut {
    plane: Vec<u8>,
    records: Vec<u8>,
    payload: Vec<u8>,
    exceptions: Vec<u8>,
}

fn cut_with(isa: Isa, tables: &Tables, values: &[u8], base: &[u8]) -> Cut {
    cut_by(tables, values.len(), |parts| cut(isa, tables, values, base, parts))
}

/// The result of `cut` on `len` bytes.
fn cut_by(tables: &Tables, len: usize, cut: impl FnOnce(Parts)) -> Cut {
    let n = len / tables.width();
    let (mut plane, mut records) = (vec![0; n], vec![0; n * tables.raw_bytes()]);
    let (mut string, mut exceptions) = (BitString::default(), Vec::new());
    string.clear(8 * n);
    cut(Parts {
        plane: &mut plane,
        records: &mut records,
        payload: &mut string,
        exceptions: &mut exceptions,
    });
    Cut { plane, records, payload: string.finish().to_vec(), exceptions }
}

fn join_with(isa: Isa, tables: &Tables, base: &[u8], cut: &Cut) -> Result<Vec<u8>> {
    let mut back = vec![0xa5; base.len()];
    let payload = padded(cut);
    join(isa, tables, base, joined(cut, &payload), &mut back, Hints::default()).map(|()| back)
}

/// The payload followed by zeros.
fn padded(cut: &Cut) -> Vec<u8> {
    let mut payload = cut.payload.clone();
    payload.resize(cut.plane.len().max(payload.len()) + PADDING, 0);
    payload
}

fn joined<'a>(cut: &'a Cut, payload: &'a [u8]) -> Joined<'a> {
    Joined {
        plane: &cut.plane,
        records: &cut.records,
        payload,
        payload_len: cut.payload.len(),
        exceptions: &cut.exceptions,
    }
}

/// Groups are cut and joined like single values, whatever the symbols are.
#[test]
fn groups_agree() {
    let mut random = Random::new(14);
    for round in 0..600 {
        let (width_log2, exponent_bits) = [(0, 4), (1, 8), (2, 8), (3, 11)][round % 4];
        let raw_bytes = random.below(1 << width_log2) as u8;
        let rules = rules(&mut random, width_log2, raw_bytes, exponent_bits);
        let is_changed = random.below(2) == 0;
        let tables = tables(&mut random, &rules, is_changed);
        let n = GROUP * (1 + random.below(5));
        let (values, base) = pair(&mut random, 1 << width_log2, n, is_changed);
        let each = |mut parts: Parts| portable::cut(&tables, &values, &base, &mut parts);
        let grouped = |mut parts: Parts| groups::cut(&tables, &values, &base, &mut parts);
        let expected = cut_by(&tables, values.len(), each);
        let mut own = cut_by(&tables, values.len(), grouped);
        assert_eq!(own.plane, expected.plane, "{rules:?}");
        assert_eq!(own.records, expected.records, "{rules:?}");
        assert_eq!(own.payload, expected.payload, "{rules:?}");
        assert_eq!(own.exceptions, expected.exceptions, "{rules:?}");
        if random.below(2) == 0 {
            own.plane = random.bytes(n);
        }
        let payload = padded(&own);
        let parts = joined(&own, &payload);
        let (mut expected, mut back) = (vec![0; base.len()], vec![0; base.len()]);
        let each = portable::join(&tables, &base, parts, Progress::default(), &mut expected);
        let each = each.map(|done| (done.values, done.bits, done.exceptions));
        let grouped = groups::join(&tables, &base, parts, &mut back);
        let grouped = grouped.map(|done| (done.values, done.bits, done.exceptions));
        assert_eq!(grouped.is_ok(), each.is_ok(), "{rules:?}");
        if each.is_ok() {
            assert_eq!(grouped.ok(), each.ok(), "{rules:?}");
            assert_eq!(back, expected, "{rules:?}");
        }
    }
}

/// Every width, number of raw bytes and exponent, at lengths around those of vectors: every
/// instruction set cuts the same as safe Rust, and joining gives the values back.
#[test]
fn kernels_agree() {
    let mut random = Random::new(11);
    let shapes = [(0, 4), (0, 5), (1, 5), (1, 8), (2, 8), (3, 11)];
    for (width_log2, exponent_bits) in shapes {
        for raw_bytes in 0..1 << width_log2 {
            for n in [0, 1, 31, 32, 63, 64, 65, 127, 128, 1000, 4096] {
                let rules = rules(&mut random, width_log2, raw_bytes, exponent_bits);
                let is_changed = random.below(2) == 0;
                let tables = tables(&mut random, &rules, is_changed);
                let (values, base) = pair(&mut random, 1 << width_log2, n, is_changed);
                let expected = cut_with(Isa::PORTABLE, &tables, &values, &base);
                for isa in Isa::available() {
                    let what = format!("{isa:?}, {n} values, {rules:?}");
                    let own = cut_with(isa, &tables, &values, &base);
                    assert_eq!(own.plane, expected.plane, "{what}");
                    assert_eq!(own.records, expected.records, "{what}");
                    assert_eq!(own.payload, expected.payload, "{what}");
                    assert_eq!(own.exceptions, expected.exceptions, "{what}");
                    assert_eq!(join_with(isa, &tables, &base, &own).unwrap(), values, "{what}");
                }
            }
        }
    }
}

/// Contexts are those of the bins of the base, with every instruction set.
#[test]
fn contexts_agree() {
    let mut random = Random::new(13);
    for round in 0..200 {
        let (width_log2, exponent_bits) = [(0, 4), (1, 8), (2, 8), (3, 11)][round % 4];
        let rules = rules(&mut random, width_log2, 0, exponent_bits);
        let tables = Tables::new(&rules);
        let bounds: Vec<u8> = (1..=40).filter(|_| random.below(3) == 0).take(15).collect();
        let n = random.below(300);
        let base = random.bytes(n << width_log2);
        let expected: Vec<u8> = base
            .chunks_exact(1 << width_log2)
            .map(|value| {
                let mut bytes = [0; 8];
                bytes[8 - value.len()..].copy_from_slice(value);
                let exponent = u64::from_le_bytes(bytes) << 1 >> (64 - exponent_bits);
                let bin = exponent.saturating_sub(rules.exponent_first.into());
                let bin = bin.min(rules.bins.len() as u64 - 1);
                bounds.iter().filter(|&&bound| u64::from(bound) <= bin).count() as u8
            })
            .collect();
        for isa in Isa::available() {
            let mut own = vec![0xff; n];
            contexts(isa, &tables, &bounds, &base, &mut own);
            assert_eq!(own, expected, "{isa:?}, {rules:?}, {bounds:?}");
        }
    }
}

/// Whatever the symbols and payloads are, every instruction set gives the same values or refuses.
#[test]
fn kernels_agree_on_hostile_parts() {
    let mut random = Random::new(12);
    for round in 0..600 {
        let (width_log2, exponent_bits) = [(0, 4), (1, 8), (2, 8)][round % 3];
        let raw_bytes = random.below(1 << width_log2) as u8;
        let rules = rules(&mut random, width_log2, raw_bytes, exponent_bits);
        let is_changed = random.below(2) == 0;
        let tables = tables(&mut random, &rules, is_changed);
        let n = random.below(300);
        let (values, base) = pair(&mut random, 1 << width_log2, n, is_changed);
        let mut cut = cut_with(Isa::PORTABLE, &tables, &values, &base);
        if random.below(2) == 0 {
            cut.plane = random.bytes(n);
            let count = cut.plane.iter().filter(|&&symbol| symbol == EXCEPTION).count();
            cut.exceptions = random.bytes(count * tables.exception_len());
        }
        match random.below(4) {
            0 => cut.exceptions.truncate(cut.exceptions.len() / 2),
            1 => cut.exceptions.push(1),
            2 => cut.payload.truncate(random.below(cut.payload.len() + 1)),
            _ => {}
        }
        let expected = join_with(Isa::PORTABLE, &tables, &base, &cut).map_err(|e| e.to_string());
        for isa in Isa::available() {
            let own = join_with(isa, &tables, &base, &cut).map_err(|e| e.to_string());
            assert_eq!(own, expected, "{isa:?}, {rules:?}");
        }
    }
}
