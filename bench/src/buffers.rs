//! The data to measure: the sets, their corpus tensors, and one large buffer made of them.
//!
//! A buffer repeats the tensors of a set until it is large enough, with the rows of each copy in a
//! different order, so that no engine benefits from repeats within its window.

use std::fmt;
use std::str::FromStr;

use lmc_codec::{Dtype, TensorSpec};
use lmc_engines::SampleTensor;
use lmc_testkit::{CorpusFile, CorpusTensor, Dtype as FileDtype, casts, entropy, shuffle};
use serde::{Deserialize, Serialize};

use crate::Result;

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Bf16,
    F32,
    AdamM,
    AdamV,
    F16,
    Fp8,
}

/// One tensor in a buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BufferTensor {
    /// Bytes of the tensor; the parts are back to back.
    pub len: usize,
    /// Values in the last dimension.
    pub row_len: u64,
    /// Order-0 bound of the whole tensor.
    pub bound_bits: f64,
}

/// Tensors of one type, back to back.
pub struct Buffer {
    pub dtype: Dtype,
    pub bytes: Vec<u8>,
    pub parts: Vec<BufferTensor>,
}

impl Set {
    /// Every set, in the order of the report.
    pub const ALL: [Set; 6] = [Set::Bf16, Set::F32, Set::AdamM, Set::AdamV, Set::F16, Set::Fp8];

    /// Name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Set::Bf16 => "bf16",
            Set::F32 => "f32",
            Set::AdamM => "adam-m",
            Set::AdamV => "adam-v",
            Set::F16 => "f16",
            Set::Fp8 => "fp8",
        }
    }

    /// How the names of the set's corpus files end; casts start from the fp32 weights.
    fn file_suffix(self) -> &'static str {
        match self {
            Set::Bf16 => "weights-bf16",
            Set::F32 | Set::F16 | Set::Fp8 => "weights-fp32",
            Set::AdamM => "adam-m",
            Set::AdamV => "adam-v",
        }
    }

    /// The set's files, cast where the set is a cast.
    pub fn files(self, corpus: &[CorpusFile]) -> Vec<CorpusFile> {
        let of_set = |file: &&CorpusFile| file.name.ends_with(self.file_suffix());
        let cast = |file: &CorpusFile| match self {
            Set::F16 => {
                CorpusFile { name: format!("{} as f16", file.name), ..cast_tensors(file, cast_f16) }
            }
            Set::Fp8 => {
                CorpusFile { name: format!("{} as fp8", file.name), ..cast_tensors(file, cast_fp8) }
            }
            _ => file.clone(),
        };
        corpus.iter().filter(of_set).map(cast).collect()
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Set {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let known = Set::ALL.iter().find(|set| set.name() == name);
        known
            .copied()
            .ok_or_else(|| format!("no set `{name}`: bf16, f32, adam-m, adam-v, f16, fp8"))
    }
}

impl Buffer {
    /// Repeats the tensors of `files` until there are at least `len_min` bytes. There is at least
    /// one copy.
    pub fn build(files: &[CorpusFile], len_min: usize, shuffled: bool) -> Result<Self> {
        let tensors: Vec<&CorpusTensor> = files.iter().flat_map(|file| &file.tensors).collect();
        let first = tensors.first().ok_or("the corpus has no file of this set")?;
        let copy_len: usize = tensors.iter().map(|t| t.bytes.len()).sum();
        let copies = len_min.div_ceil(copy_len).max(1);
        let mut buffer = Self {
            dtype: codec_dtype(first.dtype)?,
            bytes: Vec::with_capacity(copies * copy_len),
            parts: Vec::new(),
        };
        let bounds: Vec<f64> =
            tensors.iter().map(|t| entropy::bound_bits(t.dtype, &t.bytes)).collect();
        for copy in 0..copies {
            for (i, (tensor, bound)) in tensors.iter().zip(&bounds).enumerate() {
                let seed = shuffled.then_some((copy as u64) << 32 | i as u64);
                buffer.push(tensor, *bound, seed);
            }
        }
        Ok(buffer)
    }

