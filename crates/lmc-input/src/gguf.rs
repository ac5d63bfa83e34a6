//! The contents of a GGUF file, the format of llama.cpp: keys with values, a list of tensors, and
//! their bytes.
//!
//! The list has the innermost dimension first; here it comes last, as everywhere else.

use crate::TensorInfo;
use crate::contents::{Contents, Data, Format, OtherTensor, Reason};
use crate::cursor::Cursor;
use crate::source::Source;
use lmc_format::Dtype;
use std::ops::Range;

pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
/// The longest header. Vocabularies make it some megabytes long.
const HEADER_LEN_MAX: u64 = 1 << 28;
/// The most keys and tensors.
const KEYS_MAX: u64 = 1 << 20;
const TENSORS_MAX: u64 = 1 << 20;
/// The longest key that is looked at, and the longest name of a tensor.
const KEY_LEN_MAX: u64 = 1 << 16;
const NAME_LEN_MAX: u64 = 1 << 12;
/// The most dimensions. llama.cpp has four.
const RANK_MAX: u32 = 8;
/// How deep arrays may be in arrays.
const DEPTH_MAX: usize = 4;
const ALIGNMENT_KEY: &[u8] = b"general.alignment";
const ALIGNMENT: u64 = 32;

/// Types of values.
const U32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The contents of a file that starts with [`MAGIC`].
pub(crate) fn find(source: &Source) -> Contents {
    let mut cursor = Cursor::new(source, HEADER_LEN_MAX);
    let version = cursor.skip(4).and_then(|()| cursor.u32());
    match version {
        Some(2 | 3) => read(source, cursor)
            .unwrap_or_else(|| Contents::noted("begins like GGUF, but its header is damaged")),
        Some(version) if version & 0xffff == 0 => {
            Contents::noted("is GGUF in the other order of bytes")
        }
        _ => Contents::noted("is GGUF of another version than 2 and 3"),
    }
}

fn read(source: &Source, mut cursor: Cursor) -> Option<Contents> {
    let (tensor_count, key_count) = (cursor.u64()?, cursor.u64()?);
    if tensor_count > TENSORS_MAX || key_count > KEYS_MAX {
        return None;
    }
    let mut alignment = ALIGNMENT;
    for _ in 0..key_count {
        let key_len = cursor.u64()?;
        let is_alignment = if key_len > KEY_LEN_MAX {
            cursor.skip(key_len)?;
            false
        } else {
            cursor.take(key_len)? == ALIGNMENT_KEY
        };
        let kind = cursor.u32()?;
        if is_alignment && kind == U32 {
            alignment = cursor.u32()?.into();
        } else {
            skip_value(&mut cursor, kind, 0)?;
        }
    }
    if !alignment.is_power_of_two() {
        return None;
    }
    let tensors: Vec<Listed> =
        (0..tensor_count).map(|_| Listed::read(&mut cursor)).collect::<Option<_>>()?;
    let start = cursor.at().next_multiple_of(alignment);
    let mut found = Contents::new(Format::Gguf);
    add(&mut found, tensors, start, source.len());
    Some(found)
}

/// Bytes of a value of a type; None if it is a string or an array, or unknown.
fn value_len(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn skip_value(cursor: &mut Cursor, kind: u32, depth: usize) -> Option<()> {
    match kind {
        STRING => {
            let len = cursor.u64()?;
            cursor.skip(len)
        }
        ARRAY if depth < DEPTH_MAX => {
            let (kind, count) = (cursor.u32()?, cursor.u64()?);
            match value_len(kind) {
                Some(len) => cursor.skip(count.checked_mul(len)?),
                // Each takes bytes of the header, so that it ends.
                None => (0..count).try_for_each(|_| skip_value(cursor, kind, depth + 1)),
            }
        }
        _ => cursor.skip(value_len(kind)?),
    }
}

/// A tensor as the header lists it.
struct Listed {
    name: String,
    shape: Vec<u64>,
    kind: u32,
    /// Where its bytes are, behind the header.
    offset: u64,
}

impl Listed {
    fn read(cursor: &mut Cursor) -> Option<Self> {
        let name_len = cursor.u64().filter(|&len| len <= NAME_LEN_MAX)?;
        let name = String::from_utf8_lossy(cursor.take(name_len)?).into_owned();
        let rank = cursor.u32().filter(|&rank| rank <= RANK_MAX)?;
        let mut shape = (0..rank).map(|_| cursor.u64()).collect::<Option<Vec<u64>>>()?;
        shape.reverse();
        Some(Self { name, shape, kind: cursor.u32()?, offset: cursor.u64()? })
    }

    /// Its bytes in the file; None if its type is unknown or nothing can be so long.
    fn range(&self, start: u64) -> Option<Range<u64>> {
        let (block, block_len) = block(self.kind)?;
        let count = self.shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim));
        let count = if self.shape.contains(&0) { 0 } else { count? };
        let start = start.checked_add(self.offset)?;
        let len = (count.is_multiple_of(block)).then_some(count / block)?.checked_mul(block_len)?;
        Some(start..start.checked_add(len)?)
    }
}

