//! Floats to symbols by their distance from the base, and back (`docs/format.md`, section 3.6).
//!
//! Values are worked on in groups of 64. The contexts of a group are masks, one bit per value. So
//! one compress takes the symbols of a context out of a group, and one expand puts them back.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod contexts;
#[cfg(target_arch = "x86_64")]
mod fused;
mod measure;

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::IsaKind;
use super::chain::Hints;
#[cfg(target_arch = "x86_64")]
pub(in crate::simd) use bits::Writer;
pub(crate) use bits::{BitString, pack, unpack};
pub(crate) use contexts::{context_masks, count_masks, exponents, largest, partition, spread};
pub(crate) use measure::{measure, restore};

/// How the context of a value follows from its base.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextRule<'a> {
    /// Bits of the exponent, which is just below the sign.
    pub bits: u8,
    /// Subtracted from the exponent.
    pub first: u16,
    /// As in the recipe.
    pub bounds: &'a [u8],
}

/// The output of sorting a segment.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Symbols of each context, with room for [`GROUP`] more than there are values.
    pub symbols: Vec<Vec<u8>>,
    /// How many symbols there are.
    pub lens: Vec<usize>,
    /// Payloads, one string for each byte that they can have.
    pub strings: Vec<BitString>,
}

/// The unused rest of a segment's input, while it is restored.
#[derive(Debug)]
pub(crate) struct Unread<'a> {
    /// The masks that [`mask_fast`] made.
    pub masks: &'a [u64],
    /// Symbols of all contexts, followed by as many bytes as there are values, plus [`GROUP`]:
    /// whatever the places, no read goes beyond the end.
    pub symbols: &'a [u8],
    /// The place of the next symbol of each context.
    pub places: Vec<usize>,
    /// Payloads, and the next bit.
    pub strings: Vec<(&'a [u8], usize)>,
}

/// Sorts as many of the first `values` as one fast pass can handle. Returns their number. Their raw
/// bytes go to `records`.
pub(crate) fn sort_fast(
    isa: Isa,
    table: &Symbols,
    rule: ContextRule,
    values: &[u8],
    base: &[u8],
    streams: &mut Streams,
    records: &mut [u8],
) -> usize {
    assert_eq!(values.len(), base.len());
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 && fused::fits(table.layout, rule) {
        // SAFETY: the isa proves AVX-512, and the layout fits.
        return unsafe { fused::sort(table, rule, values, base, streams, records) };
    }
    0
}

/// Makes the masks of the contexts of the first values with this base, for [`restore_fast`], as
/// many as one fast pass can handle. Adds to `counts` how many values each context has. Returns the
/// number of values handled.
pub(crate) fn mask_fast(
    isa: Isa,
    layout: ClassLayout,
    rule: ContextRule,
    base: &[u8],
    masks: &mut Vec<u64>,
    counts: &mut [usize],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 && fused::fits(layout, rule) {
        // SAFETY: the isa proves AVX-512, and the layout fits.
        return unsafe { fused::mask(layout, rule, base, masks, counts) };
    }
    0
}

/// Restores as many of the first values as one fast pass can handle. Returns their number.
#[expect(clippy::too_many_arguments, reason = "a kernel takes one buffer for each kind of byte")]
pub(crate) fn restore_fast(
    isa: Isa,
    table: &Symbols,
    rule: ContextRule,
    unread: &mut Unread,
    records: &[u8],
    base: &[u8],
    dst: &mut [u8],
    hints: Hints,
) -> usize {
    assert_eq!(dst.len(), base.len());
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 && fused::fits(table.layout, rule) {
        // SAFETY: the isa proves AVX-512, and the layout fits.
        return unsafe { fused::restore(table, rule, unread, records, base, dst, hints) };
    }
    0
}

/// Values of a group.
pub(crate) const GROUP: usize = 64;

