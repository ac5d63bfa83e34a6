//! The one error type of the workspace: a kind to match on, a sentence to read.

use std::fmt;

/// What went wrong, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not what an encoder writes.
    Corrupt,
    /// The bytes end before a field that must be there.
    Truncated,
    /// The bytes need a newer reader.
    Unsupported,
    /// A bound was exceeded that the caller can raise.
    LimitExceeded,
    /// The call itself is wrong: a buffer of the wrong size, a range out of bounds.
    InvalidArgument,
    /// What was asked for is not there.
    NotFound,
    /// What should be made is there already.
    AlreadyExists,
    /// Someone else was there first, or took away what is needed: the same call may work again.
    Conflict,
    /// There is no store where one was named.
    NoStore,
    /// The operating system refused to read or write.
    Io,
    /// The work was made to end before it was done.
    Interrupted,
}

/// An error with its kind and one line of text: what was read, what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What to match on.
    pub kind: ErrorKind,
    message: String,
}

/// Result with the workspace's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind`; `message` is lower case, one line.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Bytes that no encoder writes.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// Bytes that end too early.
    pub fn truncated(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Truncated, message)
    }

    /// A wrong call.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// The same error with `place` in front of its text.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
