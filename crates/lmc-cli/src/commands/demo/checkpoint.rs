//! A made-up training checkpoint in the safetensors format, the same on every machine.
//!
//! To a compressor it looks like a real one: normally distributed weights in bf16, their f32
//! masters, and Adam's moments, whose magnitudes are a number of the row times a number of the
//! column.

use crate::safetensors::File;

/// Values in a row of every matrix, and rows.
const COLUMNS: usize = 512;
const ROWS: usize = 256;
/// Bytes of one layer: weights, masters and two moments.
const LAYER_LEN: usize = ROWS * COLUMNS * (2 + 4 + 4 + 4);

/// The bytes of a checkpoint of about `size` bytes, with at least one layer.
pub fn make(size: usize) -> Vec<u8> {
    let mut random = Random(1);
    let mut file = File::default();
    for layer in 0..(size / LAYER_LEN).max(1) {
        add_layer(&mut file, layer, &mut random);
    }
    file.push("optimizer.step", "I64", &[], &12_000_i64.to_le_bytes());
    let tokens: Vec<u8> =
        (0..4096).flat_map(|_| (random.next() as u32 % 50_000).to_le_bytes()).collect();
    file.push("data.tokens", "I32", &[8, 512], &tokens);
    file.finish()
}

fn add_layer(file: &mut File, layer: usize, random: &mut Random) {
    let scale = |random: &mut Random| 2_f32.powi((random.normal() * 1.5) as i32);
    let rows: Vec<f32> = (0..ROWS).map(|_| scale(random)).collect();
    let columns: Vec<f32> = (0..COLUMNS).map(|_| scale(random)).collect();
    let (mut weights, mut masters, mut m, mut v) = (vec![], vec![], vec![], vec![]);
    for row in rows {
        for column in &columns {
            let master = 0.02 * random.normal();
            let size = 1e-4 * row * column;
            let spread = 1.0 + 0.1 * random.normal();
            weights.extend_from_slice(&bf16(master));
            masters.extend_from_slice(&master.to_le_bytes());
            m.extend_from_slice(&(size * random.normal()).to_le_bytes());
            v.extend_from_slice(&(size * size * spread * spread).to_le_bytes());
        }
    }
    let norm: Vec<u8> = (0..COLUMNS).flat_map(|_| bf16(1.0 + 0.05 * random.normal())).collect();
    let shape = [ROWS as u64, COLUMNS as u64];
    file.push(&format!("model.layers.{layer}.weight"), "BF16", &shape, &weights);
    file.push(&format!("model.layers.{layer}.norm.weight"), "BF16", &[COLUMNS as u64], &norm);
    file.push(&format!("optimizer.master.{layer}"), "F32", &shape, &masters);
    file.push(&format!("optimizer.exp_avg.{layer}"), "F32", &shape, &m);
    file.push(&format!("optimizer.exp_avg_sq.{layer}"), "F32", &shape, &v);
}

/// The upper half of an f32, truncated: it looks real without rounding.
fn bf16(value: f32) -> [u8; 2] {
    let [.., low, high] = value.to_le_bytes();
    [low, high]
}

/// splitmix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Approximately normal, with mean 0 and deviation 1: the sum of 12 uniform numbers below 1,
    /// minus 6. Sums of integers are exact, so the file does not depend on a library's logarithm.
    fn normal(&mut self) -> f32 {
        let digits = |bits: u64| (0..4).map(|i| (bits >> (16 * i)) & 0xffff).sum::<u64>();
        let sum: u64 = (0..3).map(|_| digits(self.next())).sum();
        // More digits below those of the sum; otherwise the low bits of the values would be zeros.
        let low = self.next() >> 32;
        let fine = (sum << 32 | low) as f64 / (1_u64 << 48) as f64;
        (fine - 6.0) as f32
    }
}
