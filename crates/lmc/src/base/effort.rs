//! How much work a file may cause: a small hostile one would otherwise cost hours.
//!
//! Work is counted in bytes that decoders write, and in what takes as long ([`Effort`]): a look into
//! a span, a table of a recipe, bytes that are hashed. It is added up for one restore or one read, on all
//! threads and in all files of a chain, and compared with what is asked for ([`Budget`]): files that
//! stand on each other may each ask twice for what is below them, and for a byte that is asked for, a
//! decoder writes a whole segment.

use crate::base::recent::{LEN_MAX, Recent, len_max};
use crate::context::Context;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a look into a span costs, and each of its blocks in the index.
const SPAN_COST: u64 = 4096;
const BLOCK_COST: u64 = 32;
/// What it costs to find a part that was kept.
const FIND_COST: u64 = 256;
/// What a recipe that blocks share costs, as a writer of ours makes it.
const RECIPE_COST: u64 = 1 << 15;
/// Bytes that are hashed for the cost of one that is decoded.
pub(crate) const HASHED_FOR_ONE: u64 = 16;

/// Decoders may write so many times the length of the original, for it and for each base below it.
/// Its own bytes are written once, those of a base twice where f32 is rounded.
const TIMES: u64 = 4;
/// What a span may cost beside its bytes, for it and for each base below it.
const SPAN_FREE: u64 = 1 << 16;
/// What a file may cost whatever it holds: whole segments, where little of each is wanted.
const FREE: u64 = 64 << 20;
/// A new file may cost this part of it to restore; the rest is for what is not known before it is
/// coded.
const NEW_PART: u64 = 2;

/// What may be done for what is asked for.
#[derive(Debug)]
pub(crate) struct Budget {
    /// For each of the files that stand one on the other.
    each: AtomicU64,
    /// How many files have been found one on the other.
    depth: AtomicUsize,
    spent: AtomicU64,
    /// Of the call that it is for.
    context: Context,
    /// How many threads work.
    threads: AtomicUsize,
}

/// A budget, and how many files stand on the one that is decoded here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort<'a> {
    budget: &'a Budget,
    pub depth: usize,
}

impl Budget {
    /// For an original of `len` bytes in `spans` spans.
    pub(crate) fn new(len: u64, spans: usize, context: &Context) -> Self {
        let each = AtomicU64::new(each(len, spans));
        let (depth, threads) = (AtomicUsize::new(0), AtomicUsize::new(1));
        Self { each, depth, spent: AtomicU64::new(0), context: context.clone(), threads }
    }

    /// As much again is asked for.
    pub(crate) fn extend(&self, len: u64, spans: usize) {
        self.each.fetch_add(each(len, spans), Ordering::Relaxed);
    }

    /// For work on the file itself.
    pub(crate) fn effort(&self) -> Effort<'_> {
        Effort { budget: self, depth: 0 }
    }

    /// What may be spent.
    pub(crate) fn most(&self) -> u64 {
        most(self.each.load(Ordering::Relaxed), self.depth.load(Ordering::Relaxed))
    }

    /// Whether more has been asked for than may be spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed) > self.most()
    }

    /// As if nothing had been spent.
    pub(crate) fn renew(&self) {
        self.spent.store(0, Ordering::Relaxed);
    }

    /// What has been spent.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }
}

fn each(len: u64, spans: usize) -> u64 {
    TIMES.saturating_mul(len).saturating_add(SPAN_FREE.saturating_mul(spans as u64))
}

fn most(each: u64, depth: usize) -> u64 {
    each.saturating_mul(depth as u64 + 1).saturating_add(FREE)
}

