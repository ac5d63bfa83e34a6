//! Any mask and any stream for it; an accepted stream is the one that an encoder writes.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use lmc_format::Coder;
use lmc_fuzz::{PLANE_LEN_MAX, check_canonical, check_roundtrip, cut_head};

#[derive(Arbitrary)]
struct Head {
    n: u16,
    mask: u8,
    rest: u8,
}

fuzz_target!(|data: &[u8]| {
    let Some((head, stream)) = cut_head::<Head>(data) else { return };
    let coder = Coder::Packed { mask: head.mask.max(1), rest: head.rest & !head.mask.max(1) };
    check_canonical(&coder, stream, usize::from(head.n % PLANE_LEN_MAX));
    check_roundtrip(&coder, stream);
});
