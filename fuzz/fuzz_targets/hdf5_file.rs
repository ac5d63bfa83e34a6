//! Any bytes as an HDF5 file: as the whole, and as the root of one in the old and in the new form.
#![no_main]

#[path = "../../crates/lmc-input/tests/hdf5_made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod hdf5_made;
#[path = "../../crates/lmc-input/tests/made.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod made;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    made::contents_of(data);
    for is_new in [false, true] {
        let mut file = hdf5_made::File::new(is_new);
        let root = file.put(data);
        made::contents_of(&file.with_root(root));
    }
});
