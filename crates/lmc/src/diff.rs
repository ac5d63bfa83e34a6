//! How much of a checkpoint changed since another one, tensor by tensor.

use crate::base::Base;
use crate::context::Context;
use crate::pipeline::{Buffer, each};
use crate::{Level, SpanSizer};
use lmc_codec::Dtype;
use lmc_format::Result;
use lmc_format::dtype::{DtypeKind, FloatFields};
use lmc_input::{Cut, TensorInfo};
use std::collections::HashMap;

/// Bytes that are compared in one go.
const BYTES_AT_ONCE: usize = 1 << 20;

/// What changed between two checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Tensors that both have, with the same type and shape, in the order of the new one.
    pub both: Vec<TensorDiff>,
    /// Those that both have, but with another type or shape: the name, and the old and new type and
    /// shape in words.
    pub reshaped: Vec<(String, String, String)>,
    /// Names of tensors that only the old one has.
    pub only_old: Vec<String>,
    /// Names of tensors that only the new one has.
    pub only_new: Vec<String>,
    /// How the bytes differ, if one of the two has no tensors.
    pub bytes: Option<BytesDiff>,
}

/// How two files differ when they are compared byte by byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesDiff {
    /// Bytes of the old one.
    pub old_len: u64,
    /// Bytes of the new one.
    pub new_len: u64,
    /// Bytes that are equal at the same position.
    pub same: u64,
    /// The first position where they differ, which may be the end of one of them.
    pub first: Option<u64>,
}

/// What changed in a tensor.
#[derive(Clone, Debug)]
pub struct TensorDiff {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// The changes.
    pub change: Change,
}

/// What changed in some values; a complex number counts as two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change {
    /// Values.
    pub values: u64,
    /// Values with the same bits.
    pub unchanged: u64,
    /// Floats whose exponent changed; none for other types.
    pub exponents: Option<u64>,
    /// The largest change relative to the old value, among values that are finite and not 0.
    pub largest: f64,
    /// The coded size of the new values against the old ones, in bytes.
    pub coded_len: u64,
}

impl Change {
    /// Both changes together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let exponents = match (self.exponents, other.exponents) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        Self {
            values: self.values + other.values,
            unchanged: self.unchanged + other.unchanged,
            exponents,
            largest: self.largest.max(other.largest),
            coded_len: self.coded_len + other.coded_len,
        }
    }
}

/// Compares two checkpoints; coded sizes are measured at `level`. If one of them has no tensors,
/// their bytes are compared.
pub fn diff(old: &Base, new: &Base, level: Level, context: &Context) -> Result<Diff> {
    let (old_tensors, new_tensors) = (old.tensors()?, new.tensors()?);
    let before: HashMap<&str, &TensorInfo> =
        old_tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut diff = Diff::default();
    if old_tensors.is_empty() || new_tensors.is_empty() {
        diff.bytes = Some(compare_bytes(old, new)?);
    }
    // The tensor that each item of the new checkpoint is compared with.
    let mut pairs: Vec<Option<&TensorInfo>> = vec![None];
    for tensor in new_tensors {
        let pair = before.get(tensor.name.as_str()).copied();
        let is_alike = |old: &&TensorInfo| old.dtype == tensor.dtype && old.shape == tensor.shape;
        match pair {
            None => diff.only_new.push(tensor.name.clone()),
            Some(old) if !is_alike(&old) => {
                diff.reshaped.push((tensor.name.clone(), old.form(), tensor.form()));
            }
            Some(_) => {}
        }
        pairs.push(pair.filter(is_alike));
    }
    let after: HashMap<&str, &TensorInfo> =
        new_tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let gone = old_tensors.iter().filter(|old| !after.contains_key(old.name.as_str()));
    diff.only_old = gone.map(|old| old.name.clone()).collect();
    let cuts = match new_tensors {
        [] => Vec::new(),
        _ => lmc_input::cut_where(&new.layout()?, |_, _| false),
    };
    let cuts: Vec<Cut> = cuts.into_iter().filter(|cut| pairs[cut.items.start].is_some()).collect();
    let worker = || Worker::new(level);
    let changes = each(cuts.len(), context, worker, |worker, i| {
        let cut = &cuts[i];
        let Some(pair) = pairs[cut.items.start] else { return Ok(Change::default()) };
        let tensor = &new_tensors[cut.items.start - 1];
        let start = pair.range.start + cut.range.start - tensor.range.start;
        worker.compare(old, new, cut, start)
    })?;
    let mut sums = vec![Change::default(); pairs.len()];
    for (cut, change) in cuts.iter().zip(changes) {
        sums[cut.items.start] = sums[cut.items.start].and(change);
    }
    for (i, tensor) in new_tensors.iter().enumerate() {
        if pairs[i + 1].is_some() {
            let TensorInfo { name, dtype, shape, .. } = tensor.clone();
            diff.both.push(TensorDiff { name, dtype, shape, change: sums[i + 1] });
        }
    }
    Ok(diff)
}

