//! The tests of the format as one program, which is quicker to build than one for each file.
//!
//! `cargo test -p lmc-format --test all bins::` runs those of `bins.rs`.

mod bins;
mod changes;
mod palette;
mod tree;
