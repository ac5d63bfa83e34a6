//! The only error type of the workspace: a kind to match on and a sentence to read. Kept separately
//! are the places where it happened, advice, and the source.

use crate::advice::Advice;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What went wrong, grouped by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not what an encoder writes.
    Corrupt,
    /// The bytes end before a field that must be there.
    Truncated,
    /// The bytes need a newer reader.
    Unsupported,
    /// A limit was exceeded that the caller can raise.
    LimitExceeded,
    /// The call itself is wrong: a buffer of the wrong size, a range out of bounds.
    InvalidArgument,
    /// The requested thing does not exist.
    NotFound,
    /// The thing to be created already exists.
    AlreadyExists,
    /// Someone else was first, or removed something that is needed: the same call may work if it is
    /// repeated.
    Conflict,
    /// There is no store at the given place.
    NoStore,
    /// The operating system refused to read or write.
    Io,
    /// The work was stopped before it was done.
    Interrupted,
}

/// An error. Its text is one line that says where it happened and what is wrong, in lower case.
///
/// It can be cloned and compared, so a result that many threads wait for can be kept once and
/// handed to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What to match on.
    pub kind: ErrorKind,
    // Boxed, so that a `Result` is small: errors happen only with bad files.
    details: Box<Details>,
}

#[derive(Clone, Debug)]
struct Details {
    /// Where it happened, innermost place last.
    places: Vec<String>,
    message: String,
    advice: Option<Advice>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

// Two system errors cannot be compared, and their text is part of the message.
impl PartialEq for Details {
    fn eq(&self, other: &Self) -> bool {
        let Self { places, message, advice, source: _ } = self;
        (places, message, advice) == (&other.places, &other.message, &other.advice)
    }
}

impl Eq for Details {}

/// Result with the workspace's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind`; `message` is lower case, one line, and names no option or command of a
    /// user interface: that is [`Advice`].
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let details = Details { places: Vec::new(), message, advice: None, source: None };
        Self { kind, details: Box::new(details) }
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

    /// An error of the operating system, which becomes the source; `what` says what was attempted.
    pub fn io(what: impl fmt::Display, error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{what}: {error}")).with_source(error)
    }

    /// The same error at `place`, which encloses the places that it already has.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.details.places.insert(0, place.to_string());
        self
    }

    /// The same error with this advice, which replaces any earlier advice.
    #[must_use]
    pub fn with_advice(mut self, advice: Advice) -> Self {
        self.details.advice = Some(advice);
        self
    }

    /// The same error with its source.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.details.source = Some(Arc::new(source));
        self
    }

    /// Whether the system was short of something that other work may have had meanwhile: open
    /// files, memory, or room on a disk.
    pub fn is_shortage(&self) -> bool {
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = source {
            if error.downcast_ref::<io::Error>().is_some_and(is_shortage) {
                return true;
            }
            source = error.source();
        }
        false
    }

    /// Where it happened, innermost place last.
    pub fn places(&self) -> &[String] {
        &self.details.places
    }

    /// What is wrong, without the places.
    pub fn message(&self) -> &str {
        &self.details.message
    }

    /// Advice on what would help, if there is any. It is not part of the text.
    pub fn advice(&self) -> Option<Advice> {
        self.details.advice
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.places().iter().try_for_each(|place| write!(f, "{place}: "))?;
        f.write_str(self.message())
    }
}

/// The same for an error of the system.
pub fn is_shortage(error: &io::Error) -> bool {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    // Too many open files, in this process or in all.
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.kind(), OutOfMemory | QuotaExceeded | StorageFull)
        || matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.details.source.as_deref()?;
        Some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    fn refused() -> Error {
        Error::io("cannot open it", io::Error::from(io::ErrorKind::PermissionDenied))
    }

    /// The text is one line, outermost place first, without the advice.
    #[test]
    fn text_is_places_and_message() {
        let error = Error::corrupt("checksum").at("block 1").at("w").with_advice(Advice::Overwrite);
        assert_eq!(error.to_string(), "w: block 1: checksum");
        assert_eq!((error.places().len(), error.message()), (2, "checksum"));
        assert_eq!(error.advice(), Some(Advice::Overwrite));
    }

    /// A system error stays available as the source, and its kind determines ours.
    #[test]
    fn io_errors_keep_their_source() {
        let error = refused().at("file");
        assert_eq!(error.to_string(), "file: cannot open it: permission denied");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::PermissionDenied));
        let kind = |kind| Error::io("cannot", io::Error::from(kind)).kind;
        assert_eq!(kind(io::ErrorKind::NotFound), ErrorKind::NotFound);
        assert_eq!(kind(io::ErrorKind::AlreadyExists), ErrorKind::AlreadyExists);
        assert_eq!(kind(io::ErrorKind::Other), ErrorKind::Io);
    }

    /// A shortage is known as such wherever it is in the chain of sources.
    #[test]
    fn shortages() {
        let full = Error::io("cannot write", io::Error::from_raw_os_error(28));
        let files = Error::io("cannot open it", io::Error::from_raw_os_error(24));
        let denied = Error::io("cannot open it", io::ErrorKind::PermissionDenied.into());
        assert!(full.is_shortage() && files.is_shortage() && !denied.is_shortage());
        let outer = Error::corrupt("no").with_source(Error::corrupt("no").with_source(files));
        assert!(outer.is_shortage());
    }

    /// Everything but the source counts when errors are compared.
    #[test]
    fn comparison_leaves_out_the_source() {
        let same = Error::new(ErrorKind::Io, "cannot open it: permission denied");
        assert_eq!(refused(), same);
        assert_eq!(refused().clone(), refused());
        assert_ne!(same.clone().at("file"), same);
        assert_ne!(same.clone().with_advice(Advice::Upgrade), same);
        assert_ne!(Error::corrupt(same.message()), same);
    }

    /// A result without a value is no larger than two pointers.
    #[test]
    fn errors_are_small() {
        assert!(size_of::<Result<()>>() <= 2 * size_of::<usize>());
    }
}