/// Where the parts of a value are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassLayout {
    /// log2 of the bytes of a value.
    pub width_log2: u8,
    /// Low bytes of the difference that are stored raw.
    pub raw_bytes: u8,
    /// Whether the symbol holds the sign of the difference.
    pub has_sign: bool,
    /// Whether the symbol holds the bit below the leading one.
    pub has_top_bit: bool,
}

impl ClassLayout {
    /// Bytes that a value's payload can take.
    pub(crate) fn payload_bytes(self) -> usize {
        (1 << self.width_log2) - usize::from(self.raw_bytes)
    }

    /// Whether the coded difference has 16 bits and the symbol holds both the sign and the top bit,
    /// or neither. The fast passes handle only this case.
    #[cfg(target_arch = "x86_64")]
    fn is_16_bits(self) -> bool {
        let widths_fit = matches!((self.width_log2, self.raw_bytes), (1, 0) | (2, 2));
        widths_fit && self.has_sign == self.has_top_bit
    }

    /// The number of symbols of values that keep the sign of their base; the number of those that
    /// change it is the same.
    fn half(self) -> u32 {
        let below = u32::from(self.has_sign) + u32::from(self.has_top_bit);
        (8 * self.payload_bytes() as u32 + 1) << below
    }
}

/// The information that a symbol gives about its value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    /// The bits of the difference that the symbol holds, at their places.
    pub magnitude: u64,
    /// Whether the symbol says that the difference is negative.
    pub is_negative: bool,
    /// The bit of the payload that says this, if the symbol does not.
    pub sign_bit: Option<u8>,
    /// Whether it says that the sign differs from the base.
    pub is_flipped: bool,
}

/// Tables by symbol.
#[derive(Debug)]
pub(crate) struct Symbols {
    /// Where the parts of a value are.
    pub layout: ClassLayout,
    /// The largest possible symbol.
    pub max: u8,
    /// Bits of the payload.
    pub widths: [u8; 256],
    /// The rest of the difference.
    pub heads: [Head; 256],
    /// Bits of the payload in each plane.
    pub planes: Vec<PlaneWidths>,
}

impl Symbols {
    /// The tables of a layout.
    pub(crate) fn new(layout: ClassLayout) -> Self {
        let half = layout.half();
        let max = (2 * half - 1) as u8;
        let heads = [Head::default(); 256];
        let mut symbols = Self { layout, max, widths: [0; 256], heads, planes: Vec::new() };
        for symbol in 0..=max {
            let is_flipped = u32::from(symbol) >= half;
            let mut class = u32::from(symbol) % half;
            let is_negative = layout.has_sign && class & 1 == 1;
            class >>= u32::from(layout.has_sign);
            let top = if layout.has_top_bit { u64::from(class & 1) } else { 0 };
            class >>= u32::from(layout.has_top_bit);
            let (mut magnitude, mut width, mut sign_bit) = (0, 0, None);
            if class > 0 {
                magnitude = 1 << (class - 1) | top << (class - 1) >> 1;
                let rest = (class - 1).saturating_sub(u32::from(layout.has_top_bit));
                width = rest + u32::from(!layout.has_sign);
                sign_bit = (!layout.has_sign).then_some(rest as u8);
            }
            symbols.widths[usize::from(symbol)] = width as u8;
            symbols.heads[usize::from(symbol)] =
                Head { magnitude, is_negative, sign_bit, is_flipped };
        }
        let planes = 0..layout.payload_bytes() as u8;
        symbols.planes = planes.map(|plane| symbols.plane_widths(plane)).collect();
        symbols
    }

    fn plane_widths(&self, plane: u8) -> PlaneWidths {
        let by_symbol = self.widths.map(|width| width.saturating_sub(8 * plane).min(8));
        PlaneWidths { by_symbol }
    }
}

/// How many bits of a payload's byte are stored, by symbol.
#[derive(Debug)]
pub(crate) struct PlaneWidths {
    /// Number of bits, at most 8.
    pub by_symbol: [u8; 256],
}
