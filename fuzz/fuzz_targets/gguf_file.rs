//! Any bytes as a GGUF file: as the whole, and behind the start of one.
#![no_main]

#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    made::contents_of(data);
    made::contents_of(&[b"GGUF\x03\0\0\0", data].concat());
});
