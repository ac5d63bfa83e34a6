//! Real training state comes back byte for byte, at every level. Skipped where the corpus is
//! absent.

use crate::common::compress;
use lmc::{Archive, Context, Level, decompress_to_vec};
use lmc_testkit::corpus;
use std::path::{Path, PathBuf};

/// All files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Every file of the corpus, the texts beside the tensors too.
#[test]
fn corpus_files_come_back() {
    let Some(folder) = corpus::find() else {
        lmc_testkit::skip(lmc_testkit::Missing::Corpus, "LMC_CORPUS does not name its folder");
        return;
    };
    for path in files(&folder) {
        let original = std::fs::read(&path).expect("a corpus file");
        for level in [Level::Fast, Level::Default, Level::Max, Level::Paper] {
            let coded = compress(&original, level, 2);
            let archive = Archive::from_bytes(coded).expect("a valid file");
            let restored =
                decompress_to_vec(&archive, &Context::with_threads(2)).expect("restored");
            assert!(restored == original, "{} at {level:?}", path.display());
        }
    }
}
