//! How the values of a tensor differ from those of its base.
//!
//! Stretches of 64 bytes that are equal are passed over. In the others, each word is counted once
//! by its XOR with the base, and once by the length of its difference and the exponent of the base.

use super::classes::{CLASS_BITS, Classes, SMALLER, index};
use super::table::Lanes;
use super::{Order, Words};
use std::hint::black_box;

/// Bytes that are compared in one go.
const STRETCH: usize = 64;
/// Bytes of a value below its highest two.
const LOW_MAX: usize = 6;
/// Indexes of classes of the widest words: 11 bits of exponent.
const WIDE_CELLS: usize = 1 << (11 + CLASS_BITS);

/// What changed in a tensor, or in a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeTally {
    /// Values that were compared.
    pub values: u64,
    /// Values with the same bits.
    pub unchanged: u64,
    /// Floats whose exponent changed.
    pub exponent_changed: u64,
    /// The bytes of the XOR, the lowest first.
    pub xor: Vec<[u64; 256]>,
    pub classes: Classes,
}

impl ChangeTally {
    pub(crate) fn new(words: Words) -> Self {
        let (xor, classes) = (vec![[0; 256]; words.width], Classes::default());
        Self { values: 0, unchanged: 0, exponent_changed: 0, xor, classes }
    }

    /// Both together.
    pub(crate) fn add(&mut self, other: &Self) {
        self.values += other.values;
        self.unchanged += other.unchanged;
        self.exponent_changed += other.exponent_changed;
        let own = self.xor.iter_mut().flatten();
        own.zip(other.xor.iter().flatten()).for_each(|(sum, count)| *sum += count);
        self.classes.add_all(&other.classes);
    }

    /// How many values differ in each bit, the lowest first.
    pub(crate) fn flipped(&self) -> Vec<u64> {
        let bit = |plane: &[u64; 256], bit: usize| {
            plane.iter().enumerate().filter(|(byte, _)| byte >> bit & 1 == 1).map(|(_, n)| n).sum()
        };
        self.xor.iter().flat_map(|plane| (0..8).map(move |i| bit(plane, i))).collect()
    }
}

/// Compares words; one for each thread.
#[derive(Debug)]
pub(crate) struct ChangeCounter {
    /// By the highest 16 bits of the XOR; for words of one byte by both words.
    top: Lanes<4>,
    /// By each byte below these.
    low: [[[u32; 256]; 2]; LOW_MAX],
    /// By exponent and class.
    classes: Lanes<2>,
    /// The same for words of eight bytes.
    wide: Vec<u32>,
    /// Words without a change in stretches that were not passed over, of four bytes and more.
    zeros: u64,
    /// Words in stretches that were passed over.
    equal: u64,
    /// Words that were compared.
    values: u64,
}

impl ChangeCounter {
    pub(crate) fn new() -> Self {
        Self {
            top: Lanes::new(),
            low: [[[0; 256]; 2]; LOW_MAX],
            classes: Lanes::new(),
            wide: Vec::new(),
            zeros: 0,
            equal: 0,
            values: 0,
        }
    }

    /// Compares a part of a tensor with the same part of its base.
    pub(crate) fn compare(&mut self, words: Words, new: &[u8], old: &[u8]) {
        let (new_stretches, new_rest) = new.as_chunks::<STRETCH>();
        let (old_stretches, old_rest) = old.as_chunks::<STRETCH>();
        let mut equal = self.compare_all(words, new_stretches, old_stretches);
        if !new_rest.is_empty() {
            let (mut last_new, mut last_old) = ([0; STRETCH], [0; STRETCH]);
            last_new[..new_rest.len()].copy_from_slice(new_rest);
            last_old[..old_rest.len()].copy_from_slice(old_rest);
            equal += self.compare_all(words, &[last_new], &[last_old]);
            // Less the words that fill it up, which may not be counted yet.
            equal = equal.wrapping_sub(((STRETCH - new_rest.len()) / words.width) as u64);
        }
        self.equal = self.equal.wrapping_add(equal);
        self.values += (new.len() / words.width) as u64;
    }

    /// Compares stretches; returns the number of words in those that are equal.
    fn compare_all(&mut self, words: Words, new: &[[u8; STRETCH]], old: &[[u8; STRETCH]]) -> u64 {
        let (shift, mask) = words.exponent_in_top();
        let pairs = new.iter().zip(old);
        match (words.width, words.order) {
            (1, _) => self.compare_1(pairs),
            (2, Order::Float) => self.compare_2(
                pairs,
                |word| {
                    let sign = word as i16 >> 15;
                    ((word & 0x7fff) as i16 ^ sign).wrapping_sub(sign)
                },
                shift,
                mask,
            ),
            (2, Order::Signed) => self.compare_2(pairs, |word| word as i16, 0, 0),
            (2, Order::Unsigned) => self.compare_2(pairs, |word| (word ^ 0x8000) as i16, 0, 0),
            (4, Order::Float) => self.compare_4(
                pairs,
                |word| {
                    let sign = word as i32 >> 31;
                    ((word & 0x7fff_ffff) as i32 ^ sign).wrapping_sub(sign)
                },
                shift + 16,
                u32::from(mask),
            ),
            (4, Order::Signed) => self.compare_4(pairs, |word| word as i32, 0, 0),
            (4, Order::Unsigned) => self.compare_4(pairs, |word| (word ^ 0x8000_0000) as i32, 0, 0),
            _ => self.compare_8(words, pairs),
        }
    }

