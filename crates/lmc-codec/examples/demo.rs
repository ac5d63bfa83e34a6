//! Codes and decodes made-up tensors at every level, checks that they come back, and prints what
//! they take.

use lmc_codec::{Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};
use lmc_testkit::data::{Kind, words};
use std::time::Instant;

const VALUES: usize = 4 << 20;
const ROW_LEN: u64 = 48;

fn main() -> Result<(), lmc_format::Error> {
    println!("tensor                     level     bits a value   ratio   compress   decompress");
    for (name, dtype, kind) in [
        ("bf16 weights", Dtype::Bf16, Kind::Weights),
        ("f32 weights", Dtype::F32, Kind::Weights),
        ("f32 second moments", Dtype::F32, Kind::Scaled),
        ("bf16 stored as f32", Dtype::F32, Kind::Widened),
        ("f32, nine of ten zero", Dtype::F32, Kind::Sparse),
        ("i64 small numbers", Dtype::I64, Kind::Weights),
    ] {
        let is_float = dtype != Dtype::I64;
        let tensor = words(kind, dtype.width(), is_float, VALUES, 1);
        for level in [Level::Fast, Level::Default, Level::Max, Level::Paper] {
            let row = measure(&TensorSpec { dtype, row_len: ROW_LEN }, level, &tensor)?;
            println!("{name:<26} {:<9} {row}", format!("{level:?}").to_lowercase());
        }
    }
    println!("every tensor came back bit for bit");
    Ok(())
}

/// One row of the table; fails, or panics, if the tensor does not come back.
fn measure(spec: &TensorSpec, level: Level, tensor: &[u8]) -> Result<String, lmc_format::Error> {
    // Memory that has been written to before, so that no time goes to getting it from the system.
    let (mut coded, mut restored) = (vec![1; 2 * tensor.len()], vec![1; tensor.len()]);
    let start = Instant::now();
    let plan = Plan::new(spec, level, tensor);
    let values_per_block = (plan.block_len() / spec.dtype.width()) as u64;
    let mut encoder = Encoder::new();
    coded.clear();
    let mut ends = Vec::new();
    for (i, bytes) in (0..).zip(tensor.chunks(plan.block_len())) {
        encoder.encode_block(&plan, i * values_per_block, bytes, &mut coded);
        ends.push(coded.len());
    }
    let compress = start.elapsed();
    let start = Instant::now();
    let shared = match plan.shared_recipe() {
        [] => None,
        bytes => Some(SharedRecipe::parse(bytes)?),
    };
    let mut decoder = Decoder::new();
    let mut from = 0;
    for (out, end) in restored.chunks_mut(plan.block_len()).zip(ends) {
        decoder.decode_block(&coded[from..end], shared.as_ref(), out)?;
        from = end;
    }
    let decompress = start.elapsed();
    assert!(restored == tensor, "the tensor came back changed");
    let size = coded.len() + plan.shared_recipe().len();
    let bits = 8.0 * size as f64 / (tensor.len() / spec.dtype.width()) as f64;
    let ratio = tensor.len() as f64 / size as f64;
    let gib = tensor.len() as f64 / (1_u64 << 30) as f64;
    let speed = |time: std::time::Duration| gib / time.as_secs_f64();
    let (compress, decompress) = (speed(compress), speed(decompress));
    Ok(format!("{bits:>12.3} {ratio:>7.2} {compress:>6.2} GiB/s {decompress:>6.2} GiB/s"))
}
