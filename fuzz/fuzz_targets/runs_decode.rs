//! Any stream of runs. Decoded bytes can be coded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_format::Coder;
use lmc_fuzz::{PLANE_LEN_MAX, check_roundtrip, cut_head, decode_plane};

fuzz_target!(|data: &[u8]| {
    let Some((n, stream)) = cut_head::<u16>(data) else { return };
    if let Some((plane, _)) = decode_plane(&Coder::Runs, stream, usize::from(n % PLANE_LEN_MAX)) {
        check_roundtrip(&Coder::Runs, &plane);
    }
    check_roundtrip(&Coder::Runs, stream);
});
