//! The URL of a bucket, as errors show it.

use crate::storage::location::Location;
use std::fmt;
use url::Url;

/// A bucket and a prefix, as the user wrote them.
#[derive(Clone, Debug)]
pub(super) struct BucketUrl(String);

impl BucketUrl {
    /// Without user, password and query, which may be secret.
    pub(super) fn of_url(url: &Url) -> Self {
        let shown = Location::from(url.as_str()).to_string();
        Self(shown.trim_end_matches('/').to_string())
    }

    pub(super) fn of_store(store: &dyn object_store::ObjectStore) -> Self {
        Self(store.to_string())
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}
