//! The tests of the codec as one program, which is quicker to build than one for each file.
//!
//! `cargo test -p lmc-codec --test all corruption::` runs those of `corruption.rs`.

mod common;

mod corruption;
mod delta;
mod determinism;
mod differential;
mod limits;
mod limits_on_base;
mod palette;
mod roundtrip;
mod zstd;
