//! Any bytes as a file that torch.save wrote before it wrote zip files: behind the start of such a
//! file, and as the whole.
#![no_main]

#[path = "../../crates/lmc-input/tests/legacy_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod legacy_made;
#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;
#[path = "../../crates/lmc-input/tests/torch_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod torch_made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    made::contents_of(data);
    made::contents_of(&[&legacy_made::head(), data].concat());
});
