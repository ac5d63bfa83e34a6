//! The error of an encoder that cannot express its input.

/// The recipe or the coder cannot express the input.
///
/// Every encoder that returns this error leaves its output as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotExpress;

/// Whether the input was encoded.
pub type Encoded = Result<(), CannotExpress>;

/// Appends to `out` by `encode`. If that fails, `out` is left as it was.
pub(crate) fn all_or_nothing(
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>) -> Encoded,
) -> Encoded {
    let start = out.len();
    encode(out).inspect_err(|_| out.truncate(start))
}

/// An error unless `can`.
pub(crate) fn only_if(can: bool) -> Encoded {
    if can { Ok(()) } else { Err(CannotExpress) }
}

#[cfg(test)]
mod tests;
