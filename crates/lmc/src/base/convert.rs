//! Converts f32 to bf16 and f16, and back (`docs/format.md`, section 7.5). The bits are the same on
//! every machine. The loops have no branches, so that the compiler can vectorize them.

use lmc_format::Conversion;

const INFINITY: u32 = 0x7f80_0000;

/// Converts the words of `from` into `to`, which must have as many. Panics if it does not, or if
/// there is nothing to convert.
pub(crate) fn convert(conversion: Conversion, from: &[u8], to: &mut [u8]) {
    let expected = conversion.source_len(to.len() as u64);
    assert_eq!(from.len() as u64, expected, "each word becomes one word");
    match conversion {
        Conversion::None => unreachable!("bytes that stay as they are need no conversion"),
        Conversion::Bf16Nearest => each(from, to, bf16_nearest),
        Conversion::Bf16Cut => each(from, to, |u| u >> 16),
        Conversion::F16Nearest => each(from, to, f16_nearest),
        Conversion::F16Cut => each(from, to, f16_cut),
        Conversion::Bf16Widened => each_wide(from, to, |h| h << 16),
        Conversion::F16Widened => each_wide(from, to, f16_widened),
    }
}

fn each_wide(from: &[u8], to: &mut [u8], convert: impl Fn(u32) -> u32) {
    let (from, _) = from.as_chunks();
    let (to, _) = to.as_chunks_mut();
    for (from, to) in from.iter().zip(to) {
        *to = convert(u32::from(u16::from_le_bytes(*from))).to_le_bytes();
    }
}

