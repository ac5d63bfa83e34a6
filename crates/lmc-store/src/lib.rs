//! Snapshots of checkpoints in a directory or a bucket.
//!
//! A [`Store`] holds the history of training runs. [`Store::save`] adds a snapshot of a file or a
//! directory, and [`Store::restore`] gives it back byte for byte. Unchanged data becomes a
//! reference to the bytes that the store already has, and changed data becomes a delta. Objects are
//! written once and never changed. One object, the manifest, makes a whole snapshot visible.
//! `docs/store.md` describes the layout and shows why writers, readers and prunes need no lock.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod layout;
mod read;
mod save;
pub mod storage;
mod store;
mod upkeep;

pub use layout::clock::{Clock, SystemClock, rfc3339};
pub use layout::config::{CONFIG_NAME, Config, GRACE_SECONDS, GRACE_SECONDS_MIN};
pub use layout::content_kind::ContentKind;
pub use layout::lease::Pending;
pub use layout::manifest::{
    ArchiveInfo, Bytes, Extent, FileNode, Manifest, ManifestEntry, Node, Pack,
};
pub use layout::names::{PackName, SnapshotName};
pub use layout::path::RelPath;
pub use lmc_format::{Advice, Error, ErrorKind, Result};
pub use read::count::Figures;
pub use read::diff::{FileDiff, SnapshotDiff};
pub use read::files::SnapshotFiles;
pub use read::glob::Glob;
pub use read::report::{Report, ReportOptions, Retention, SnapshotReport};
pub use read::restore::{RestoreOptions, Restored};
pub use read::stats::Stats;
pub use save::base_choice::{CHAIN_DEPTH_MAX, READ_TIMES_MAX};
pub use save::packs::{PACK_LEN, PackCount};
pub use save::partial::PartialSnapshot;
pub use save::source::MemoryFile;
pub use save::warning::Warning;
pub use save::{Parent, RUN_DEFAULT, SaveOptions, Saved};
pub use store::Store;
pub use upkeep::check::{CheckOptions, CheckReport, Damage, Hurt};
pub use upkeep::copy::Copied;
pub use upkeep::forget::{Forgotten, Keep, Thinned};
pub use upkeep::prune::{PruneOptions, Pruned};
pub use upkeep::repair::Repaired;
