//! Any bytes as a model of ONNX: as the whole, and as its graph.
#![no_main]

#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;
#[path = "../../crates/lmc-input/tests/onnx_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod onnx_made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    made::contents_of(data);
    made::contents_of(&onnx_made::model(data));
});
