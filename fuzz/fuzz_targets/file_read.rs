//! Any index and any body as a file whose checksums of pieces are right. It is refused, or reads in
//! whole and in parts give the same bytes. The data: length of the index (u16), length of the
//! original (u32), index, body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc::{Archive, Context, decompress_to_vec};
use lmc_format::{Footer, Index, hash};

/// The longest original that is decoded.
const LEN_MAX: u64 = 1 << 22;

fuzz_target!(|data: &[u8]| {
    // The data as a file: nearly all fail at the first checksum. No thread is started, because the
    // leak checker would complain.
    if let Ok(archive) = Archive::from_bytes(data.to_vec())
        && archive.original_len() <= LEN_MAX
    {
        let _ = decompress_to_vec(&archive, &Context::with_threads(1));
    }
    let Some((&[a, b, c, d, e, f], rest)) = data.split_first_chunk() else { return };
    let Some((index, body)) = rest.split_at_checked(usize::from(u16::from_le_bytes([a, b]))) else {
        return;
    };
    let original_len = u64::from(u32::from_le_bytes([c, d, e, f]));
    let Ok(mut index) = Index::read(index, body.len() as u64, original_len) else { return };
    let mut left = body;
    for span in &mut index.spans {
        for piece in span.recipe.iter_mut().chain(&mut span.blocks) {
            let (own, after) = left.split_at(piece.len as usize);
            piece.hash = hash(own);
            left = after;
        }
    }
    let index = index.write();
    let footer = Footer {
        body_len: body.len() as u64,
        index_len: index.len() as u64,
        index_hash: hash(&index),
        original_len,
    };
    let file = [&lmc_format::file::header()[..], body, &index, &footer.write()].concat();
    let archive = Archive::from_bytes(file).expect("a file with right checksums opens");
    let _ = archive.tensors();
    if original_len > LEN_MAX {
        return;
    }
    let middle = original_len / 2;
    let parts = [archive.read(0..middle), archive.read(middle..original_len)];
    if let Ok(whole) = decompress_to_vec(&archive, &Context::with_threads(1)) {
        let parts = parts.map(|part| part.expect("parts of a whole file"));
        assert!(parts.concat() == whole, "parts differ from the whole");
    }
});
