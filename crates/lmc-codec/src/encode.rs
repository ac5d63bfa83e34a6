//! Encodes one block by a plan.

use crate::buffers::RecipeBuffers;
use crate::entropy::{PlaneEncoder, Scratch};
use crate::express::{CannotExpress, Encoded, all_or_nothing, only_if};
use crate::plan::{
    Plan, PlaneRecipeEncoder, RecipeEncoder, Scope, Target, block_rows, choose, choose_bytes,
};
use crate::segment::SegmentInput;
use crate::simd::{Isa, fence};
use crate::spec::{Block, Level};
use crate::transform::against;
use crate::zstd::ZstdEncoder;
use lmc_format::limits::{BLOCK_LEN_MAX, SEGMENT_LEN_MAX};
use lmc_format::{BaseUse, BlockKind, BlockPrefix, varint};

mod text;

/// Blocks of up to this many bytes are also tried at cheaper levels.
const SMALL_LEN: usize = 1 << 16;

/// Encodes blocks. It holds working memory, so keep one for each thread.
#[derive(Debug)]
pub struct Encoder {
    isa: Isa,
    streaming: bool,
    buffers: RecipeBuffers,
    /// The differences of words from their base.
    apart: Vec<u8>,
    zstd: ZstdEncoder,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder for this CPU.
    pub fn new() -> Self {
        Self::with_isa(Isa::best())
    }

    /// An encoder with the given instruction set; the output does not depend on it.
    pub fn with_isa(isa: Isa) -> Self {
        Self {
            isa,
            streaming: false,
            buffers: RecipeBuffers::default(),
            apart: Vec::new(),
            zstd: ZstdEncoder::default(),
        }
    }

    /// Whether output that is not read again soon may bypass the caches; off by default. The
    /// encoded bytes are the same.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Appends `block` to `out`. Its bytes are those of the tensor from value `first_value` on.
    ///
    /// Appends at most the bytes themselves and a prefix of five bytes. If the tensor was planned
    /// with a base, the block carries its part of the base. Panics if there are more than 2^26
    /// bytes, or if the base has a different length.
    pub fn encode_block(&mut self, plan: &Plan, first_value: u64, block: Block, out: &mut Vec<u8>) {
        let Block { bytes, base } = block;
        block.check();
        assert!(bytes.len() as u64 <= BLOCK_LEN_MAX, "a block holds 2^26 bytes at most");
        let start = out.len();
        if base == Some(bytes) {
            BlockPrefix { kind: BlockKind::Same, raw_len: bytes.len() }.write(out);
            return;
        }
        if write_constant(plan, bytes, out) {
            return;
        }
        let coded = self
            .write_with_shared_recipe(plan, first_value, block, out)
            .or_else(|_| self.write_with_own_recipe(plan, first_value, block, out));
        let is_coded = self.consider_zstd(plan, block, (start, coded.is_ok()), out);
        if !is_coded || out.len() >= start + stored_len(bytes.len()) {
            out.truncate(start);
            BlockPrefix { kind: BlockKind::Stored, raw_len: bytes.len() }.write(out);
            out.extend_from_slice(bytes);
        }
    }

    /// Appends the block with the tensor's recipe, or with its own where that is smaller. If there
    /// is no shared recipe or it cannot express the values, this fails and leaves `out` as it was.
    fn write_with_shared_recipe(
        &mut self,
        plan: &Plan,
        first_value: u64,
        values: Block,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let prepared = plan.shared.as_ref().ok_or(CannotExpress)?;
        let start = out.len();
        self.write_coded(prepared, BlockKind::Shared, first_value, values, out)?;
        let end = out.len();
        // A block that is larger than the plan expected is unlike the rest of the tensor.
        if prepared.exceeds_estimate(values.bytes.len() / prepared.width(), end - start)
            && self.write_with_own_recipe(plan, first_value, values, out).is_ok()
        {
            keep_shorter(out, start, end, true);
        }
        Ok(())
    }