fn compare_bytes(old: &Base, new: &Base) -> Result<BytesDiff> {
    let (old_len, new_len) = (old.original_len(), new.original_len());
    let mut diff = BytesDiff { old_len, new_len, same: 0, first: None };
    let common = old_len.min(new_len);
    let (mut a, mut b) = (vec![0; BYTES_AT_ONCE], vec![0; BYTES_AT_ONCE]);
    let mut at = 0;
    while at < common {
        let len = BYTES_AT_ONCE.min(usize::try_from(common - at).unwrap_or(BYTES_AT_ONCE));
        let (a, b) = (&mut a[..len], &mut b[..len]);
        old.sample_original(at, a)?;
        new.sample_original(at, b)?;
        let differing = a.iter().zip(&*b).position(|(a, b)| a != b);
        diff.first = diff.first.or(differing.map(|i| at + i as u64));
        diff.same += a.iter().zip(&*b).filter(|(a, b)| a == b).count() as u64;
        at += len as u64;
    }
    diff.first = diff.first.or((old_len != new_len).then_some(common));
    Ok(diff)
}

struct Worker {
    spans: SpanSizer,
    old: Buffer,
    new: Buffer,
}

impl Worker {
    fn new(level: Level) -> Self {
        Self { spans: SpanSizer::new(level), old: Buffer::default(), new: Buffer::default() }
    }

    /// Compares a span of the new checkpoint with the old one from `start` on.
    fn compare(&mut self, old: &Base, new: &Base, cut: &Cut, start: u64) -> Result<Change> {
        let len = cut.range.end - cut.range.start;
        old.sample(start, self.old.sized(len)?)?;
        new.sample(cut.range.start, self.new.sized(len)?)?;
        let (old, new) = (self.old.bytes(), self.new.bytes());
        let dtype = cut.dtype.unwrap_or(Dtype::Bytes);
        let mut change = change(dtype, old, new);
        change.coded_len = self.spans.coded_len(dtype, cut.row_len, new, Some(old))?;
        Ok(change)
    }
}

/// Reads words of floats.
#[derive(Clone, Copy)]
struct Floats(FloatFields);

impl Floats {
    fn exponent(self, word: u64) -> u64 {
        word >> self.0.mantissa_bits & self.last_exponent()
    }

    /// The largest exponent, which infinities and NaNs have.
    fn last_exponent(self) -> u64 {
        (1 << self.0.exponent_bits) - 1
    }

    /// The value of a word, as if the largest exponent were an ordinary one, without infinities and
    /// NaNs.
    fn value(self, word: u64) -> f64 {
        let FloatFields { exponent_bits, mantissa_bits, bias } = self.0;
        let mantissa = (word & ((1 << mantissa_bits) - 1)) as f64;
        let one = (1_u64 << mantissa_bits) as f64;
        let magnitude = match self.exponent(word) {
            0 => mantissa / one * 2_f64.powi(1 - bias),
            e => (one + mantissa) / one * 2_f64.powi(e as i32 - bias),
        };
        let is_negative = word >> (mantissa_bits + exponent_bits) & 1 == 1;
        if is_negative { -magnitude } else { magnitude }
    }
}

/// Compares values, without coding them.
fn change(dtype: Dtype, old: &[u8], new: &[u8]) -> Change {
    let width = dtype.width();
    let mut change = Change { values: (new.len() / width) as u64, ..Change::default() };
    let float = dtype.float_fields().map(Floats);
    let is_signed = dtype.kind() == DtypeKind::Signed;
    let mut exponents = 0;
    for (a, b) in old.chunks_exact(width).zip(new.chunks_exact(width)) {
        if a == b {
            change.unchanged += 1;
            continue;
        }
        let (a, b) = (word(a, is_signed), word(b, is_signed));
        let (old, new) = match float {
            Some(float) => {
                let (before, after) = (float.exponent(a), float.exponent(b));
                exponents += u64::from(before != after);
                if [before, after].contains(&float.last_exponent()) {
                    continue;
                }
                (float.value(a), float.value(b))
            }
            None if is_signed => (a as i64 as f64, b as i64 as f64),
            None => (a as f64, b as f64),
        };
        if old != 0.0 {
            change.largest = change.largest.max(((new - old) / old).abs());
        }
    }
    change.exponents = float.map(|_| exponents);
    change
}

/// A little-endian word, sign-extended if it is signed.
fn word(bytes: &[u8], is_signed: bool) -> u64 {
    let is_negative = is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut word = [if is_negative { 0xff } else { 0 }; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(values: &[f32], to: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&value| to(value)).collect()
    }

    /// Counts of unchanged values and exponents, and the largest relative change, match values
    /// worked out by hand.
    #[test]
    fn counts_by_hand() {
        let old = [1.0_f32, 2.0, -4.0, 0.0, f32::NAN, 8.0];
        let new = [1.0_f32, 3.0, -1.0, 5.0, 1.0, f32::INFINITY];
        let f32s =
            change(Dtype::F32, &bytes(&old, f32::to_le_bytes), &bytes(&new, f32::to_le_bytes));
        let bf16 = |value: f32| -> [u8; 2] { [value.to_le_bytes()[2], value.to_le_bytes()[3]] };
        let bf16s = change(Dtype::Bf16, &bytes(&old, bf16), &bytes(&new, bf16));
        for found in [f32s, bf16s] {
            assert_eq!((found.values, found.unchanged, found.exponents), (6, 1, Some(4)));
            assert_eq!(found.largest, 0.75);
        }
        let found = change(Dtype::I16, &[0xff, 0xff, 2, 0], &[1, 0, 2, 0]);
        assert_eq!((found.unchanged, found.exponents, found.largest), (1, None, 2.0));
    }
}
