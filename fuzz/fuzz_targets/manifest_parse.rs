//! Any bytes as the manifest of a snapshot: refused, or written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_store::Manifest;

fuzz_target!(|data: &[u8]| {
    let Ok(manifest) = Manifest::parse(data) else { return };
    assert!(manifest.depths().len() == manifest.archives.len());
    for (_, file) in manifest.files() {
        assert!(manifest.closure([file.archive]).contains(&file.archive));
    }
    let (bytes, name) = manifest.write(7).expect("what was read can be written");
    let again = Manifest::read(&bytes, &name).expect("what was written can be read");
    assert!(again == manifest, "it reads back differently");
});
