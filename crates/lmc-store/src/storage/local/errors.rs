//! What went wrong with an object in a directory.

use lmc_format::{Error, ErrorKind};
use std::io;

/// An error about an object whose file was removed before it had its name.
pub(super) fn swept(name: &str) -> Error {
    let message = format!(
        "the file that should become {name} was removed meanwhile: this process was paused for so \
         long that a prune took it for a dead one; try again"
    );
    Error::new(ErrorKind::Conflict, message)
}

/// An error about an object. Where something that is no file is in its place, or something that is
/// no folder on the way to it, that is damage: it does not go away by trying again.
pub(super) fn object_error(what: impl std::fmt::Display, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory => {
            Error::corrupt(format!("{what}: {error}")).with_source(error)
        }
        _ => Error::io(what, error),
    }
}
