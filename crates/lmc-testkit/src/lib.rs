//! Data makers and corpus access for tests and benchmarks.
#![forbid(unsafe_code)]

pub mod data;
