//! Casts from f32 to narrower floats, rounding to nearest, ties to even.
//!
//! f16 and e5m2 overflow to infinity as in IEEE; e4m3 has no infinity and saturates at 448.

/// The exponent and mantissa widths of a target.
#[derive(Clone, Copy)]
struct Narrow {
    exponent_bits: u32,
    mantissa_bits: u32,
}

const F16: Narrow = Narrow { exponent_bits: 5, mantissa_bits: 10 };
const E5M2: Narrow = Narrow { exponent_bits: 5, mantissa_bits: 2 };
const E4M3: Narrow = Narrow { exponent_bits: 4, mantissa_bits: 3 };

/// bf16 bits of a value that is not a NaN, rounded to nearest, ties to even.
pub fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Bits of the f16 nearest to `x`.
pub fn f16_bits(x: f32) -> u16 {
    let code = ieee_magnitude(x, F16) as u16;
    code | (u16::from(x.is_sign_negative()) << 15)
}

/// Bits of the fp8 e5m2 nearest to `x`.
pub fn e5m2_bits(x: f32) -> u8 {
    let code = ieee_magnitude(x, E5M2) as u8;
    code | (u8::from(x.is_sign_negative()) << 7)
}

/// Bits of the fp8 e4m3 (the "fn" kind, without infinity) nearest to `x`.
pub fn e4m3_bits(x: f32) -> u8 {
    let code = if x.is_nan() { 0x7f } else { finite_magnitude(x, E4M3).min(0x7e) as u8 };
    code | (u8::from(x.is_sign_negative()) << 7)
}

/// The power of two that brings `max_abs` as close under `limit` as it can; 1 for all-zero data.
pub fn power_of_two_scale(max_abs: f32, limit: f32) -> f32 {
    if max_abs > 0.0 && max_abs.is_finite() { (limit / max_abs).log2().floor().exp2() } else { 1.0 }
}

/// Magnitude bits with IEEE infinity and one quiet NaN.
fn ieee_magnitude(x: f32, to: Narrow) -> u32 {
    let infinity = ((1 << to.exponent_bits) - 1) << to.mantissa_bits;
    if x.is_nan() {
        return infinity | 1 << (to.mantissa_bits - 1);
    }
    finite_magnitude(x, to).min(infinity)
}

/// Magnitude bits as if the exponent had no upper limit; infinity gives a number above any code.
fn finite_magnitude(x: f32, to: Narrow) -> u32 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let exponent = (magnitude >> 23) as i32 - 127;
    if exponent == -127 {
        return 0; // f32 subnormals are far below half of any target's smallest value.
    }
    let bias = (1 << (to.exponent_bits - 1)) - 1;
    let below_normal = (1 - bias - exponent).max(0) as u32;
    let mantissa = (magnitude & 0x007f_ffff) | 0x0080_0000;
    let rounded = shift_right_even(mantissa, 23 - to.mantissa_bits + below_normal);
    // The leading one of a normal value adds 1 to the exponent field, and so does a carry.
    let field = (exponent + bias - 1).max(0) as u32;
    rounded + (field << to.mantissa_bits)
}

/// `value >> shift`, rounded to nearest, ties to even.
fn shift_right_even(value: u32, shift: u32) -> u32 {
    if shift > 31 {
        return 0;
    }
    let floor = value >> shift;
    let rest = value - (floor << shift);
    let half = 1 << (shift - 1);
    floor + u32::from(rest > half || (rest == half && floor & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with known f16 bits: normal, tie both ways, subnormal, overflow, NaN.
    #[test]
    fn f16_known_bits() {
        let ulp = 2f32.powi(-10);
        let cases = [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (1.0 + ulp / 2.0, 0x3c00),
            (1.0 + ulp * 1.5, 0x3c02),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (2f32.powi(-24), 1),
            (2f32.powi(-25), 0),
            (2f32.powi(-25) * 1.01, 1),
            (2f32.powi(-14), 0x0400),
        ];
        for (x, bits) in cases {
            assert_eq!(f16_bits(x), bits, "{x}");
        }
        assert_eq!(f16_bits(f32::NAN) & 0x7fff, 0x7e00);
    }

    /// Values with known fp8 bits, and the two ways to overflow.
    #[test]
    fn fp8_known_bits() {
        for (x, bits) in [(1.0, 0x38), (448.0, 0x7e), (1e9, 0x7e), (2f32.powi(-9), 1)] {
            assert_eq!(e4m3_bits(x), bits, "{x}");
        }
        for (x, bits) in [(1.0, 0x3c), (57344.0, 0x7b), (1e9, 0x7c), (2f32.powi(-16), 1)] {
            assert_eq!(e5m2_bits(x), bits, "{x}");
        }
        assert_eq!(e4m3_bits(f32::NAN) & 0x7f, 0x7f);
    }

    /// Casting the exact value of every finite e4m3 code gives that code back.
    #[test]
    fn e4m3_codes_are_fixed_points() {
        for code in 0..0x7f_u8 {
            let (exponent, mantissa) = (i32::from(code >> 3), f32::from(code & 7) / 8.0);
            let value = match exponent {
                0 => mantissa * 2f32.powi(-6),
                e => (1.0 + mantissa) * 2f32.powi(e - 7),
            };
            assert_eq!(e4m3_bits(value), code);
            assert_eq!(e4m3_bits(-value), code | 0x80);
        }
    }

    /// The scale is a power of two and the scaled maximum is in the top half below the limit.
    #[test]
    fn scale_fits() {
        let scale = power_of_two_scale(0.3, 448.0);
        assert_eq!(scale, 1024.0);
        assert_eq!(power_of_two_scale(0.0, 448.0), 1.0);
    }
}
