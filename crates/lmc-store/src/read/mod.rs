//! Reading a store: which snapshots there are, and what they hold.

pub(crate) mod count;
pub(crate) mod diff;
pub(crate) mod files;
pub(crate) mod glob;
pub(crate) mod library;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod snapshots;
pub(crate) mod stats;
