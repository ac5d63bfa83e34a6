//! Which bucket is meant, and errors that name it and say what to do.

use lmc_format::{Error, ErrorKind};
use std::fmt;
use url::Url;

/// A bucket and a prefix, as the user wrote them.
#[derive(Clone, Debug)]
pub(super) struct Place(String);

impl Place {
    /// Without a name, a password or a query, which may be secret.
    pub(super) fn of_url(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        Self(format!("{}://{host}{}", url.scheme(), url.path().trim_end_matches('/')))
    }

    pub(super) fn of_store(store: &dyn object_store::ObjectStore) -> Self {
        Self(store.to_string())
    }

    /// What went wrong with `name` here.
    pub(super) fn failed(&self, what: &str, name: &str, error: &object_store::Error) -> Error {
        use object_store::Error as E;
        let text = error.to_string();
        let (kind, advice) = match error {
            _ if is_without_bucket(error) => (ErrorKind::NoStore, NO_BUCKET),
            // A list or a put finds nothing only where there is no bucket.
            E::NotFound { .. } => (ErrorKind::NoStore, NO_BUCKET),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => (ErrorKind::Io, NO_ACCESS),
            E::NotImplemented { .. } | E::NotSupported { .. } => {
                (ErrorKind::Unsupported, "the server cannot do what a store needs")
            }
            _ if is_refused(&text) => (ErrorKind::Io, NO_ACCESS),
            _ if is_unreachable(error) => (ErrorKind::Io, NO_SERVER),
            _ => (ErrorKind::Io, "try again"),
        };
        let cause = first_line(&text);
        Error::new(kind, format!("cannot {what} {name} in {self}: {advice} ({cause})"))
    }
}

const NO_BUCKET: &str = "there is no such bucket; make it first, or look at the name";
const NO_ACCESS: &str = "the server refuses these keys; look at AWS_ACCESS_KEY_ID and \
                         AWS_SECRET_ACCESS_KEY, or those of your cloud, what they may do, and \
                         the name of the bucket";
const NO_SERVER: &str = "the server does not answer; look at the network and at AWS_ENDPOINT_URL, \
                         then run the same command again: what is done is kept";

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether an object is missing because its bucket is.
pub(super) fn is_without_bucket(error: &object_store::Error) -> bool {
    error.to_string().contains("NoSuchBucket")
}

/// Servers differ in the number they give to a wrong key, not in the word.
fn is_refused(text: &str) -> bool {
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether no answer came to a request that was sent, so that it may have been done.
pub(super) fn is_unanswered(error: &object_store::Error) -> bool {
    was_sent(error) == Some(true)
}

fn is_unreachable(error: &object_store::Error) -> bool {
    was_sent(error).is_some()
}

/// Of an error of the line, not of the server: whether the request was sent.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn was_sent(error: &object_store::Error) -> Option<bool> {
    use object_store::client::{HttpError, HttpErrorKind};
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(cause) = next {
        if let Some(http) = cause.downcast_ref::<HttpError>() {
            return Some(!matches!(http.kind(), HttpErrorKind::Connect | HttpErrorKind::Request));
        }
        next = cause.source();
    }
    None
}

#[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
fn was_sent(_: &object_store::Error) -> Option<bool> {
    None
}

fn first_line(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(400) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
