//! Snapshots of checkpoints in a directory or a bucket.
//!
//! A [`Store`] holds the history of training runs: [`Store::save`] adds a snapshot of a file or a
//! directory, [`Store::restore`] gives it back byte for byte. What did not change is a reference to
//! what is there, what did is a delta. Objects are written once and never changed; one object, the
//! manifest, makes a snapshot visible, whole. `docs/store.md` has the layout and the argument why
//! writers, readers and prunes need no lock.
#![forbid(unsafe_code)]

mod ancestors;
mod archives;
mod builder;
mod check;
mod clock;
mod coding;
mod commit;
mod config;
mod copy;
mod damaged;
mod diff;
mod forget;
mod glob;
mod identity;
mod kind;
mod lease;
mod manifest;
mod names;
mod packs;
mod parts;
mod path;
mod plan;
mod prune;
mod rebase;
mod repair;
mod replace;
mod restore;
mod reuse;
mod room;
mod save;
mod snapshots;
mod stats;
pub mod storage;
mod tags;
mod there;
mod thin;
mod tree;
mod verify;
mod warning;

pub use check::{CheckOptions, Checked, Damage, Hurt};
pub use clock::{Clock, SystemClock, rfc3339};
pub use config::{CONFIG_NAME, Config, GRACE_SECONDS, GRACE_SECONDS_MIN, Store};
pub use copy::Copied;
pub use diff::{FileDiff, SnapshotDiff};
pub use forget::{Forgotten, Keep, Thinned};
pub use glob::Glob;
pub use kind::Kind;
pub use lease::Pending;
pub use lmc_format::{Advice, Error, ErrorKind, Result};
pub use manifest::{ArchiveInfo, Bytes, Entry, Extent, FileNode, Manifest, Node, Pack};
pub use names::{PackName, SnapshotName};
pub use packs::{PACK_LEN, PackCount};
pub use parts::Part;
pub use path::RelPath;
pub use plan::{CHAIN_DEPTH_MAX, READ_TIMES_MAX};
pub use prune::{PruneOptions, Pruned};
pub use repair::Repaired;
pub use restore::{RestoreOptions, Restored};
pub use save::{Parent, RUN_DEFAULT, SaveOptions, Saved};
pub use stats::Stats;
pub use tree::MemoryFile;
pub use warning::Warning;
