//! What the command says about itself: completions and man pages.

use crate::common::{Folder, code, text};

/// Every shell gets a script that knows the commands.
#[test]
fn shells() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(folder.ok(&["completions", shell]));
        assert!(script.contains("decompress") && script.contains("inspect"), "{shell}");
    }
}

/// The man page names every command; each command has a page with its options.
#[test]
fn man_pages() {
    let folder = Folder::new();
    let page = text(folder.ok(&["man"]));
    assert!(page.contains(".TH lmc 1") && page.contains("decompress"), "{page}");
    let page = text(folder.ok(&["man", "compress"]));
    assert!(page.contains("no\\-verify"), "{page}");
    assert_eq!(code(&folder.lmc(&["man", "no-such"])), 2);
}
