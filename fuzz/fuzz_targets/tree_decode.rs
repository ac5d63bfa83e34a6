//! Any tree table and any stream for it. Decoded bytes can be coded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_fuzz::{HistogramHead, PLANE_LEN_MAX, check_roundtrip, cut_head, decode_plane};

fuzz_target!(|data: &[u8]| {
    let Some((head, stream)) = cut_head::<HistogramHead>(data) else { return };
    let Some(coder) = head.tree() else { return };
    if let Some((plane, _)) = decode_plane(&coder, stream, usize::from(head.n % PLANE_LEN_MAX)) {
        check_roundtrip(&coder, &plane);
    }
    check_roundtrip(&coder, stream);
});
