//! A build without the feature `bench` knows the command, and says how to get it.
#![cfg(not(feature = "bench"))]

use crate::common::{Folder, checkpoint, code, stderr, text};

#[test]
fn says_how_to_build_it() {
    let folder = Folder::new();
    folder.write("x.safetensors", &checkpoint());
    let output = folder.lmc(&["bench", "x.safetensors"]);
    assert_eq!(code(&output), 1);
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("cargo install --path crates/lmc-cli --features bench"), "{message}");
    let help = text(folder.ok(&["--help"]));
    assert!(help.lines().any(|line| line.trim_start().starts_with("bench ")), "{help}");
}
