//! Keeping a store in order: checks, repairs, retention, copies.

pub(crate) mod check;
pub(crate) mod copied;
pub(crate) mod copy;
pub(crate) mod damaged;
pub(crate) mod forget;
pub(crate) mod pack_reader;
pub(crate) mod prune;
pub(crate) mod rebase;
pub(crate) mod repair;
pub(crate) mod replace;
pub(crate) mod thin;
pub(crate) mod verify;
