//! Pairs made from the fp32 weights of two steps: pairs of other types, and pairs that are closer
//! together.

use lmc_bench::buffers::{cast_f16, cast_fp8, cast_tensors, f32_values};
use lmc_testkit::{CorpusFile, CorpusTensor, Dtype, Random};

/// How a pair is made.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    /// The new weights, only a fiftieth of the way from the base: two of a hundred steps.
    Near,
    /// The base with each value moved by about a millionth of itself.
    Moved,
    /// The base with one value in a hundred replaced by the new one.
    FewF32,
    /// Both rounded to f16.
    F16,
    /// Both rounded to e4m3.
    Fp8,
    /// The same, but only one value in a hundred is new.
    FewFp8,
    /// Both rounded to 255 steps, scaled by the largest value of a tensor.
    Int8,
    /// f64 with noise below the f32 precision, each value moved by about a millionth of itself.
    MovedF64,
}

/// One value in this many is new in the pairs where few are.
const FEW: usize = 100;

impl Made {
    /// The new file and its base.
    pub fn pair(self, new: &CorpusFile, base: &CorpusFile) -> (CorpusFile, CorpusFile) {
        match self {
            Self::Near => (zip(new, base, near), base.clone()),
            Self::Moved => (cast_tensors(base, moved), base.clone()),
            Self::FewF32 => (zip(new, base, few), base.clone()),
            Self::F16 => (cast_tensors(new, cast_f16), cast_tensors(base, cast_f16)),
            Self::Fp8 => (cast_tensors(new, cast_fp8), cast_tensors(base, cast_fp8)),
            Self::FewFp8 => {
                let (new, base) = (cast_tensors(new, cast_fp8), cast_tensors(base, cast_fp8));
                (zip(&new, &base, few), base)
            }
            Self::Int8 => (zip(new, base, cast_int8), zip(base, base, cast_int8)),
            Self::MovedF64 => {
                let base = cast_tensors(base, widened);
                (cast_tensors(&base, moved_f64), base)
            }
        }
    }
}

/// A file made from the tensors of two files that have the same tensors.
fn zip(
    new: &CorpusFile,
    base: &CorpusFile,
    make: fn(&CorpusTensor, &CorpusTensor) -> CorpusTensor,
) -> CorpusFile {
    let pairs = new.tensors.iter().zip(&base.tensors);
    CorpusFile { name: new.name.clone(), tensors: pairs.map(|(n, b)| make(n, b)).collect() }
}

fn near(new: &CorpusTensor, base: &CorpusTensor) -> CorpusTensor {
    let pairs = f32_values(new).zip(f32_values(base));
    let bytes = pairs.flat_map(|(n, b)| (b + (n - b) / 50.0).to_le_bytes()).collect();
    CorpusTensor { bytes, ..new.clone() }
}

fn moved(base: &CorpusTensor) -> CorpusTensor {
    let mut random = Random::new(1);
    let mut moved = |x: f32| (f64::from(x) * (1.0 + 1e-6 * random.normal())) as f32;
    let bytes = f32_values(base).flat_map(|x| moved(x).to_le_bytes()).collect();
    CorpusTensor { bytes, ..base.clone() }
}

fn few(new: &CorpusTensor, base: &CorpusTensor) -> CorpusTensor {
    let mut random = Random::new(2);
    let mut bytes = base.bytes.clone();
    let values = bytes.chunks_exact_mut(base.width()).zip(new.bytes.chunks_exact(base.width()));
    values.filter(|_| random.below(FEW) == 0).for_each(|(to, from)| to.copy_from_slice(from));
    CorpusTensor { bytes, ..base.clone() }
}

/// Both steps, by the scale of the base.
fn cast_int8(tensor: &CorpusTensor, base: &CorpusTensor) -> CorpusTensor {
    let max_abs = f32_values(base).fold(f32::MIN_POSITIVE, |max, x| max.max(x.abs()));
    let steps = |x: f32| (x / max_abs * 127.0).round() as i8;
    let bytes = f32_values(tensor).flat_map(|x| steps(x).to_le_bytes()).collect();
    CorpusTensor { dtype: Dtype::I8, bytes, ..tensor.clone() }
}

fn widened(tensor: &CorpusTensor) -> CorpusTensor {
    let mut random = Random::new(3);
    let mut widened = |x: f32| f64::from(x) * (1.0 + 1e-8 * random.normal());
    let bytes = f32_values(tensor).flat_map(|x| widened(x).to_le_bytes()).collect();
    CorpusTensor { dtype: Dtype::F64, bytes, ..tensor.clone() }
}

fn moved_f64(base: &CorpusTensor) -> CorpusTensor {
    let mut random = Random::new(4);
    let mut moved = |x: f64| x * (1.0 + 1e-6 * random.normal());
    let values = base.bytes.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes));
    let bytes = values.flat_map(|x| moved(x).to_le_bytes()).collect();
    CorpusTensor { bytes, ..base.clone() }
}
