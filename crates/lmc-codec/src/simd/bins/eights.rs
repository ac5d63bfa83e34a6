//! Differences of 8-byte words from their base, for kernels that work on words of 2 bytes. These
//! are plain loops; the compiler builds them for the instruction set of the function that they are
//! inlined into.

/// Added to a difference before its low `RAW` bytes are cut off.
const fn half<const RAW: usize>() -> u64 {
    if RAW > 0 { 1 << (8 * RAW - 1) } else { 0 }
}

/// The differences of `N` values from their base.
pub(super) struct Apart<const N: usize> {
    /// Differences without the raw bytes; those that do not fit have the largest possible value.
    pub coded: [i16; N],
    /// The top 16 bits of the bases.
    pub tops: [u16; N],
    /// The top 16 bits of the bits that changed.
    pub changed: [u16; N],
}

/// # Safety
/// `N` words can be read.
#[inline(always)]
unsafe fn words<const N: usize>(from: *const u8) -> [u64; N] {
    // SAFETY: guaranteed by the caller.
    unsafe { from.cast::<[u64; N]>().read_unaligned() }
}

/// Computes the differences of `N` values from their base. Their raw bytes go to `records`.
///
/// # Safety
/// `N` values can be read at `values` and at `base`, and their raw bytes written at `records`.
#[inline(always)]
pub(super) unsafe fn load<const N: usize, const RAW: usize>(
    values: *const u8,
    base: *const u8,
    records: *mut u8,
    is_integer: bool,
) -> Apart<N> {
    // SAFETY: guaranteed by the caller.
    let (xs, bs) = unsafe { (words::<N>(values), words::<N>(base)) };
    let magnitudes = u64::MAX >> u32::from(!is_integer);
    let mut apart = Apart { coded: [0; N], tops: [0; N], changed: [0; N] };
    let mut raw = [0_u64; N];
    for i in 0..N {
        let difference = (xs[i] & magnitudes).wrapping_sub(bs[i] & magnitudes);
        raw[i] = difference.wrapping_add(half::<RAW>());
        let coded = raw[i] as i64 >> (8 * RAW);
        apart.coded[i] = coded.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        apart.tops[i] = (bs[i] >> 48) as u16;
        apart.changed[i] = (((xs[i] ^ bs[i]) & !magnitudes) >> 48) as u16;
    }
    for (i, raw) in raw.iter().enumerate() {
        // SAFETY: guaranteed by the caller.
        unsafe { records.add(RAW * i).copy_from_nonoverlapping(raw.to_le_bytes().as_ptr(), RAW) };
    }
    apart
}

/// The top 16 bits of `N` bases.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(super) unsafe fn tops<const N: usize>(base: *const u8) -> [u16; N] {
    // SAFETY: guaranteed by the caller.
    unsafe { words::<N>(base) }.map(|base| (base >> 48) as u16)
}

/// Undoes [`load`]; the top bits of `flips` say where the sign changes.
///
/// # Safety
/// `N` values can be read at `base` and written at `to`, and their raw bytes read at `records`.
#[inline(always)]
pub(super) unsafe fn store<const N: usize, const RAW: usize>(
    coded: [i16; N],
    flips: [u16; N],
    base: *const u8,
    records: *const u8,
    to: *mut u8,
    is_integer: bool,
) {
    let magnitudes = u64::MAX >> u32::from(!is_integer);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut values = words::<N>(base);
        for i in 0..N {
            let mut record = [0; 8];
            record.as_mut_ptr().copy_from_nonoverlapping(records.add(RAW * i), RAW);
            let low = u64::from_le_bytes(record).wrapping_sub(half::<RAW>());
            let apart = (i64::from(coded[i]) << (8 * RAW)).wrapping_add(low as i64) as u64;
            let magnitude = (values[i] & magnitudes).wrapping_add(apart) & magnitudes;
            let sign = (values[i] ^ u64::from(flips[i]) << 48) & !magnitudes;
            values[i] = magnitude | sign;
        }
        to.cast::<[u64; N]>().write_unaligned(values);
    }
}
