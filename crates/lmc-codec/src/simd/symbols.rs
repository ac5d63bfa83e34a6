//! Loops over symbols, compiled for every instruction set: windows, offsets, sums.

use super::words::per_isa;

per_isa! {
    /// `plane[i]` = the symbol's distance from `bias`; 255 if the distance is 255 or more, or the
    /// symbol is below `bias`. Returns the largest byte.
    pub(crate) fn narrow(symbols: &[u16], bias: u16, plane: &mut [u8]) -> u8 {
        let mut most = 0;
        for (byte, &symbol) in plane.iter_mut().zip(symbols) {
            let distance = symbol.wrapping_sub(bias).min(255);
            *byte = distance as u8;
            most = distance.max(most);
        }
        most as u8
    }
}

per_isa! {
    /// The same for each symbol minus `row + cols[i]`, modulo `mask + 1`.
    pub(crate) fn narrow_less(
        symbols: &[u16],
        row: u16,
        cols: &[u8],
        mask: u16,
        bias: u16,
        plane: &mut [u8],
    ) -> u8 {
        let mut most = 0;
        for ((byte, &symbol), &col) in plane.iter_mut().zip(symbols).zip(cols) {
            let left = symbol.wrapping_sub(row.wrapping_add(u16::from(col))) & mask;
            let distance = left.wrapping_sub(bias).min(255);
            *byte = distance as u8;
            most = distance.max(most);
        }
        most as u8
    }
}

per_isa! {
    /// `symbols[i]` = `bias` + the byte.
    pub(crate) fn widen(plane: &[u8], bias: u16, symbols: &mut [u16]) {
        for (symbol, &byte) in symbols.iter_mut().zip(plane) {
            *symbol = bias.wrapping_add(u16::from(byte));
        }
    }
}

per_isa! {
    /// Subtracts `row + cols[i]` from each symbol, modulo `mask + 1`.
    pub(crate) fn subtract16(symbols: &mut [u16], row: u16, cols: &[u8], mask: u16) {
        for (symbol, &col) in symbols.iter_mut().zip(cols) {
            *symbol = symbol.wrapping_sub(row.wrapping_add(u16::from(col))) & mask;
        }
    }
}

per_isa! {
    /// Adds `row + cols[i]` to each symbol, modulo `mask + 1`.
    pub(crate) fn add16(symbols: &mut [u16], row: u16, cols: &[u8], mask: u16) {
        for (symbol, &col) in symbols.iter_mut().zip(cols) {
            *symbol = symbol.wrapping_add(row.wrapping_add(u16::from(col))) & mask;
        }
    }
}

per_isa! {
    /// Subtracts `row + cols[i]` from each byte, modulo `mask + 1`.
    pub(crate) fn subtract8(plane: &mut [u8], row: u8, cols: &[u8], mask: u8) {
        for (byte, &col) in plane.iter_mut().zip(cols) {
            *byte = byte.wrapping_sub(row.wrapping_add(col)) & mask;
        }
    }
}

per_isa! {
    /// Adds `row + cols[i]` to each byte, modulo `mask + 1`.
    pub(crate) fn add8(plane: &mut [u8], row: u8, cols: &[u8], mask: u8) {
        for (byte, &col) in plane.iter_mut().zip(cols) {
            *byte = byte.wrapping_add(row.wrapping_add(col)) & mask;
        }
    }
}

per_isa! {
    /// Adds each symbol, clamped to `low` and `high`, to its sum.
    pub(crate) fn add_to_sums(symbols: &[u16], low: u16, high: u16, sums: &mut [u32]) {
        for (sum, &symbol) in sums.iter_mut().zip(symbols) {
            *sum += u32::from(symbol.clamp(low, high));
        }
    }
}

per_isa! {
    /// The sum of all symbols, each clamped to `low` and `high`, minus the sum of `cols`.
    pub(crate) fn sum_less_cols(symbols: &[u16], low: u16, high: u16, cols: &[u8]) -> i64 {
        let mut sum = 0_i32;
        for (&symbol, &col) in symbols.iter().zip(cols) {
            sum += i32::from(symbol.clamp(low, high)) - i32::from(col);
        }
        i64::from(sum)
    }
}

per_isa! {
    /// The largest byte; 0 if there is none.
    pub(crate) fn highest(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |most, &byte| byte.max(most))
    }
}
