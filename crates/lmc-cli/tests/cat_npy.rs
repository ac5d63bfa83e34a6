//! `cat` gives one tensor, or some of its rows, as bytes and as .npy.

use crate::common::{Folder, checkpoint, code, safetensors, stderr, weights};

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("x.safetensors", &checkpoint());
    folder.ok(&["compress", "x.safetensors"]);
    folder
}

/// The bytes of a tensor, and of its rows, are those of the original.
#[test]
fn bytes_and_rows() {
    let folder = folder();
    let w = weights(64 * 512, 1);
    let cat = |args: &[&str]| folder.ok(&[&["cat", "x.safetensors.lmc", "w"], args].concat());
    assert_eq!(cat(&[]), w);
    assert_eq!(cat(&["--rows", "3..5"]), w[3 * 1024..5 * 1024]);
    assert_eq!(cat(&["--rows", "63.."]), w[63 * 1024..]);
    assert_eq!(cat(&["--rows", "0..0"]), b"");
    assert_eq!(folder.ok(&["cat", "x.safetensors.lmc", "step"]), 7_i64.to_le_bytes());
}

/// A .npy file has the header that numpy reads, then the bytes.
#[test]
fn npy() {
    let folder = folder();
    folder.ok(&["cat", "x.safetensors.lmc", "b", "--npy", "-o", "b.npy"]);
    let npy = folder.read("b.npy");
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00"));
    let header = String::from_utf8_lossy(&npy[10..128]);
    assert!(header.contains("'descr': '<f4'") && header.contains("'shape': (3,)"), "{header}");
    let b: Vec<u8> = [1.0_f32, -2.0, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(npy[npy.len() - 12..], b);
    let rows = folder.lmc(&["cat", "x.safetensors.lmc", "w", "--npy", "--rows", "1..3"]);
    assert!(stderr(&rows).contains("BF16"), "bf16 needs a word on stderr");
    let header = String::from_utf8_lossy(&rows.stdout[10..128]).into_owned();
    assert!(header.contains("'<u2'") && header.contains("(2, 512)"), "{header}");
}

/// Unknown names, rows that are not there and files without tensors are errors that say so.
#[test]
fn refusals() {
    let folder = folder();
    folder.write("plain", b"bytes");
    folder.write("f4.safetensors", &safetensors(&[("q", "F4", &[3, 2], &[1, 2, 3])]));
    folder.ok(&["compress", "plain", "f4.safetensors"]);
    let wrong: [(&[&str], &str); 6] = [
        (&["x.safetensors.lmc", "no"], "lmc list"),
        (&["x.safetensors.lmc", "w", "--rows", "60..65"], "64"),
        (&["x.safetensors.lmc", "step", "--rows", "0..1"], "no rows"),
        (&["plain.lmc", "w"], "no tensors"),
        (&["f4.safetensors.lmc", "q", "--npy"], "--npy"),
        (&["x.safetensors.lmc", "w", "-o", "plain"], "-f"),
    ];
    for (args, expected) in wrong {
        let output = folder.lmc(&[&["cat"], args].concat());
        assert_eq!(code(&output), 1, "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    }
}
