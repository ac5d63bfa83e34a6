//! Any bytes as the start of a safetensors file: refused, or items and spans that cover the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut header = (data.len() as u64).to_le_bytes().to_vec();
    header.extend_from_slice(data);
    for extra in [0_u64, 1, 4, 1 << 20] {
        let file_len = header.len() as u64 + extra;
        let Some(source) = lmc_input::parse(&header, file_len) else { continue };
        assert!(source.items.iter().map(|item| item.len).sum::<u64>() == file_len);
        let mut end = 0;
        for cut in lmc_input::cut(&source) {
            assert!(
                cut.range.start == end && cut.range.end > end,
                "spans do not follow each other"
            );
            end = cut.range.end;
        }
        assert!(end == file_len, "spans do not cover the file");
    }
});