    /// Appends the block with the best recipe of its own. If no recipe gains, this fails and leaves
    /// `out` as it was.
    fn write_with_own_recipe(
        &mut self,
        plan: &Plan,
        first_value: u64,
        values: Block,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let start = out.len();
        let is_small = values.bytes.len() <= SMALL_LEN;
        // The size of a table is not part of its cost, and in a small block it may be more than the
        // table gains. Larger blocks try what nobody else tries for them.
        let tries_all = is_small || plan.cheaper().is_none();
        let levels: &[Level] = match plan.target.level {
            Level::Max if tries_all => &[Level::Max, Level::Default, Level::Fast],
            Level::Default if tries_all => &[Level::Default, Level::Fast],
            Level::Max => &[Level::Max],
            Level::Default => &[Level::Default],
            Level::Fast => &[Level::Fast],
            Level::Paper => &[Level::Paper],
        };
        // For the same reason a base may lose even though it seemed to gain.
        let alone = is_small && values.base.is_some() && plan.target.level != Level::Paper;
        let bases = [values.base, None];
        let (mut tried, mut done) = (Vec::new(), Err(CannotExpress));
        for base in &bases[..1 + usize::from(alone)] {
            for &level in levels {
                let end = out.len();
                let target = Target { level, ..plan.target };
                let own = Block { base: *base, ..values };
                if self.write_with_own_recipe_at(target, first_value, own, &mut tried, out).is_ok()
                {
                    keep_shorter(out, start, end, done.is_ok());
                    done = Ok(());
                }
            }
        }
        done
    }

    /// The same at one level. Fails too if there is already a block with the same recipe; `tried`
    /// has the recipes so far, and whether they could express the values.
    fn write_with_own_recipe_at(
        &mut self,
        target: Target,
        first_value: u64,
        values: Block,
        tried: &mut Vec<(Vec<u8>, bool)>,
        out: &mut Vec<u8>,
    ) -> Encoded {
        // A recipe from a sample may fail on a value that it has not seen; the next one has seen
        // all values.
        for exact in [false, true] {
            let scope = Scope::block(values, first_value, exact);
            let prepared = choose(self.isa, target, scope).ok_or(CannotExpress)?;
            match tried.iter().find(|(bytes, _)| bytes == prepared.bytes()) {
                Some((_, true)) => return Err(CannotExpress),
                Some((_, false)) => continue,
                None => {}
            }
            let coded = self.write_coded(&prepared, BlockKind::Coded, first_value, values, out);
            tried.push((prepared.bytes().to_vec(), coded.is_ok()));
            if coded.is_ok() {
                return Ok(());
            }
        }
        Err(CannotExpress)
    }

    /// Appends a coded block. If the recipe cannot express its values, this fails and leaves `out`
    /// as it was.
    fn write_coded(
        &mut self,
        prepared: &RecipeEncoder,
        kind: BlockKind,
        first_value: u64,
        values: Block,
        out: &mut Vec<u8>,
    ) -> Encoded {
        all_or_nothing(out, |out| self.write_parts(prepared, kind, first_value, values, out))
    }

    /// Appends the parts of a coded block, or only some of them if one cannot be expressed.
    fn write_parts(
        &mut self,
        prepared: &RecipeEncoder,
        kind: BlockKind,
        first_value: u64,
        values: Block,
        out: &mut Vec<u8>,
    ) -> Encoded {
        BlockPrefix { kind, raw_len: values.bytes.len() }.write(out);
        if kind == BlockKind::Coded {
            out.extend_from_slice(prepared.bytes());
        }
        let width = prepared.width();
        let (whole, tail) = values.bytes.split_at(values.bytes.len() / width * width);
        out.extend_from_slice(tail);
        let base = values.base.map(|base| &base[..whole.len()]);
        let isa = self.isa;
        match (prepared, base) {
            (RecipeEncoder::Classes(own), Some(base)) => {
                let (len, buffers) = (own.recipe.segment_len(), &mut self.buffers.classes);
                write_segments(len, whole, base, out, |values, base, out| {
                    own.segments.encode(isa, values, base, buffers, out)
                })
            }
            (RecipeEncoder::Bins(own), Some(base)) => {
                let (len, buffers) = (own.rules.segment_len(), &mut self.buffers.bins);
                write_segments(len, whole, base, out, |values, base, out| {
                    own.segments.encode(isa, values, base, buffers, out)
                })
            }
            (RecipeEncoder::Changes(own), Some(base)) => {
                let (len, buffers) = (own.recipe.segment_len(), &mut self.buffers.changes);
                write_segments(len, whole, base, out, |values, base, out| {
                    own.segments.encode(isa, values, base, buffers, out)
                })
            }
            (
                RecipeEncoder::Classes(_) | RecipeEncoder::Bins(_) | RecipeEncoder::Changes(_),
                None,
            ) => Err(CannotExpress),
            (RecipeEncoder::Palette(own), _) => {
                let (len, buffers) = (own.recipe.segment_len(), &mut self.buffers.palette);
                // Palettes need no base; the values are passed instead.
                write_segments(len, whole, whole, out, |values, _, out| {
                    own.segments.encode(isa, values, buffers, out)
                })
            }
            (RecipeEncoder::Planes(prepared), _) if prepared.recipe.base == BaseUse::None => {
                self.write_planes(prepared, first_value, whole, out)
            }
            (RecipeEncoder::Planes(prepared), Some(base)) => {
                let mut apart = std::mem::take(&mut self.apart);
                against::forward(&prepared.recipe, whole, base, &mut apart);
                let done = self.write_planes(prepared, first_value, &apart, out);
                self.apart = apart;
                done
            }
            (RecipeEncoder::Planes(_), None) => Err(CannotExpress),
        }
    }

