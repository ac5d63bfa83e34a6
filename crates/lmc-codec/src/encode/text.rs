//! Blocks that are not numbers: Zstandard where it is smaller.

use super::{Encoder, keep_shorter};
use crate::plan::Plan;
use crate::spec::{Block, Level};
use lmc_format::limits::ZSTD_BLOCK_LEN_MAX;
use lmc_format::{BlockKind, BlockPrefix};

/// Longer blocks get a level that takes less time.
const STRONG_LEN: usize = 1 << 18;

/// The levels of Zstandard to try, the first of which is also tried without the base. A higher
/// level of ours tries all that a lower one does, so that it is never larger.
fn zstd_levels(level: Level, len: usize) -> &'static [i32] {
    match (level, len) {
        (Level::Paper, _) => &[],
        (Level::Fast, ..ZSTD_BLOCK_LEN_MAX) => &[3],
        // Bytes in front of such a block are out of reach, which level 6 makes up for.
        (Level::Fast, _) => &[6],
        (Level::Default, ..=STRONG_LEN) => &[3, 19],
        (Level::Default, ..ZSTD_BLOCK_LEN_MAX) => &[3, 16],
        (Level::Default, _) => &[6, 16],
        (Level::Max, ..=STRONG_LEN) => &[3, 19, 22],
        (Level::Max, ..ZSTD_BLOCK_LEN_MAX) => &[3, 16, 19],
        (Level::Max, _) => &[6, 16, 19],
    }
}

impl Encoder {
    /// Replaces the block from `start` on, if there is one, by one of kind zstd where that is
    /// smaller. Says whether there is a block now.
    pub(super) fn consider_zstd(
        &mut self,
        plan: &Plan,
        block: Block,
        (start, mut done): (usize, bool),
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(kind) = plan.bytes else { return done };
        let is_short = block.bytes.len() <= super::SMALL_LEN;
        if !(plan.is_text || is_short) || !kind.is_text(block.bytes, &mut self.zstd) {
            return done;
        }
        let mut base = block.base;
        for (i, &level) in zstd_levels(plan.target.level, block.bytes.len()).iter().enumerate() {
            let len = self.try_zstd(level, Block { base, ..block }, (start, &mut done), out);
            if i == 0 && base.is_some() {
                let alone =
                    self.try_zstd(level, Block::alone(block.bytes), (start, &mut done), out);
                // What is smaller at one level is likely to be smaller at all.
                base = base.filter(|_| len <= alone);
            }
        }
        done
    }

    /// Tries one level. Returns the length of what it wrote, whether that is kept or not.
    fn try_zstd(
        &mut self,
        level: i32,
        block: Block,
        (start, done): (usize, &mut bool),
        out: &mut Vec<u8>,
    ) -> usize {
        let end = out.len();
        BlockPrefix { kind: BlockKind::Zstd, raw_len: block.bytes.len() }.write(out);
        if self.zstd.write(level, block.bytes, block.base, out).is_err() {
            out.truncate(end);
            return usize::MAX;
        }
        let len = out.len() - end;
        keep_shorter(out, start, end, *done);
        *done = true;
        len
    }
}
