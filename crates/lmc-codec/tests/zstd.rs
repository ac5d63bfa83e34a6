//! Blocks of kind zstd: text comes back, alone and on a base, in whole and in part, and is small;
//! frames that the format does not allow are refused.

use crate::common::{LEVELS, check, encode};
use lmc_codec::{
    BasePart, Block, Decoder, Dtype, Encoder, ErrorKind, Isa, Level, Plan, TensorSpec,
};
use lmc_format::{BlockKind, BlockPrefix, Reader, ZstdBody};
use lmc_testkit::data::{Random, log};

const OURS: [Level; 3] = [Level::Fast, Level::Default, Level::Max];
const SPEC: TensorSpec = TensorSpec { dtype: Dtype::Bytes, row_len: 0 };

/// A block of one level.
fn block(level: Level, block: Block) -> Vec<u8> {
    let mut out = Vec::new();
    let plan = Plan::new(&SPEC, level, block);
    Encoder::new().encode_block(&plan, 0, block, &mut out);
    out
}

fn kind(block: &[u8]) -> BlockKind {
    BlockPrefix::read(&mut Reader::new(block)).expect("a block").kind
}

/// A block of kind zstd with this body.
fn with_body(raw_len: usize, body: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Zstd, raw_len }.write(&mut block);
    block.extend_from_slice(body);
    block
}

/// What a block decodes to.
fn decode(block: &[u8], base: Option<&[u8]>) -> lmc_codec::Result<Vec<u8>> {
    let mut out = vec![0x55; Decoder::raw_len(block)?];
    Decoder::new().decode_block(block, None, base, &mut out)?;
    Ok(out)
}

/// Text of every length comes back at every level, and is coded by Zstandard unless it is short.
#[test]
fn text_comes_back() {
    for len in [0, 1, 2, 7, 17, 100, 999, 5000, 70_000, 300_000, 9_000_000] {
        let text = log(len, 3);
        for level in LEVELS {
            if level == Level::Max && len > 300_000 {
                continue;
            }
            let coded = encode(Isa::best(), &SPEC, level, &text, None);
            check(Isa::best(), &coded, "text");
            for (block, bytes) in &coded.blocks {
                assert_eq!(kind(block) == BlockKind::Zstd, level != Level::Paper && len > 90);
                assert!(kind(block) != BlockKind::Zstd || 5 * block.len() < 6 * bytes.len());
            }
            assert!(len < 300_000 || level == Level::Paper || coded.blocks[0].1.len() >= 300_000);
        }
    }
}

/// All types of single bytes may repeat, and wider ones are never coded this way.
#[test]
fn types_of_bytes_may_repeat() {
    let text = log(20_000, 4);
    for dtype in Dtype::ALL {
        let spec = TensorSpec { dtype, row_len: 10 };
        let coded = encode(Isa::best(), &spec, Level::Default, &text, None);
        check(Isa::best(), &coded, "text");
        let may = matches!(dtype, Dtype::Bytes | Dtype::U8 | Dtype::I8 | Dtype::Bool);
        let is = coded.blocks.iter().any(|(block, _)| kind(block) == BlockKind::Zstd);
        assert_eq!(is, may, "{dtype:?}");
    }
}

/// Text that moved by a few bytes is small on its base, comes back in whole and in part, and the
/// base does no harm where it is something else.
#[test]
fn text_on_a_base() {
    for len in [300, 40_000, 400_000] {
        let base = log(len, 5);
        let mut moved = base.clone();
        moved.splice(len / 3..len / 3, *b"more");
        moved.truncate(len);
        for level in OURS {
            let alone = block(level, Block::alone(&moved));
            let on_base = block(level, Block::against(&moved, &base));
            assert!(8 * on_base.len() < alone.len().max(600), "{level:?} {len}: {}", on_base.len());
            let need = Decoder::need(&on_base, None, &(1..2)).expect("a block");
            assert_eq!((need.whole, need.base), (0..len, Some(0..len)));
            assert!(decode(&on_base, Some(&base)).expect("a block") == moved);
            for range in [0..0, 0..len, 5..len, 7..8, len - 3..len] {
                let mut part = vec![0; range.len()];
                let given = Some(BasePart { start: 0, bytes: &base });
                let mut decoder = Decoder::new();
                let done = decoder.decode_range(&on_base, None, given, range.clone(), &mut part);
                done.expect("a part");
                assert!(part == moved[range]);
            }
            let other = Random::new(6).bytes(len);
            let harmed = block(level, Block::against(&moved, &other));
            assert!(harmed.len() <= alone.len());
            assert!(decode(&harmed, Some(&other)).expect("a block") == moved);
            for base in [None, Some(&base[1..])] {
                let error = decode(&on_base, base).expect_err("no base");
                assert_eq!(error.kind, ErrorKind::InvalidArgument);
            }
        }
    }
}

