//! The parts of the benchmarks: buffers of the corpus, interleaved timing, and the report. This is
//! a library, so that a program with its own engines can run them next to ours.
#![allow(missing_docs, reason = "fields are columns, and record/README.md has a line for each")]

pub mod buffers;
pub mod corpus_bits;
pub mod report;
pub mod run;

pub use lmc_engines::Result;
use lmc_testkit::{CorpusFile, corpus};

/// The corpus, or one line that says why there is nothing to do.
pub fn load_corpus() -> Result<Option<Vec<CorpusFile>>> {
    let Some(dir) = corpus::find() else {
        println!("no corpus: set LMC_CORPUS to its folder; nothing was measured");
        return Ok(None);
    };
    let files = corpus::load(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(Some(files))
}