    fn write_planes(
        &mut self,
        prepared: &PlaneRecipeEncoder,
        first_value: u64,
        values: &[u8],
        out: &mut Vec<u8>,
    ) -> Encoded {
        let mut rows = block_rows(prepared, first_value, values);
        if let Some(rows) = &rows {
            varint::write(out, rows.first() as u64);
        }
        let segment_bytes = prepared.recipe.width() << prepared.recipe.segment_log2;
        let mut index = SegmentIndex::start(values.len().div_ceil(segment_bytes), out);
        for (i, segment) in values.chunks(segment_bytes).enumerate() {
            let start = i << prepared.recipe.segment_log2;
            let streaming = self.streaming;
            let input = SegmentInput { values: segment, start, rows: rows.as_mut(), streaming };
            prepared.segments.encode(self.isa, input, &mut self.buffers.planes, out)?;
            index.end_segment(out)?;
        }
        if self.streaming {
            fence();
        }
        if let Some(rows) = &rows {
            write_rows(self.isa, rows.rows(), out);
        }
        Ok(())
    }
}

/// Appends an index and then the segments, each by `encode`; only some of them if one cannot be
/// expressed or is too long.
fn write_segments(
    segment_bytes: usize,
    values: &[u8],
    base: &[u8],
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&[u8], &[u8], &mut Vec<u8>) -> Encoded,
) -> Encoded {
    let mut index = SegmentIndex::start(values.len().div_ceil(segment_bytes), out);
    for (values, base) in values.chunks(segment_bytes).zip(base.chunks(segment_bytes)) {
        encode(values, base, out)?;
        index.end_segment(out)?;
    }
    Ok(())
}

/// The index of a block's segments, filled in as they are written after it.
struct SegmentIndex {
    entry: usize,
    segment: usize,
}

impl SegmentIndex {
    /// Appends an index of `count` entries.
    fn start(count: usize, out: &mut Vec<u8>) -> Self {
        let entry = out.len();
        out.resize(entry + 3 * count, 0);
        Self { entry, segment: out.len() }
    }

    /// Records that the next segment ends at the end of `out`. Fails if it is too long.
    fn end_segment(&mut self, out: &mut [u8]) -> Encoded {
        let len = out.len() - self.segment;
        out[self.entry..][..3].copy_from_slice(&(len as u32).to_le_bytes()[..3]);
        self.entry += 3;
        self.segment = out.len();
        only_if(len <= SEGMENT_LEN_MAX)
    }
}

/// Keeps the shorter of two codings in `out`, one from `start` on and one from `end` on. Keeps the
/// second if there is no first.
fn keep_shorter(out: &mut Vec<u8>, start: usize, end: usize, has_first: bool) {
    if !has_first || out.len() - end < end - start {
        out.drain(start..end);
    } else {
        out.truncate(end);
    }
}

/// Bytes of a stored block of `len` bytes.
fn stored_len(len: usize) -> usize {
    1 + varint::len(len as u64) + len
}

fn write_rows(isa: Isa, rows: &[u8], out: &mut Vec<u8>) {
    let coder = choose_bytes(rows);
    coder.write(out);
    let coded = PlaneEncoder::new(&coder).encode(isa, rows, &mut Scratch::default(), out);
    assert!(coded.is_ok(), "the coder was chosen for these rows");
}

/// Appends a constant block if all values of `bytes` are the same.
fn write_constant(plan: &Plan, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let width = 1 << plan.target.layout.width_log2;
    let Some(value) = bytes.get(..width) else { return false };
    // The last and middle values are enough to tell most blocks apart.
    let middle = bytes.len() / 2 / width * width;
    let is_constant = bytes.len() > 16
        && bytes[middle..].starts_with(value)
        && bytes[width..] == bytes[..bytes.len() - width];
    if is_constant {
        BlockPrefix { kind: BlockKind::Constant, raw_len: bytes.len() }.write(out);
        out.push(width as u8);
        out.extend_from_slice(value);
    }
    is_constant
}
