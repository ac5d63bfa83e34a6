//! Any body of a block of kind zstd. The block is refused or decoded, with the same result by new
//! and used decoders, in whole and in part, and never costs more than it says. The data: the length
//! of the original (u16), the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_codec::Decoder;
use lmc_format::{BlockKind, BlockPrefix};
use lmc_fuzz::{RAW_LEN_MAX, cut_head, decode_everywhere, made_base};

fuzz_target!(|data: &[u8]| {
    let Some((raw_len, body)) = cut_head::<u16>(data) else { return };
    let raw_len = usize::from(raw_len).min(RAW_LEN_MAX);
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Zstd, raw_len }.write(&mut block);
    block.extend_from_slice(body);
    let base = made_base(b"a base that text may refer to", raw_len);
    let Some(whole) = decode_everywhere(&block, None, Some(&base), None) else { return };
    let range = raw_len / 3..raw_len - raw_len / 4;
    let part = decode_everywhere(&block, None, Some(&base), Some(range.clone()));
    assert!(part.as_deref() == Some(&whole[range.clone()]), "the range differs from the whole");
    let need = Decoder::need(&block, None, &range).expect("a block that is decoded");
    assert!(need.whole == (0..raw_len) && need.writes >= raw_len, "the block costs more");
    let alone = decode_everywhere(&block, None, None, None);
    assert!(alone.is_some() != need.base.is_some(), "the base is needed or not");
});
