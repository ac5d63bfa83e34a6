//! One file per command: arguments in, exit code out.

pub mod analyze;
#[cfg(feature = "bench")]
pub mod bench;
pub mod cat;
pub mod completions;
pub mod compress;
pub mod decompress;
pub mod demo;
pub mod diff;
pub mod inspect;
pub mod list;
pub mod man;
pub mod store;
pub mod test;
mod transfer;