    fn compare_1<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8; STRETCH], &'a [u8; STRETCH])>,
    ) -> u64 {
        let [a, b, c, d] = &mut self.top.parts;
        let mut equal = 0;
        for (new, old) in pairs {
            if are_equal(new, old) {
                equal += STRETCH as u64;
                continue;
            }
            for i in (0..STRETCH).step_by(4) {
                let both = |i: usize| usize::from(u16::from_be_bytes([old[i], new[i]]));
                a[both(i)] += 1;
                b[both(i + 1)] += 1;
                c[both(i + 2)] += 1;
                d[both(i + 3)] += 1;
            }
        }
        equal
    }

    fn compare_2<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8; STRETCH], &'a [u8; STRETCH])>,
        ordered: impl Fn(u16) -> i16,
        shift: u32,
        mask: u16,
    ) -> u64 {
        const COUNT: usize = STRETCH / 2;
        let [a, b, c, d] = &mut self.top.parts;
        let [even, odd] = &mut self.classes.parts;
        let mut equal = 0;
        for (new, old) in pairs {
            if are_equal(new, old) {
                equal += COUNT as u64;
                continue;
            }
            let (new, old) = (new.as_chunks::<2>().0, old.as_chunks::<2>().0);
            let (mut xor, mut classes) = ([0_u16; COUNT], [0_u16; COUNT]);
            for i in 0..COUNT {
                let (new, old) = (u16::from_le_bytes(new[i]), u16::from_le_bytes(old[i]));
                xor[i] = new ^ old;
                let exponent = old >> shift & mask;
                let (new, old) = (ordered(new), ordered(old));
                // All ones if it became smaller.
                let smaller = -i16::from(new < old);
                let distance = (new.wrapping_sub(old) ^ smaller).wrapping_sub(smaller) as u16;
                // The exponent of a number is its length, and a small one is exact.
                let len = ((f32::from(distance).to_bits() >> 23) as u16).saturating_sub(126);
                classes[i] = exponent << CLASS_BITS | smaller as u16 & SMALLER as u16 | len;
            }
            // In memory, where a word is an address away; out of vectors they are slower to get.
            let (xor, classes) = (black_box(&xor), black_box(&classes));
            for i in (0..COUNT).step_by(4) {
                a[usize::from(xor[i])] += 1;
                b[usize::from(xor[i + 1])] += 1;
                c[usize::from(xor[i + 2])] += 1;
                d[usize::from(xor[i + 3])] += 1;
                even[usize::from(classes[i])] += 1;
                odd[usize::from(classes[i + 1])] += 1;
                even[usize::from(classes[i + 2])] += 1;
                odd[usize::from(classes[i + 3])] += 1;
            }
        }
        equal
    }

    fn compare_4<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8; STRETCH], &'a [u8; STRETCH])>,
        ordered: impl Fn(u32) -> i32,
        shift: u32,
        mask: u32,
    ) -> u64 {
        const COUNT: usize = STRETCH / 4;
        let [a, b, _, _] = &mut self.top.parts;
        let [even, odd] = &mut self.classes.parts;
        let [[a0, b0], [a1, b1], ..] = &mut self.low;
        let (mut equal, mut zeros) = (0, 0);
        for (new, old) in pairs {
            if are_equal(new, old) {
                equal += COUNT as u64;
                continue;
            }
            let (new, old) = (new.as_chunks::<4>().0, old.as_chunks::<4>().0);
            let (mut xor, mut classes) = ([0_u32; COUNT], [0_u16; COUNT]);
            let mut unchanged = 0;
            for i in 0..COUNT {
                let (new, old) = (u32::from_le_bytes(new[i]), u32::from_le_bytes(old[i]));
                xor[i] = new ^ old;
                unchanged += u32::from(new == old);
                let exponent = old >> shift & mask;
                let (new, old) = (ordered(new), ordered(old));
                let smaller = -i32::from(new < old);
                let distance = (new.wrapping_sub(old) ^ smaller).wrapping_sub(smaller) as u32;
                // Without the bit below the leading one, nothing is rounded up to the next length.
                let rounded = (distance & !(distance >> 1)) as i32;
                let len = ((rounded as f32).to_bits() >> 23 & 0xff).saturating_sub(126);
                let len = if rounded < 0 { 32 } else { len };
                classes[i] = (exponent << CLASS_BITS | smaller as u32 & SMALLER | len) as u16;
            }
            zeros += u64::from(unchanged);
            for i in (0..COUNT).step_by(4) {
                let words = &xor[i..i + 4];
                let byte = |i: usize, k: u32| usize::from((words[i] >> (8 * k)) as u8);
                a0[byte(0, 0)] += 1;
                a1[byte(0, 1)] += 1;
                a[(words[0] >> 16) as usize] += 1;
                b0[byte(1, 0)] += 1;
                b1[byte(1, 1)] += 1;
                b[(words[1] >> 16) as usize] += 1;
                a0[byte(2, 0)] += 1;
                a1[byte(2, 1)] += 1;
                a[(words[2] >> 16) as usize] += 1;
                b0[byte(3, 0)] += 1;
                b1[byte(3, 1)] += 1;
                b[(words[3] >> 16) as usize] += 1;
                even[usize::from(classes[i])] += 1;
                odd[usize::from(classes[i + 1])] += 1;
                even[usize::from(classes[i + 2])] += 1;
                odd[usize::from(classes[i + 3])] += 1;
            }
        }
        self.zeros += zeros;
        equal
    }

    fn compare_8<'a>(
        &mut self,
        words: Words,
        pairs: impl Iterator<Item = (&'a [u8; STRETCH], &'a [u8; STRETCH])>,
    ) -> u64 {
        self.wide.resize(WIDE_CELLS, 0);
        let top = &mut self.top.parts[0];
        let mut equal = 0;
        for (new, old) in pairs {
            if are_equal(new, old) {
                equal += STRETCH as u64 / 8;
                continue;
            }
            for (new, old) in new.as_chunks::<8>().0.iter().zip(old.as_chunks::<8>().0) {
                let (new, old) = (u64::from_le_bytes(*new), u64::from_le_bytes(*old));
                let xor = (new ^ old).to_le_bytes();
                self.zeros += u64::from(new == old);
                for ([low, _], byte) in self.low.iter_mut().zip(xor) {
                    low[usize::from(byte)] += 1;
                }
                top[usize::from(u16::from_le_bytes([xor[6], xor[7]]))] += 1;
                self.wide[index(words, new, old) as usize] += 1;
            }
        }
        equal
    }

    /// Takes what was counted.
    pub(crate) fn take(&mut self, words: Words) -> ChangeTally {
        let (values, equal) = (std::mem::take(&mut self.values), std::mem::take(&mut self.equal));
        let mut tally = ChangeTally { values, ..ChangeTally::new(words) };
        if values == 0 {
            return tally;
        }
        let (shift, mask) = words.exponent_in_top();
        let ChangeTally { unchanged, exponent_changed, xor, classes, .. } = &mut tally;
        if words.width == 1 {
            self.top.take(parts_of_top(words.width), |cell, count| {
                let (old, new) = (cell >> 8, cell & 0xff);
                let change = old ^ new;
                xor[0][change] += count;
                *unchanged += if change == 0 { count } else { 0 };
                let is_moved = change as u16 >> shift & mask != 0;
                *exponent_changed += if is_moved { count } else { 0 };
                classes.add(index(words, new as u64, old as u64), count);
            });
        } else {
            let (low, top) = xor.split_at_mut(words.width - 2);
            self.top.take(parts_of_top(words.width), |cell, count| {
                top[0][cell & 0xff] += count;
                top[1][cell >> 8] += count;
                let is_moved = cell as u16 >> shift & mask != 0;
                *exponent_changed += if is_moved { count } else { 0 };
                *unchanged += if cell == 0 && words.width == 2 { count } else { 0 };
            });
            for (lanes, plane) in self.low.iter_mut().zip(low) {
                for lane in lanes {
                    plane.iter_mut().zip(&*lane).for_each(|(sum, &n)| *sum += u64::from(n));
                    lane.fill(0);
                }
            }
            *unchanged += std::mem::take(&mut self.zeros);
            if words.width == 8 {
                for (index, count) in self.wide.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
                    classes.add(index as u32, u64::from(std::mem::take(count)));
                }
            } else {
                self.classes.take(2, |index, count| classes.add(index as u32, count));
            }
        }
        xor.iter_mut().for_each(|plane| plane[0] = plane[0].wrapping_add(equal));
        *unchanged = unchanged.wrapping_add(equal);
        tally
    }
}

/// How many parts of the table of the highest bits have counts of words of this width.
fn parts_of_top(width: usize) -> usize {
    match width {
        1 | 2 => 4,
        4 => 2,
        _ => 1,
    }
}

/// Whether two stretches are equal, without a call.
fn are_equal(one: &[u8; STRETCH], other: &[u8; STRETCH]) -> bool {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    words.fold(0, |any, (a, b)| any | (u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b))) == 0
}
