//! What an encoder says that cannot express its input.

/// The recipe or the coder cannot express the input.
///
/// The contract of every encoder that returns this: its output is as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotExpress;

/// Whether the input was encoded.
pub type Encoded = Result<(), CannotExpress>;

/// Appends to `out` by `encode`. If that fails, `out` is as it was.
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