/// What is written depends on neither what the encoder has coded before nor where the bytes and
/// their base lie in memory.
#[test]
fn the_same_text_gives_the_same_bytes() {
    let both = log(160_000, 7);
    let (base, text) = both.split_at(80_000);
    for level in OURS {
        let plan = Plan::new(&SPEC, level, Block::against(text, base));
        let mut used = Encoder::new();
        let mut code = |text: &[u8], base: Option<&[u8]>| {
            let block = Block { bytes: text, base };
            let (mut with_used, mut with_new) = (Vec::new(), Vec::new());
            used.encode_block(&plan, 0, block, &mut with_used);
            Encoder::new().encode_block(&plan, 0, block, &mut with_new);
            assert!(with_used == with_new, "{level:?}");
            with_new
        };
        let far = [text, b"x", base].concat();
        let far = code(&far[..80_000], Some(&far[80_001..]));
        assert!(code(text, Some(base)) == far, "{level:?}: bytes right after their base differ");
        for len in [300, 70_000, 9000, 80_000, 70_000] {
            code(&text[..len], None);
        }
    }
}

/// Bytes without repeats are not coded this way, however few they are.
#[test]
fn noise_is_not_text() {
    for len in [1, 40, 3000, 100_000, 700_000] {
        let noise = Random::new(8).bytes(len);
        for level in OURS {
            assert_eq!(kind(&block(level, Block::alone(&noise))), BlockKind::Stored);
        }
    }
}

/// A higher level is never larger.
#[test]
fn levels_are_in_order() {
    for len in [50, 700, 30_000, 500_000] {
        let (text, base) = (log(len, 9), log(len, 10));
        for base in [None, Some(&base[..])] {
            let sizes = OURS.map(|level| block(level, Block { bytes: &text, base }).len());
            assert!(sizes.is_sorted_by(|a, b| a >= b), "{len}: {sizes:?}");
        }
    }
}

/// The parts of a block: its body, and where the frame's fields are in it.
fn parts(text: &[u8]) -> Vec<u8> {
    let block = block(Level::Fast, Block::alone(text));
    let mut input = Reader::new(&block);
    BlockPrefix::read(&mut input).expect("a block");
    input.rest().to_vec()
}

/// Frames that RFC 8878 allows and the format does not are refused, each for its own reason.
#[test]
fn other_frames_are_refused() {
    let text = log(700, 11);
    let good = parts(&text);
    // Flags, magic, a descriptor with a content size of two bytes, the size.
    assert_eq!(good[..8], [0, 0x28, 0xb5, 0x2f, 0xfd, 0x60, (700 - 256_u32) as u8, 1]);
    assert!(decode(&with_body(700, &good), None).expect("a block") == text);
    let blocks = &good[8..];
    let frame = |head: &[u8]| [&good[..5], head, blocks].concat();
    let size = [0xbc, 1];
    let cases: [(&str, Vec<u8>); 12] = [
        ("flags are 0x2", [&[2], &good[1..]].concat()),
        ("flags are 0x81", [&[0x81], &good[1..]].concat()),
        ("magic", [&[0, 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4], &good[1..]].concat()),
        ("magic", [&[0, 0x27], &good[2..]].concat()),
        ("single segment", frame(&[&[0x40, 0x38][..], &size].concat())),
        ("single segment", frame(&[&[0x40, 0xff][..], &size].concat())),
        ("dictionary id", frame(&[&[0x61, 0][..], &size].concat())),
        ("dictionary id", frame(&[&[0x63, 1, 2, 3, 4][..], &size].concat())),
        ("checksum", [&frame(&[&[0x64][..], &size].concat())[..], &[0; 4]].concat()),
        ("single segment", frame(&[&[0x68][..], &size].concat())),
        ("single segment", frame(&[&[0x70][..], &size].concat())),
        ("left over", [&good[..], &[0]].concat()),
    ];
    for (reason, body) in cases {
        let error = decode(&with_body(700, &body), None).expect_err(reason);
        assert_eq!(error.kind, ErrorKind::Corrupt);
        assert!(error.to_string().contains(reason), "{error} instead of {reason}");
    }
    // Two frames, and the content size in more bytes than it needs.
    assert!(decode(&with_body(1400, &[&good[..], &good[1..]].concat()), None).is_err());
    for head in [&[0xa0, 0xbc, 2, 0, 0][..], &[0xe0, 0xbc, 2, 0, 0, 0, 0, 0, 0]] {
        assert!(decode(&with_body(700, &frame(head)), None).expect("a block") == text);
    }
}