/// Adds the tensors, whose bytes begin at `start` at the earliest.
fn add(found: &mut Contents, mut tensors: Vec<Listed>, start: u64, len: u64) {
    tensors.sort_by_key(|tensor| tensor.offset);
    let mut missing = 0_u64;
    let mut end = 0;
    for i in 0..tensors.len() {
        let dtype = dtype(tensors[i].kind);
        let next = tensors.get(i + 1).map_or(len, |next| start.saturating_add(next.offset));
        let range = match block(tensors[i].kind) {
            Some(_) => tensors[i].range(start),
            // Whatever it is, it ends before the next one.
            None => start.checked_add(tensors[i].offset).map(|start| start..next.max(start)),
        };
        let tensor = &mut tensors[i];
        let (name, shape) = (std::mem::take(&mut tensor.name), std::mem::take(&mut tensor.shape));
        let Some(range) = range.filter(|range| range.end <= len) else {
            missing += 1;
            found.others.push(OtherTensor { name, dtype, shape, reason: Reason::Missing });
            continue;
        };
        if range.start < end && !range.is_empty() {
            found.note.get_or_insert_with(|| "has tensors that overlap".into());
        }
        end = end.max(range.end);
        match dtype {
            Some(dtype) => {
                let tensor = TensorInfo { name, dtype, shape, range };
                found.data.push(Data::of(&tensor));
                found.tensors.push(tensor);
            }
            None => {
                // Blocks of a scale and small integers, which are no words.
                let len = range.end - range.start;
                let name_of_data = name.clone();
                let (dtype, row_len) = (None, 0);
                let data = Data { range, dtype, row_len, name: name_of_data, shape: vec![len] };
                found.data.push(data);
                let reason = Reason::UnknownType;
                found.others.push(OtherTensor { name, dtype: None, shape, reason });
            }
        }
    }
    if missing > 0 {
        let note = format!("is cut off: {missing} of its tensors are missing");
        found.note.get_or_insert(note);
    }
}

/// The type of tensors whose values are stored one by one.
fn dtype(kind: u32) -> Option<Dtype> {
    Some(match kind {
        0 => Dtype::F32,
        1 => Dtype::F16,
        24 => Dtype::I8,
        25 => Dtype::I16,
        26 => Dtype::I32,
        27 => Dtype::I64,
        28 => Dtype::F64,
        30 => Dtype::Bf16,
        _ => return None,
    })
}

/// Values in a block of a type, and its bytes; None if the type is unknown. The names are those of
/// `GGMLQuantizationType`.
fn block(kind: u32) -> Option<(u64, u64)> {
    if let Some(dtype) = dtype(kind) {
        return Some((1, dtype.bits() / 8));
    }
    Some(match kind {
        2 => (32, 18),    // Q4_0
        3 => (32, 20),    // Q4_1
        6 => (32, 22),    // Q5_0
        7 => (32, 24),    // Q5_1
        8 => (32, 34),    // Q8_0
        9 => (32, 40),    // Q8_1
        10 => (256, 84),  // Q2_K
        11 => (256, 110), // Q3_K
        12 => (256, 144), // Q4_K
        13 => (256, 176), // Q5_K
        14 => (256, 210), // Q6_K
        15 => (256, 292), // Q8_K
        16 => (256, 66),  // IQ2_XXS
        17 => (256, 74),  // IQ2_XS
        18 => (256, 98),  // IQ3_XXS
        19 => (256, 50),  // IQ1_S
        20 => (32, 18),   // IQ4_NL
        21 => (256, 110), // IQ3_S
        22 => (256, 82),  // IQ2_S
        23 => (256, 136), // IQ4_XS
        29 => (256, 56),  // IQ1_M
        34 => (256, 54),  // TQ1_0
        35 => (256, 66),  // TQ2_0
        39 => (32, 17),   // MXFP4
        40 => (64, 36),   // NVFP4
        41 => (128, 18),  // Q1_0
        _ => return None,
    })
}