    /// Bytes of a value.
    pub fn width(&self) -> usize {
        self.dtype.width()
    }

    /// The tensors in the form that engines take.
    pub fn tensors(&self) -> Vec<SampleTensor> {
        let spec = |part: &BufferTensor| TensorSpec { dtype: self.dtype, row_len: part.row_len };
        self.parts.iter().map(|part| SampleTensor { len: part.len, spec: spec(part) }).collect()
    }

    /// The bound in bits per value over the first `len` bytes.
    pub fn bound_bits_per_value(&self, len: usize) -> f64 {
        let (mut bits, mut left) = (0.0, len);
        for part in &self.parts {
            let used = part.len.min(left);
            bits += part.bound_bits * used as f64 / part.len.max(1) as f64;
            left -= used;
        }
        bits / (len / self.width()) as f64
    }

    fn push(&mut self, tensor: &CorpusTensor, bound_bits: f64, seed: Option<u64>) {
        match seed {
            Some(seed) => {
                let row = shuffle_unit(tensor);
                shuffle::append_rows_shuffled(&tensor.bytes, row, seed, &mut self.bytes);
            }
            None => self.bytes.extend_from_slice(&tensor.bytes),
        }
        let row_len = tensor.row_len() as u64;
        self.parts.push(BufferTensor { len: tensor.bytes.len(), row_len, bound_bits });
    }
}

/// Bytes that move together: a row, or one value if the tensor is a single row.
fn shuffle_unit(tensor: &CorpusTensor) -> usize {
    let rows = if tensor.shape.len() > 1 { tensor.row_len() } else { 1 };
    rows * tensor.width()
}

/// The type of a file's tensor.
pub fn codec_dtype(dtype: FileDtype) -> Result<Dtype> {
    Dtype::from_safetensors(&dtype.to_string())
        .ok_or_else(|| format!("no type is called {dtype}").into())
}

/// The type that a name on the command line stands for.
pub fn parse_dtype(name: &str) -> Result<FileDtype> {
    Ok(match name {
        "bf16" => FileDtype::BF16,
        "f16" => FileDtype::F16,
        "f32" | "adam-m" | "adam-v" => FileDtype::F32,
        "fp8" => FileDtype::F8_E4M3,
        _ => return Err(format!("no type `{name}`: bf16, f16, f32, fp8").into()),
    })
}

/// The file with each tensor cast to another type.
pub fn cast_tensors(file: &CorpusFile, cast: fn(&CorpusTensor) -> CorpusTensor) -> CorpusFile {
    CorpusFile { name: file.name.clone(), tensors: file.tensors.iter().map(cast).collect() }
}

/// Casts to f16, rounding to nearest.
pub fn cast_f16(tensor: &CorpusTensor) -> CorpusTensor {
    let bytes = f32_values(tensor).flat_map(|x| casts::f16_bits(x).to_le_bytes()).collect();
    CorpusTensor { dtype: FileDtype::F16, bytes, ..tensor.clone() }
}

/// Casts to e4m3 after scaling each tensor, as quantizers do. The scale is a power of two, so that
/// only e4m3 rounds.
pub fn cast_fp8(tensor: &CorpusTensor) -> CorpusTensor {
    let max_abs = f32_values(tensor).fold(0_f32, |max, x| max.max(x.abs()));
    let scale = casts::power_of_two_scale(max_abs, 448.0);
    let bytes = f32_values(tensor).map(|x| casts::e4m3_bits(x * scale)).collect();
    CorpusTensor { dtype: FileDtype::F8_E4M3, bytes, ..tensor.clone() }
}

/// The values of an f32 tensor.
pub fn f32_values(tensor: &CorpusTensor) -> impl Iterator<Item = f32> {
    let value = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    tensor.bytes.chunks_exact(4).map(value)
}