/// The f32 with the value of an f16. The multiplication is by a power of two and exact.
fn f16_widened(h: u32) -> u32 {
    let (sign, m) = ((h & 0x8000) << 16, h & 0x7fff);
    let subnormal = (m as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
    let offset = if m < 0x7c00 { 112 << 23 } else { 224 << 23 };
    sign | if m < 0x400 { subnormal } else { (m << 13) + offset }
}

fn each(from: &[u8], to: &mut [u8], convert: impl Fn(u32) -> u32) {
    let (from, _) = from.as_chunks();
    let (to, _) = to.as_chunks_mut();
    for (from, to) in from.iter().zip(to) {
        *to = (convert(u32::from_le_bytes(*from)) as u16).to_le_bytes();
    }
}

fn bf16_nearest(u: u32) -> u32 {
    let is_nan = u & 0x7fff_ffff > INFINITY;
    // The sum wraps only for NaNs.
    let rounded = u.wrapping_add(0x7fff + (u >> 16 & 1)) >> 16;
    if is_nan { u >> 16 | 0x40 } else { rounded }
}

fn f16_nearest(u: u32) -> u32 {
    f16(u, |value, shift| {
        let floor = value >> shift;
        // Half of the last place, less one unless the place before it is odd.
        let bias = (1 << (shift - 1)) - 1 + (floor & 1);
        (value + bias) >> shift
    })
}

fn f16_cut(u: u32) -> u32 {
    let finite = f16(u, |value, shift| value >> shift);
    // Only infinity itself becomes infinity.
    let is_over = finite & 0x7fff == 0x7c00 && u & 0x7fff_ffff != INFINITY;
    if is_over { finite - 1 } else { finite }
}

/// The f16 of `u`; `round` shifts a mantissa to the right and rounds it. A value that is too large
/// becomes infinity.
fn f16(u: u32, round: impl Fn(u32, u32) -> u32) -> u32 {
    let sign = u >> 16 & 0x8000;
    let m = u & 0x7fff_ffff;
    // Exponent fields: 113 is the smallest normal exponent of f16, 143 the first that is too large.
    let exponent = m >> 23;
    let mantissa = m & 0x007f_ffff | 0x0080_0000;
    // 24 bits shifted right by 25 or more are below half of the last place.
    let below = 113_u32.saturating_sub(exponent).min(12);
    let field = exponent.max(113) - 113;
    // The leading one adds 1 to the exponent field, and so does a carry.
    let finite = (field << 10) + round(mantissa, 13 + below);
    let magnitude = if m > INFINITY { 0x7e00 } else { finite.min(0x7c00) };
    sign | magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a 16-bit magnitude with this many mantissa bits; infinity counts as the next
    /// number after the largest finite one.
    fn value(code: u32, mantissa_bits: u32, bias: i32) -> f64 {
        let (exponent, mantissa) = (code >> mantissa_bits, code & ((1 << mantissa_bits) - 1));
        let unit = 2_f64.powi(1 - bias - mantissa_bits as i32);
        match exponent {
            0 => f64::from(mantissa) * unit,
            e => f64::from(mantissa + (1 << mantissa_bits)) * unit * 2_f64.powi(e as i32 - 1),
        }
    }

    fn one(conversion: Conversion, u: u32) -> u32 {
        let mut to = [0; 2];
        convert(conversion, &u.to_le_bytes(), &mut to);
        u32::from(u16::from_le_bytes(to))
    }

    /// Checks one f32 that is not a NaN against the definition by values. `infinity` is the code of
    /// infinity in the target; finite magnitudes are below it.
    fn check(pair: [Conversion; 2], u: u32, mantissa_bits: u32, bias: i32, infinity: u32) {
        let m = f64::from(f32::from_bits(u & 0x7fff_ffff));
        let sign = u >> 16 & 0x8000;
        let [nearest, cut] = pair.map(|conversion| one(conversion, u));
        assert_eq!((nearest & 0x8000, cut & 0x8000), (sign, sign), "{u:08x}");
        let (nearest, cut) = (nearest & 0x7fff, cut & 0x7fff);
        let of = |code| value(code, mantissa_bits, bias);
        if m.is_infinite() {
            return assert_eq!((nearest, cut), (infinity, infinity));
        }
        assert!(cut < infinity && of(cut) <= m, "{u:08x} cut to {cut:04x}");
        assert!(cut + 1 == infinity || m < of(cut + 1), "{u:08x} cut to {cut:04x}");
        let distance = |code: u32| (of(code) - m).abs();
        assert!(nearest <= infinity);
        for other in [nearest.saturating_sub(1), (nearest + 1).min(infinity)] {
            // Everything at or above the value that infinity counts as becomes infinity.
            let is_better = distance(other) < distance(nearest) && m < of(infinity);
            let is_even = distance(other) > distance(nearest) || nearest & 1 == 0;
            assert!(!is_better && (is_even || other == nearest || m >= of(infinity)), "{u:08x}");
        }
    }

    /// Tests every f16 and bf16, the f32 neighbours of each, the midpoints between two of them and
    /// the neighbours of those, with both signs.
    #[test]
    fn borders() {
        let f16 = [Conversion::F16Nearest, Conversion::F16Cut];
        for code in 0..=0x7c00 {
            let exact = (value(code, 10, 15) as f32).to_bits();
            let middle = ((value(code, 10, 15) + value(code + 1, 10, 15)) / 2.0) as f32;
            for u in [exact, middle.to_bits()] {
                for u in [u.wrapping_sub(1) & 0x7fff_ffff, u, u + 1] {
                    let u = if u > INFINITY { 0 } else { u };
                    check(f16, u, 10, 15, 0x7c00);
                    check(f16, u | 0x8000_0000, 10, 15, 0x7c00);
                }
            }
        }
        let bf16 = [Conversion::Bf16Nearest, Conversion::Bf16Cut];
        for code in 0..=0x7f7f_u32 {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                check(bf16, code << 16 | low, 7, 127, 0x7f80);
                check(bf16, code << 16 | low | 0x8000_0000, 7, 127, 0x7f80);
            }
        }
        check(bf16, INFINITY, 7, 127, 0x7f80);
        for u in [0, 1, 0x007f_ffff, INFINITY - 1, INFINITY, 0x3300_0000, 0x3300_0001, 0x32ff_ffff]
        {
            check(f16, u, 10, 15, 0x7c00);
        }
    }

    /// Every bf16 and f16 becomes the f32 that is rounded to it, without any rounding.
    #[test]
    fn widened() {
        for h in 0..=0xffff_u16 {
            for (wide, narrow, last) in [
                (Conversion::Bf16Widened, [Conversion::Bf16Nearest, Conversion::Bf16Cut], 0x7f80),
                (Conversion::F16Widened, [Conversion::F16Nearest, Conversion::F16Cut], 0x7c00),
            ] {
                let mut f32 = [0; 4];
                convert(wide, &h.to_le_bytes(), &mut f32);
                let u = u32::from_le_bytes(f32);
                if h & 0x7fff > last {
                    assert!(f32::from_bits(u).is_nan(), "{h:04x}");
                    continue;
                }
                for conversion in narrow {
                    assert_eq!(one(conversion, u), u32::from(h), "{h:04x}");
                }
            }
        }
        let mut nan = [0; 4];
        convert(Conversion::F16Widened, &0xfe01_u16.to_le_bytes(), &mut nan);
        assert_eq!(u32::from_le_bytes(nan), 0xffc0_2000);
    }

    /// NaNs stay NaNs, in the way that the document gives for each conversion.
    #[test]
    fn nans() {
        for payload in [1, 0x3f_ffff, 0x40_0000, 0x7f_ffff, 0xffff, 0x1_0000] {
            for sign in [0, 0x8000_0000] {
                let u = sign | INFINITY | payload;
                assert_eq!(one(Conversion::Bf16Nearest, u), u >> 16 | 0x40);
                assert_eq!(one(Conversion::Bf16Cut, u), u >> 16);
                assert_eq!(one(Conversion::F16Nearest, u), sign >> 16 | 0x7e00);
                assert_eq!(one(Conversion::F16Cut, u), sign >> 16 | 0x7e00);
            }
        }
    }
}
