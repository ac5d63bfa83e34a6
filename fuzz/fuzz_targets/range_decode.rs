//! A range of any block: it has the same bytes as in the whole block, and no error if the whole
//! block has none.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use lmc_codec::{BasePart, Decoder, SharedRecipe};
use lmc_fuzz::{RAW_LEN_MAX, cut_case, cut_head, decode_everywhere, made_base, shared_recipe};

#[derive(Arbitrary)]
struct Head {
    start: u32,
    len: u32,
}

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = cut_head::<Head>(data) else { return };
    let Some((recipe, block)) = cut_case(rest) else { return };
    let Ok(raw_len) = Decoder::raw_len(block) else { return };
    if raw_len > RAW_LEN_MAX {
        return;
    }
    let start = head.start as usize % (raw_len + 1);
    let end = start + head.len as usize % (raw_len - start + 1);
    let shared = shared_recipe(recipe);
    let base = made_base(block, raw_len);
    let (shared, base) = (shared.as_ref(), Some(&base[..]));
    let whole = decode_everywhere(block, shared, base, None);
    let part = decode_everywhere(block, shared, base, Some(start..end));
    if let Some(whole) = &whole {
        assert!(part.as_deref() == Some(&whole[start..end]), "the range differs from the whole");
        let need = Decoder::need(block, shared.map(SharedRecipe::shape).as_ref(), &(start..end))
            .expect("a block that is decoded");
        assert!(need.whole.start <= start && end <= need.whole.end && need.whole.end <= raw_len);
    }
    let mut all = vec![0x55; raw_len];
    let part = base.map(|bytes| BasePart { start: 0, bytes });
    let done = Decoder::new().decode_range(block, shared, part, 0..raw_len, &mut all);
    assert!(done.is_ok().then_some(all) == whole, "the range of everything is not the whole");
    let over = Decoder::new().decode_range(block, shared, part, start..raw_len + 1, &mut []);
    assert!(over.is_err(), "a range beyond the block is decoded");
});
