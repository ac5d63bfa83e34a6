//! The tests of the command as one program, which is quicker to build than one for each file.
//!
//! `cargo test -p lmc-cli --test all bases::` runs those of `bases.rs`.

mod common;
mod history;

mod analyze;
mod bases;
mod bench_off;
mod bench_rows;
mod cat_npy;
mod circles;
mod cli_roundtrip;
mod closed;
mod completions;
mod crash;
mod demo;
mod directories;
mod exit_codes;
mod full_output;
mod inputs;
mod interrupt;
mod keys;
mod list_json;
mod many_bases;
mod max_size;
mod memory;
mod modes;
mod overwrite;
mod planted;
mod refusals;
mod report;
mod resources;
mod s3;
mod secrets;
mod side_by_side;
mod stdio;
mod store;
mod store_disk;
mod store_interrupt;
mod store_kill;
mod terminal;
mod writers;
