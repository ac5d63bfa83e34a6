//! Files of every version so far are read, and this version writes them as it did.
//!
//! `LMC_WRITE_GOLDEN=1` writes the golden files of this version anew; `testdata/README.md` says when
//! that is allowed.

mod common;

use common::{compress, golden, golden_inputs, golden_path};
use lmc::{Archive, decompress_to_vec};

/// Golden files decode to what they were made from.
#[test]
fn golden_files_are_read() {
    for ((name, original, _), (file_name, file)) in golden_inputs().iter().zip(golden()) {
        assert_eq!(*name, file_name);
        let archive = Archive::from_bytes(file).expect("a golden file");
        assert!(decompress_to_vec(&archive, 1).expect("restored") == *original, "{name}");
    }
}

/// The same input gives the same bytes as when the golden files were written.
#[test]
fn golden_files_are_written_again() {
    for (name, original, level) in golden_inputs() {
        let file = compress(&original, level, 1);
        let path = golden_path(&name);
        if std::env::var_os("LMC_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &file).expect("a golden file can be written");
        }
        let golden = std::fs::read(&path).expect("a golden file");
        assert!(file == golden, "{name} is written otherwise than before");
    }
}
