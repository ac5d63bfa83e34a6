//! Measures how checkpoints compress and how they change from step to step.
//!
//! [`Series::from_paths`] finds the checkpoints, [`analyze`] reads them and gives a [`Report`],
//! which becomes JSON or tables. `docs/analyze.md` defines every figure.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod analysis;
mod count;
mod csv;
pub mod engines;
mod figures;
mod opened;
pub mod page;
mod pass;
mod piece;
pub mod plan;
mod report;
mod sample;
mod series;

pub use analysis::{Analysis, Options, analyze};
pub use csv::{CSV_TABLES, CsvTable};
pub use figures::{Alone, Blocks, Change, Exponents};
pub use report::{CheckpointRow, PairRow, Report, Reshaped, Skipped, TensorRow};
pub use sample::Sample;
pub use series::{Checkpoint, Series};
