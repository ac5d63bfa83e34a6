//! Measures how checkpoints compress and how they change from step to step.
//!
//! `docs/analyze.md` defines every figure.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod engines;
pub mod plan;
