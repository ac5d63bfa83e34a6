//! Any coders inside an apart coder, and any stream for it. Decoded bytes can be coded again. The
//! data: number of bytes (u16), the coder without its id, the stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_format::{Coder, Reader};
use lmc_fuzz::{PLANE_LEN_MAX, check_roundtrip, cut_head, decode_plane};

/// The id of the apart coder.
const APART: u8 = 8;

fuzz_target!(|data: &[u8]| {
    let Some((n, rest)) = cut_head::<u16>(data) else { return };
    let bytes = [&[APART], rest].concat();
    let mut input = Reader::new(&bytes);
    let Ok(coder) = Coder::read(&mut input) else { return };
    let stream = input.rest();
    if let Some((plane, _)) = decode_plane(&coder, stream, usize::from(n % PLANE_LEN_MAX)) {
        check_roundtrip(&coder, &plane);
    }
    check_roundtrip(&coder, stream);
});
