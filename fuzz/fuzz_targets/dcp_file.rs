//! Any bytes as a file of torch.distributed.checkpoint, as a part of one between sound ones, and as
//! the metadata of one.
#![no_main]

#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;
#[path = "../../crates/lmc-input/tests/torch_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod torch_made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let items = lmc_input::dcp_items(data).unwrap_or_default();
    made::dcp_contents_of(data, &items);
    let part = torch_made::torch_file(b"\x80\x02N.");
    made::dcp_contents_of(&[&part, data].concat(), &items);
    made::dcp_contents_of(&[&part, data, &part].concat(), &items);
});
