//! Wide symbols to bytes (`docs/format.md`, section 3.3): a window of 255 values, and exceptions
//! beyond it.

use crate::simd::Isa;
use crate::simd::symbols;
use lmc_format::{Error, Reader, Result};

/// The byte of a symbol outside the window.
pub(crate) const EXCEPTION: u8 = 255;

/// Symbols that are checked together: exceptions are rare.
const STEP: usize = 512;

/// Writes the window byte of each symbol to `plane`, and appends the symbols outside it to
/// `exceptions`.
pub(crate) fn forward(
    isa: Isa,
    symbols: &[u16],
    bias: u16,
    plane: &mut [u8],
    exceptions: &mut Vec<u8>,
) {
    for (bytes, symbols) in plane.chunks_mut(STEP).zip(symbols.chunks(STEP)) {
        if symbols::narrow(isa, symbols, bias, bytes) != EXCEPTION {
            continue;
        }
        for (_, symbol) in bytes.iter().zip(symbols).filter(|&(&b, _)| b == EXCEPTION) {
            exceptions.extend_from_slice(&symbol.to_le_bytes());
        }
    }
}

/// Undoes [`forward`], taking the exceptions from `input`.
pub(crate) fn inverse(
    isa: Isa,
    plane: &[u8],
    bias: u16,
    input: &mut Reader,
    symbols: &mut [u16],
) -> Result<()> {
    symbols::widen(isa, plane, bias, symbols);
    for (bytes, symbols) in plane.chunks(STEP).zip(symbols.chunks_mut(STEP)) {
        if symbols::highest(isa, bytes) != EXCEPTION {
            continue;
        }
        for (_, symbol) in bytes.iter().zip(symbols).filter(|&(&b, _)| b == EXCEPTION) {
            *symbol = input.u16("exception").map_err(|e: Error| e.at("wide symbol"))?;
        }
    }
    Ok(())
}
