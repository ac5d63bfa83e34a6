//! Our levels on a pair: the blocks of all spans with their lengths, on the base or alone.

use lmc::Level;
use lmc_codec::{Block, Decoder, Encoder, Plan, SharedRecipe, TensorSpec};

use super::engine::{Engine, Label, Sizes};
use super::pair::{Pair, Span};
use super::share::share;
use crate::exit::Failure;

/// Bytes that a file needs for the length of a block or a recipe.
const LENGTH_LEN: usize = 4;

/// One of our levels.
pub struct Blocks<'a> {
    level: Level,
    on_base: bool,
    workers: Vec<Worker>,
    pieces: Vec<Piece<'a>>,
}

/// What a thread has to itself.
#[derive(Default)]
struct Worker {
    encoder: Encoder,
    decoder: Decoder,
}

/// A span with room for its results.
struct Piece<'a> {
    spec: TensorSpec,
    data: &'a [u8],
    base: Option<&'a [u8]>,
    /// The shared recipe, then the blocks.
    coded: Vec<u8>,
    shared_len: usize,
    block_len: usize,
    coded_lens: Vec<usize>,
    restored: Vec<u8>,
}

impl<'a> Blocks<'a> {
    /// An engine for `data`, which `pair` is of.
    pub fn new(data: &'a [u8], pair: &'a Pair, level: Level, threads: usize) -> Self {
        let piece = |span: &Span| Piece {
            spec: span.spec,
            data: &data[span.range.clone()],
            base: span.has_base.then(|| &pair.base[span.range.clone()]),
            coded: Vec::new(),
            shared_len: 0,
            block_len: 0,
            coded_lens: Vec::new(),
            // Not 0: a zeroed allocation is mapped only when it is first written.
            restored: vec![1; span.range.len()],
        };
        let workers = (0..threads).map(|_| Worker::default()).collect();
        Self { level, on_base: true, workers, pieces: pair.spans.iter().map(piece).collect() }
    }

    /// The same without the base.
    pub fn alone(mut self) -> Self {
        self.on_base = false;
        self.pieces.iter_mut().for_each(|piece| piece.base = None);
        self
    }
}

impl Engine for Blocks<'_> {
    fn label(&self) -> Label {
        let level = format!("{:?}", self.level).to_lowercase();
        Label { engine: "lmc", level, grouped: false, base: self.on_base }
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn compress(&mut self) -> Result<Sizes, Failure> {
        let level = self.level;
        share(&mut self.workers, &mut self.pieces, |worker, piece| {
            piece.encode(&mut worker.encoder, level);
            Ok(())
        })?;
        let sum = |len: fn(&Piece) -> usize| self.pieces.iter().map(|p| len(p) as u64).sum();
        Ok(Sizes {
            bytes_in: sum(|piece| piece.data.len()),
            bytes_out: sum(|piece| piece.stored_len()),
        })
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn decompress(&mut self) -> Result<(), Failure> {
        let decode = |worker: &mut Worker, piece: &mut Piece| piece.decode(&mut worker.decoder);
        share(&mut self.workers, &mut self.pieces, |worker, piece| Ok(decode(worker, piece)?))
    }

    fn came_back(&self) -> bool {
        self.pieces.iter().all(|piece| piece.restored == piece.data)
    }
}

impl Piece<'_> {
    fn encode(&mut self, encoder: &mut Encoder, level: Level) {
        let tensor = Block { bytes: self.data, base: self.base };
        let plan = Plan::new(&self.spec, level, tensor);
        self.coded.clear();
        self.coded_lens.clear();
        self.coded.extend_from_slice(plan.shared_recipe());
        (self.shared_len, self.block_len) = (self.coded.len(), plan.block_len());
        let mut start = 0;
        for bytes in self.data.chunks(self.block_len) {
            let end = self.coded.len();
            let first_value = (start / self.spec.dtype.width()) as u64;
            let base = self.base.map(|base| &base[start..][..bytes.len()]);
            encoder.encode_block(&plan, first_value, Block { bytes, base }, &mut self.coded);
            self.coded_lens.push(self.coded.len() - end);
            start += bytes.len();
        }
    }

    fn decode(&mut self, decoder: &mut Decoder) -> lmc::Result<()> {
        let (recipe, mut blocks) = self.coded.split_at(self.shared_len);
        let shared = match recipe {
            [] => None,
            recipe => Some(SharedRecipe::parse(recipe)?),
        };
        let mut start = 0;
        for (out, &len) in self.restored.chunks_mut(self.block_len).zip(&self.coded_lens) {
            let (block, after) = blocks.split_at(len);
            let base = self.base.map(|base| &base[start..][..out.len()]);
            decoder.decode_block(block, shared.as_ref(), base, out)?;
            start += out.len();
            blocks = after;
        }
        Ok(())
    }

    /// Bytes of recipe and blocks, with a length for each.
    fn stored_len(&self) -> usize {
        self.coded.len() + LENGTH_LEN * (1 + self.coded_lens.len())
    }
}
