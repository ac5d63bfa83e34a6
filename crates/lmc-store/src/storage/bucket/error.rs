//! Errors of a bucket: which one it is, what went wrong, and what to do.

use super::url::BucketUrl;
use crate::storage::location::{map_words, without_secrets};
use lmc_format::{Error, ErrorKind};

impl BucketUrl {
    /// The error about `name` in this bucket.
    pub(super) fn failed(&self, what: &str, name: &str, error: &object_store::Error) -> Error {
        use object_store::Error as E;
        let text = error.to_string();
        let (kind, advice) = match error {
            _ if is_without_bucket(error) => (ErrorKind::NoStore, NO_BUCKET),
            // A list or a put reports "not found" only if there is no bucket.
            E::NotFound { .. } => (ErrorKind::NoStore, NO_BUCKET),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => (ErrorKind::Io, NO_ACCESS),
            E::NotImplemented { .. } | E::NotSupported { .. } => {
                (ErrorKind::Unsupported, "the server cannot do what a store needs")
            }
            _ if is_without_keys(error) => (ErrorKind::Io, NO_KEYS),
            _ if is_refused(&text) => (ErrorKind::Io, NO_ACCESS),
            _ if is_unreachable(error) => (ErrorKind::Io, NO_SERVER),
            _ => (ErrorKind::Io, "try again"),
        };
        let cause = library_words(error);
        Error::new(kind, format!("cannot {what} {name} in {self}: {advice} ({cause})"))
    }
}

const NO_BUCKET: &str = "there is no such bucket; create it first, or check the name";
const NO_ACCESS: &str = "the server refuses these keys; check AWS_ACCESS_KEY_ID and \
                         AWS_SECRET_ACCESS_KEY, or those of your cloud, their permissions, and the \
                         name of the bucket";
const NO_KEYS: &str = "there are no keys for it: set AWS_ACCESS_KEY_ID and \
                       AWS_SECRET_ACCESS_KEY, or those of your cloud";
const NO_SERVER: &str = "the server does not answer; check the network and AWS_ENDPOINT_URL, then \
                         try again: finished work is kept";

/// Whether an object is missing because its bucket does not exist.
pub(super) fn is_without_bucket(error: &object_store::Error) -> bool {
    error.to_string().contains("NoSuchBucket")
}

/// For a wrong key, servers differ in the status code but not in the word.
fn is_refused(text: &str) -> bool {
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether a request was sent but got no answer, so that it may have been carried out.
pub(super) fn is_unanswered(error: &object_store::Error) -> bool {
    was_sent(error) == Some(true)
}

fn is_unreachable(error: &object_store::Error) -> bool {
    was_sent(error).is_some()
}

/// For an error of the connection and not of the server: whether the request was sent. Without
/// keys, it was not even made.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn was_sent(error: &object_store::Error) -> Option<bool> {
    use object_store::client::{HttpError, HttpErrorKind};
    let http = causes(error).find_map(|cause| cause.downcast_ref::<HttpError>())?;
    let was_sent = !matches!(http.kind(), HttpErrorKind::Connect | HttpErrorKind::Request);
    (!is_without_keys(error)).then_some(was_sent)
}

/// Whether no keys are set and the machine gave none.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn is_without_keys(error: &object_store::Error) -> bool {
    causes(error).any(|cause| cause.is::<super::machine::NoKeys>())
}

/// An error, its cause, the cause of that, and so on.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn causes(error: &object_store::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error as &dyn std::error::Error), |cause| cause.source())
}

#[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
fn was_sent(_: &object_store::Error) -> Option<bool> {
    None
}

#[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
fn is_without_keys(_: &object_store::Error) -> bool {
    false
}

/// The message of a library, including that of a server, in one line of limited length without keys
/// or signatures: such messages quote requests with their queries.
pub(super) fn library_words(error: &object_store::Error) -> String {
    let line = clean(&error.to_string().replace('\n', " "));
    match line.char_indices().nth(WORDS_LEN_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Longest message of a library that is passed on, in characters.
const WORDS_LEN_MAX: usize = 400;
/// Text that comes before a secret in the messages of servers, in lower case.
const SECRET_NAMES: [&str; 5] = ["signature=", "sig=", "credential=", "token=", "password="];

fn clean(text: &str) -> String {
    let words = |word: &str| {
        // The query of a request whose URL is not complete.
        let word = match word.split_once('?') {
            Some((path, query)) if query.contains('=') => path,
            _ => word,
        };
        // Converting ASCII to lower case does not move any byte.
        let small = word.to_ascii_lowercase();
        let secret = SECRET_NAMES.iter().filter_map(|name| Some(small.find(name)? + name.len()));
        secret.min().map_or_else(|| word.to_string(), |at| format!("{}...", &word[..at]))
    };
    map_words(&without_secrets(&without_details(text)), words)
}

/// Text that ends in an XML answer of a server, reduced to its code and message: the rest repeats
/// the request and its signature.
fn without_details(text: &str) -> String {
    let Some(start) = text.find("<?xml").or_else(|| text.find("<Error>")) else {
        return text.to_string();
    };
    let (before, answer) = text.split_at(start);
    let element = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{before}{code}: {message}"),
        (Some(word), None) | (None, Some(word)) => format!("{before}{word}"),
        (None, None) => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of a request that a server repeats are not passed on, but its own message is.
    #[test]
    fn words_of_servers_lose_keys_and_signatures() {
        for (given, wanted) in [
            ("cannot GET http://u:p@h/x?X-Amz-Signature=1 (at 2)", "cannot GET http://h/x (at 2)"),
            ("GET /x?sig=1&a=2 failed", "GET /x failed"),
            ("what? no", "what? no"),
            (
                "AWS4 Credential=A/b, X-Amz-Signature=c and sig=d",
                "AWS4 Credential=... X-Amz-Signature=... and sig=...",
            ),
            (
                "403: <?xml?><Error><Code>C</Code><Message>m http://u:p@h</Message>\
                 <Key>k</Key></Error>",
                "403: C: m http://h",
            ),
            ("403: <Error><Code>C</Code><Key>k</Key></Error>", "403: C"),
            ("<html>busy</html>", "<html>busy</html>"),
        ] {
            assert_eq!(clean(given), wanted);
        }
    }
}
