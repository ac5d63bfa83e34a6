//! Any bytes as a file of NumPy: as the text of a header with an array behind it, and as the whole.
#![no_main]

#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;
#[path = "../../crates/lmc-input/tests/numpy_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod numpy_made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    made::contents_of(data);
    if let Some(text) = str::from_utf8(data).ok().filter(|text| text.len() < 60_000) {
        made::contents_of(&[&numpy_made::npy_header(text)[..], &[0; 64]].concat());
    }
});
