//! The demo does the main job on data of its own.

use crate::common::{Folder, text};

/// The demo restores what it made, at every level.
#[test]
fn demo() {
    let table = text(Folder::new().ok(&["demo", "--size-mib", "2"]));
    for word in ["fast", "default", "max", "paper", "second moments", "byte for byte"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}
