//! Errors about objects in a directory.

use lmc_format::{Error, ErrorKind};
use std::io;

/// The error about an object whose file was removed before it got its name.
pub(super) fn swept(name: &str) -> Error {
    let message = format!(
        "the file that should become {name} was removed meanwhile: this process was paused for so \
         long that a prune considered it dead; try again"
    );
    Error::new(ErrorKind::Conflict, message)
}

/// An error about an object. If something that is not a file has its name, or something that is not
/// a folder is on the way to it, that is damage: trying again does not help.
pub(super) fn object_error(what: impl std::fmt::Display, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory => {
            Error::corrupt(format!("{what}: {error}")).with_source(error)
        }
        _ => Error::io(what, error),
    }
}
