//! Any bytes as a file of torch: refused, or items that cover it and tensors that are in it. The
//! bytes are also read as the pickle of a sound file, which is found whatever they are.
#![no_main]

#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;
#[path = "../../crates/lmc-input/tests/torch_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod torch_made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    made::contents_of(data);
    let file = torch_made::torch_file(data);
    assert!(torch_made::found(&file).is_some(), "the zip file is sound");
});
