//! Any bytes as a shared recipe and a block: refused or decoded, with the same result on all
//! instruction sets. A block that decodes without a base gives the same bytes with one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_codec::Decoder;
use lmc_fuzz::{RAW_LEN_MAX, cut_case, decode_everywhere, made_base, shared_recipe};

fuzz_target!(|data: &[u8]| {
    let Some((recipe, block)) = cut_case(data) else { return };
    let Ok(raw_len) = Decoder::raw_len(block) else { return };
    if raw_len > RAW_LEN_MAX {
        return;
    }
    let shared = shared_recipe(recipe);
    let base = made_base(block, raw_len);
    let with_base = decode_everywhere(block, shared.as_ref(), Some(&base), None);
    let without = decode_everywhere(block, shared.as_ref(), None, None);
    assert!(without.is_none() || without == with_base, "a base that is not needed changes bytes");
});