/// Does some work on all threads that are meant. If it costs too much, it is done again, or goes on,
/// on one thread: many that read here and there in a base may find little of what others have read, and what a
/// file costs was found out for one that reads it from its start to its end.
pub(crate) fn alone_if_spent(
    budgets: &[&Budget],
    context: &Context,
    mut work: impl FnMut(&Context) -> Result<()>,
) -> Result<()> {
    let mut work = |context: &Context| {
        let threads = context.thread_count();
        budgets.iter().for_each(|budget| budget.threads.store(threads, Ordering::Relaxed));
        work(context)
    };
    match work(context) {
        Err(e) if e.kind == ErrorKind::LimitExceeded && context.thread_count() > 1 => {
            let spent = budgets.iter().filter(|budget| budget.is_spent());
            if spent.map(|budget| budget.renew()).count() == 0 {
                return Err(e);
            }
            work(&context.on_threads(1))
        }
        done => done,
    }
}

/// What a look into a span with this many blocks costs.
fn look_cost(blocks: usize) -> u64 {
    SPAN_COST + BLOCK_COST * blocks as u64
}

impl<'a> Effort<'a> {
    /// That of the call that it is for.
    pub(crate) fn context(self) -> &'a Context {
        &self.budget.context
    }

    /// The same, one file deeper.
    pub(crate) fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Bytes that may be kept of what is decoded.
    pub(crate) fn kept_max(self) -> u64 {
        len_max(self.budget.threads.load(Ordering::Relaxed))
    }

    /// Counts a look into a span with this many blocks.
    pub(crate) fn look(self, blocks: usize) -> Result<()> {
        self.decode(look_cost(blocks))
    }

    /// Counts that a part was found which was kept.
    pub(crate) fn find(self) -> Result<()> {
        self.decode(FIND_COST)
    }

    /// Counts bytes that are about to be decoded; fails if all come to too much.
    pub(crate) fn decode(self, bytes: u64) -> Result<()> {
        self.budget.depth.fetch_max(self.depth, Ordering::Relaxed);
        let most = self.budget.most();
        let spent = self.budget.spent.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if spent <= most {
            return Ok(());
        }
        let message = format!(
            "its parts refer to each other and to its bases so often that it would take the work of \
             decoding more than {most} bytes; no file that lmc makes does on the bases it was made on, so \
             it may be meant to waste time"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message).with_advice(Advice::RestoreBasesFirst))
    }
}

/// What reading parts of bases will cost, added up before it is done.
#[derive(Debug)]
pub(crate) struct Cost {
    /// What a restore may cost, for each of the files that stand one on the other.
    each: u64,
    /// How many files are one on the other.
    depth: usize,
    work: u64,
    /// What will be kept of files, by numbers that they have.
    kept: Recent<()>,
}

impl Cost {
    /// Nothing yet, for a new file of `len` bytes in `spans` spans.
    pub(crate) fn new(len: u64, spans: usize) -> Self {
        Self { each: each(len, spans), depth: 0, work: 0, kept: Recent::default() }
    }

    /// Whether a restore would make decoders do so much with bases that it might be refused.
    pub(crate) fn is_too_much(&self) -> bool {
        self.work > most(self.each, self.depth) / NEW_PART
    }

    /// The part of a file that holds byte `at` of its original, if it will be there still.
    pub(crate) fn kept(&mut self, file: usize, at: u64) -> Option<Range<u64>> {
        Some(self.kept.find(file, at)?.0)
    }

    /// A part of a file will be kept. Half as much is counted on as there is room for: several threads
    /// change the order.
    pub(crate) fn keep(&mut self, file: usize, range: Range<u64>) {
        self.kept.keep(file, range, (), LEN_MAX / 2);
    }

    /// A span with this many blocks in a file that `depth` others stand on will be looked into so many
    /// times for `writes` bytes.
    pub(crate) fn add(
        &mut self,
        depth: usize,
        blocks: usize,
        times: u64,
        has_recipe: bool,
        writes: u64,
    ) {
        self.depth = self.depth.max(depth);
        let recipe = if has_recipe { RECIPE_COST } else { 0 };
        let looks = times.saturating_mul(look_cost(blocks) + recipe);
        self.work = self.work.saturating_add(looks).saturating_add(writes);
    }
}
