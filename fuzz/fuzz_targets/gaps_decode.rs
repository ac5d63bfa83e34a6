//! Any number of low bits and any stream for it; an accepted stream is the one that an encoder
//! writes.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use lmc_format::Coder;
use lmc_fuzz::{PLANE_LEN_MAX, check_canonical, check_roundtrip, cut_head};

#[derive(Arbitrary)]
struct Head {
    n: u16,
    low_bits: u8,
}

fuzz_target!(|data: &[u8]| {
    let Some((head, stream)) = cut_head::<Head>(data) else { return };
    let coder = Coder::Gaps(head.low_bits % 25);
    check_canonical(&coder, stream, usize::from(head.n % PLANE_LEN_MAX));
    check_roundtrip(&coder, stream);
});
