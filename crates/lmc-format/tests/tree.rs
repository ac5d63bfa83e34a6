//! Tables of trees: what is written is read again, and what the format does not allow is refused.

use lmc_format::{Coder, Reader, TreeTable};

fn lengths(codes: &[(usize, u8)]) -> [u8; 256] {
    let mut lengths = [0; 256];
    codes.iter().for_each(|&(symbol, length)| lengths[symbol] = length);
    lengths
}

fn read(bytes: &[u8]) -> Result<Coder, String> {
    let mut input = Reader::new(bytes);
    let coder = Coder::read(&mut input).map_err(|error| error.to_string())?;
    input.finish("the coder").map_err(|error| error.to_string())?;
    Ok(coder)
}

/// Tables with and without an escape come back from their bytes, which are as the format says.
#[test]
fn tables_are_written_and_read() {
    for (codes, escape, bytes) in [
        (&[(97, 1), (99, 1)][..], 0, &[9, 97, 99, 0, 0x01, 0x01][..]),
        (&[(97, 1), (98, 2)], 2, &[9, 97, 98, 2, 0x21]),
    ] {
        let coder = Coder::Tree(Box::new(TreeTable::new(lengths(codes), escape).expect("a table")));
        let mut written = Vec::new();
        coder.write(&mut written);
        assert_eq!(written, bytes);
        assert_eq!(read(bytes), Ok(coder));
    }
    let all = TreeTable::new([8; 256], 0).expect("a table");
    assert_eq!((all.lengths(), all.escape()), (&[8; 256], 0));
}

/// Codes that are too long, not complete or too many are refused, and so are fewer than two
/// symbols.
#[test]
fn other_tables_are_refused() {
    for (codes, escape) in [
        (&[(1, 1)][..], 1),
        (&[(1, 1), (2, 2)], 0),
        (&[(1, 1), (2, 2)], 1),
        (&[(1, 1), (2, 1)], 12),
        (&[(1, 1), (2, 2)], 13),
        (&[(1, 13), (2, 1)], 1),
        (&[], 0),
    ] {
        assert!(TreeTable::new(lengths(codes), escape).is_err(), "{codes:?} {escape}");
    }
    let mut full = [8; 256];
    (full[0], full[1]) = (9, 9);
    assert!(TreeTable::new(full, 8).is_err());
    for bytes in [
        &[9, 97, 97, 0, 0x01][..],
        &[9, 97, 98, 0, 0xd1],
        &[9, 97, 98, 0x11, 0x21],
        &[9, 97, 99, 0, 0x01, 0x11],
        &[9, 97, 98, 2],
        &[9, 97, 98, 2, 0x21, 0],
    ] {
        assert!(read(bytes).is_err(), "{bytes:?}");
    }
}
