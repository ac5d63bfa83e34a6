//! Eight bytes in a `u64`, closed up and spread by table, and bits converted to bytes and back.

/// A one in every byte.
pub(in crate::simd) const ONES: u64 = 0x0101_0101_0101_0101;

/// How to close up eight bytes: those that are kept move down by 1, 2 and 4 places, in this order,
/// according to the binary digits of their distance. Spreading takes the steps backwards.
#[derive(Clone, Copy)]
struct Steps {
    /// Which places keep their byte in a step.
    stay: [u64; 3],
    /// Which places get a byte from above.
    come: [u64; 3],
}

/// `STEPS[b]` keeps the bytes whose bit is set in `b`.
static STEPS: [Steps; 256] = steps();

const fn steps() -> [Steps; 256] {
    let mut all = [Steps { stay: [0; 3], come: [0; 3] }; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut place, mut kept) = (0, 0);
        while place < 8 {
            if bits >> place & 1 == 1 {
                let (mut at, mut i) = (place, 0);
                while i < 3 {
                    if (place - kept) >> i & 1 == 1 {
                        at -= 1 << i;
                        all[bits].come[i] |= 0xff << (8 * at);
                    } else {
                        all[bits].stay[i] |= 0xff << (8 * at);
                    }
                    i += 1;
                }
                kept += 1;
            }
            place += 1;
        }
        bits += 1;
    }
    all
}

/// The bytes of `eight` whose bit is set in `bits`, moved down to the first places; zeros above.
#[inline(always)]
pub(in crate::simd) fn close_up(eight: u64, bits: u8) -> u64 {
    let Steps { stay, come } = &STEPS[usize::from(bits)];
    let eight = eight & stay[0] | eight >> 8 & come[0];
    let eight = eight & stay[1] | eight >> 16 & come[1];
    eight & stay[2] | eight >> 32 & come[2]
}

/// The first bytes of `eight` moved up to the places whose bit is set in `bits`; zeros elsewhere.
#[inline(always)]
pub(in crate::simd) fn spread(eight: u64, bits: u8) -> u64 {
    let Steps { stay, come } = &STEPS[usize::from(bits)];
    let eight = eight & stay[2] | (eight & come[2]) << 32;
    let eight = eight & stay[1] | (eight & come[1]) << 16;
    eight & stay[0] | (eight & come[0]) << 8
}

/// `BYTE_MASKS[b]` has byte `j` all ones where bit `j` of `b` is set.
pub(in crate::simd) static BYTE_MASKS: [u64; 256] = byte_masks();

const fn byte_masks() -> [u64; 256] {
    let mut masks = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut j = 0;
        while j < 8 {
            if bits >> j & 1 == 1 {
                masks[bits] |= 0xff << (8 * j);
            }
            j += 1;
        }
        bits += 1;
    }
    masks
}

/// The lowest bits of 64 bytes whose other bits are all 0.
#[inline(always)]
pub(in crate::simd) fn gather(flags: &[u8; 64]) -> u64 {
    let mut bits = [0; 8];
    for (bits, &eight) in bits.iter_mut().zip(flags.as_chunks().0) {
        *bits = (u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    u64::from_le_bytes(bits)
}

/// Byte `j` is the number of set bits in the bytes 0 to `j` of `bits`.
#[inline(always)]
pub(in crate::simd) fn counts_to(bits: u64) -> u64 {
    let pairs = bits - (bits >> 1 & (0x55 * ONES));
    let fours = (pairs & (0x33 * ONES)) + (pairs >> 2 & (0x33 * ONES));
    let eights = (fours + (fours >> 4)) & (0x0f * ONES);
    eights.wrapping_mul(ONES)
}
