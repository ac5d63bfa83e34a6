//! Generated tensors for tests: realistic and extreme.

/// A small seeded generator (xorshift64*); the same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number of roughly normal distribution: the sum of twelve uniform ones.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next_u64() >> 32) as u8).collect()
    }
}

/// `len` bytes of lines like those of a log of training.
pub fn log(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::new();
    let mut step = 0;
    while text.len() < len {
        let (loss, rate) = (random.below(100_000), random.below(50));
        let line = format!("{{\"step\": {step}, \"loss\": 2.{loss:05}, \"rate\": {rate}e-5}},\n");
        text.extend_from_slice(line.as_bytes());
        step += 1;
    }
    text.truncate(len);
    text
}

/// What the bytes of a generated tensor look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes with no structure.
    Noise,
    /// Words like weights: normally distributed floats, or small integers of either sign.
    Weights,
    /// Non-negative floats with a scale for each row and column of a matrix.
    Scaled,
    /// Mostly zero words, the others like weights.
    Sparse,
    /// Words with their low half zero: short floats widened.
    Widened,
    /// Long stretches of equal words.
    Stretches,
    /// The same word repeated.
    Constant,
    /// NaNs with payloads, infinities, -0, denormals.
    Extremes,
    /// Few different words: weights quantized with one scale and multiplied out again.
    Quantized,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Noise,
        Self::Weights,
        Self::Scaled,
        Self::Sparse,
        Self::Widened,
        Self::Stretches,
        Self::Constant,
        Self::Extremes,
        Self::Quantized,
    ];
}

/// `n` words of `width` bytes of this kind; `float` words hold floats of that width (bf16 for two
/// bytes), others integers.
pub fn words(kind: Kind, width: usize, float: bool, n: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let row_len = 48;
    let scales: Vec<f64> = (0..row_len).map(|_| (3.0 * random.normal()).exp2()).collect();
    let mut last = word(width, float, 0.5);
    let mut bytes = Vec::with_capacity(n * width);
    for i in 0..n {
        let value = match kind {
            Kind::Noise => random.next_u64(),
            Kind::Weights => word(width, float, 0.02 * random.normal()),
            Kind::Scaled => {
                let row = (3.0 * Random::new(seed + (i / row_len) as u64).normal()).exp2();
                let noise = (0.3 * random.normal()).exp2();
                word(width, float, row * scales[i % row_len] * noise)
            }
            Kind::Sparse if random.below(10) > 0 => 0,
            Kind::Sparse => word(width, float, random.normal()),
            Kind::Widened => word(width, float, random.normal()) & u64::MAX << (4 * width),
            Kind::Stretches => {
                if random.below(300) == 0 {
                    last = word(width, float, random.normal());
                }
                last
            }
            Kind::Constant => word(width, float, 1.5),
            Kind::Extremes => extreme(width, &mut random),
            Kind::Quantized => word(width, float, 0.003 * (20.0 * random.normal()).round()),
        };
        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    bytes
}

fn word(width: usize, float: bool, value: f64) -> u64 {
    match (float, width) {
        (true, 2) => u64::from((value as f32).to_bits() >> 16),
        (true, 4) => u64::from((value as f32).to_bits()),
        (true, 8) => value.to_bits(),
        // One byte: sign, four bits of exponent, three of mantissa, cut from a float.
        (true, _) => {
            let bits = (value as f32).to_bits();
            let exponent = (i64::from(bits >> 23 & 255) - 120).clamp(0, 15) as u64;
            u64::from(bits >> 31) << 7 | exponent << 3 | u64::from(bits >> 20 & 7)
        }
        (false, _) => (value * 1000.0) as i64 as u64,
    }
}

fn extreme(width: usize, random: &mut Random) -> u64 {
    let all = u64::MAX >> (64 - 8 * width);
    let sign = 1 << (8 * width - 1);
    match random.below(8) {
        0 => 0,
        1 => sign,
        2 => all,
        3 => all >> 1,
        4 => random.next_u64() & 0xff,
        5 => sign | random.next_u64() & 0xff,
        6 => all - random.next_u64() % 1000 % all.max(1),
        _ => random.next_u64() & all,
    }
}
