//! The options of `lmc analyze`.

use std::path::PathBuf;

use clap::Args;

use super::analyze_plan::{EngineArgs, PlanArgs};
use super::shared::{FormatArgs, StoreArgs, ThreadArgs};

#[derive(Args, Debug)]
pub struct AnalyzeArgs {
    /// Checkpoints: a file, a directory, a directory with one for each step, or several of these in
    /// their order. In a store: runs and snapshots
    #[arg(required = true, value_name = "CHECKPOINT")]
    pub checkpoints: Vec<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// Where .lmc files find the bases that they need: a file, or a directory of them; may be given
    /// several times. To compare checkpoints, name both
    #[arg(long = "base", value_name = "OLD")]
    pub bases: Vec<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs,
    /// Write a page with charts to this file; it loads nothing from elsewhere
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write tables into this directory: checkpoints.csv, pairs.csv, tensors.csv, changes.csv, and
    /// engines.csv and plan.csv if asked for
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Read and code everything, where a sample would do
    #[arg(long)]
    pub all: bool,
    /// Overwrite the page and tables
    #[arg(short, long)]
    pub force: bool,
    #[command(flatten)]
    pub engines: EngineArgs,
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
}
