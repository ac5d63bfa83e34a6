//! What is in a store: names, manifests, leases, tags and the configuration.

pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod content_kind;
pub(crate) mod identity;
pub(crate) mod lease;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod tags;
