//! The tests of the store as one program, which is quicker to build than one for each file.
//!
//! `cargo test -p lmc-store --test all absence::` runs those of `absence.rs`.

mod common;
mod decay;
mod disks;
mod history;

mod absence;
mod beside;
mod bucket;
mod bytes;
mod clocks;
mod concurrency;
mod confined;
mod content;
mod copies;
mod crash;
mod damage;
mod depth;
mod faults;
mod grown;
mod histories;
mod init;
mod listing;
mod looking;
mod manifests;
mod moved;
mod numbers;
mod out;
mod parts;
mod paths;
mod report;
mod resume;
mod retention;
mod reuse;
mod rot;
mod roundtrip;
mod scale;
mod sizes;
mod source;
mod storage;
mod streams;
mod swept;
mod tags;
mod target;
