//! The tests of this crate as one program.
//!
//! `cargo test -p lmc-input --test all differential::` runs those of `differential.rs`.

mod differential;
mod torch_attacks;
mod torch_files;
mod torch_made;
