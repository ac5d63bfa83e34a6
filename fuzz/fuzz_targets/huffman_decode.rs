//! Any Huffman table and any stream for it; an accepted stream is the one that an encoder writes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_fuzz::{HistogramHead, PLANE_LEN_MAX, check_canonical, check_roundtrip, cut_head};

fuzz_target!(|data: &[u8]| {
    let Some((head, stream)) = cut_head::<HistogramHead>(data) else { return };
    let Some(coder) = head.huffman() else { return };
    check_canonical(&coder, stream, usize::from(head.n % PLANE_LEN_MAX));
    check_roundtrip(&coder, stream);
});
