//! Any recipe by classes, any base and any body of a block on it: refused or decoded, by all
//! instruction sets alike, in whole and in part; and any values on that base come back. The data:
//! lengths of the recipe and of the base (u16 each), the recipe, the base, the body.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use lmc_codec::SharedRecipe;
use lmc_format::{AnyRecipe, BlockKind, BlockPrefix};
use lmc_fuzz::{RAW_LEN_MAX, check_class_roundtrip, cut_head, decode_everywhere};

/// The bits of a layout that make a recipe one by classes.
const CLASSES: u8 = 0xc0;

#[derive(Arbitrary)]
struct Head {
    recipe_len: u16,
    base_len: u16,
}

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = cut_head::<Head>(data) else { return };
    let Some((recipe, rest)) = rest.split_at_checked(usize::from(head.recipe_len)) else { return };
    let Some((base, body)) = rest.split_at_checked(usize::from(head.base_len)) else { return };
    let mut recipe = recipe.to_vec();
    if let Some(layout) = recipe.first_mut() {
        *layout |= CLASSES;
    }
    let Ok(shared) = SharedRecipe::parse(&recipe) else { return };
    let AnyRecipe::Classes(recipe) = shared.recipe() else { return };
    let base = &base[..base.len().min(RAW_LEN_MAX)];
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Shared, raw_len: base.len() }.write(&mut block);
    block.extend_from_slice(body);
    if let Some(whole) = decode_everywhere(&block, Some(&shared), Some(base), None) {
        let range = base.len() / 3..base.len() - base.len() / 4;
        let part = decode_everywhere(&block, Some(&shared), Some(base), Some(range.clone()));
        assert!(part.as_deref() == Some(&whole[range]), "the range differs from the whole");
        check_class_roundtrip(&recipe, &whole, base);
    }
    let len = body.len().min(base.len());
    check_class_roundtrip(&recipe, &body[..len], &base[..len]);
});