/// A content of another length, and one that is too long, are refused.
#[test]
fn wrong_lengths_are_refused() {
    let text = log(700, 12);
    let good = parts(&text);
    for raw_len in [0, 1, 699, 701, 1 << 22, (1 << 22) + 1, 1 << 26] {
        assert!(decode(&with_body(raw_len, &good), None).is_err(), "{raw_len}");
    }
    // The frame says what the block says, and holds more or less.
    for len in [699, 701] {
        let mut body = good.clone();
        body[6..8].copy_from_slice(&(len as u16 - 256).to_le_bytes());
        assert!(decode(&with_body(len, &body), None).is_err(), "{len}");
    }
    let head = [0, 0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    let long = (1_u32 << 22) + 1;
    let body = [&head[..], &long.to_le_bytes(), &[1, 0, 0]].concat();
    let error = decode(&with_body(long as usize, &body), None).expect_err("too long");
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    // A block of the frame that is larger than the content, and one of the reserved type.
    for header in [4 << 3 | 1_u32, 3 << 3 | 3 << 1 | 1] {
        let body = [&head[..5], &[0x20, 3], &header.to_le_bytes()[..3], b"abcd"].concat();
        assert!(decode(&with_body(3, &body), None).is_err());
    }
    let body = [&head[..5], &[0x20, 3], &(3_u32 << 3 | 1).to_le_bytes()[..3], b"abc"].concat();
    assert_eq!(decode(&with_body(3, &body), None).expect("stored"), b"abc");
    let body = [&head[..5], &[0x20, 0], &1_u32.to_le_bytes()[..3]].concat();
    assert_eq!(decode(&with_body(0, &body), None).expect("nothing"), b"");
}

/// Every truncation is refused, and every flipped bit gives an error or as many other bytes.
#[test]
fn damage_is_survived() {
    let (text, base) = (log(2000, 13), log(2000, 14));
    for base in [None, Some(&base[..])] {
        let good = block(Level::Default, Block { bytes: &text, base });
        for len in 0..good.len() {
            assert!(decode(&good[..len], base).is_err(), "cut to {len}");
        }
        let mut decoder = Decoder::new();
        for bit in 24..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let mut out = vec![0; text.len()];
            let _ = decoder.decode_block(&bad, None, base, &mut out);
            // The decoder is as good as new.
            if bit % 100 == 0 {
                decoder.decode_block(&good, None, base, &mut out).expect("a good block");
                assert!(out == text);
            }
        }
    }
}

/// A base that looks like a trained dictionary is raw content all the same.
#[test]
fn a_base_is_raw_content() {
    let text = log(3000, 15);
    let mut base = text.clone();
    base[..8].copy_from_slice(&[0x37, 0xa4, 0x30, 0xec, 1, 0, 0, 0]);
    let on_base = block(Level::Default, Block::against(&text, &base));
    let mut input = Reader::new(&on_base);
    assert_eq!(BlockPrefix::read(&mut input).expect("a block").kind, BlockKind::Zstd);
    assert!(ZstdBody::read(3000, &mut input).expect("a body").needs_base && on_base.len() < 200);
    assert!(decode(&on_base, Some(&base)).expect("a block") == text);
}

/// Many blocks in a frame cost as much as they take.
#[test]
fn blocks_of_a_frame_count() {
    let text = log(1 << 20, 16);
    let coded = block(Level::Fast, Block::alone(&text));
    let need = Decoder::need(&coded, None, &(0..10)).expect("a block");
    assert!(need.writes >= text.len() + 8 * 4096 && need.writes < 2 * text.len(), "{need:?}");
    assert_eq!((need.fixed, need.unit), (need.writes, text.len()));
    let empty = with_body(0, &[0, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0]);
    assert_eq!(Decoder::need(&empty, None, &(0..0)).expect("a block").unit, 1);
}
