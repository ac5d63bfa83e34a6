//! The tests of the library for files as one program, which is quicker to build than one for each
//! file.
//!
//! `cargo test -p lmc --test all acl::` runs those of `acl.rs`.

mod common;

mod acl;
mod arranged;
mod bases;
mod compatibility;
mod corpus;
mod corruption;
mod deltas;
mod interrupt;
mod order;
mod publish;
mod roundtrip;
mod update;
