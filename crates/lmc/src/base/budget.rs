//! Limits the work that a file may cause: a small hostile file could otherwise cost hours.
//!
//! Work is counted in bytes that decoders write. Other work counts as the bytes that would take as
//! long ([`Effort`]): a look into a span, a table of a recipe, bytes that are hashed. The sum
//! covers one restore or one read, on all threads and in all files of a base chain. It is compared
//! with the amount that is asked for ([`Budget`]). The limit is needed because each file in a base
//! chain may read its base twice, and because a decoder writes a whole segment for one byte that is
//! asked for.

use crate::base::decode_cache::{LEN_MAX, Recent, len_max};
use crate::context::Context;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Cost of a look into a span, and of each of its blocks in the index.
const SPAN_COST: u64 = 4096;
const BLOCK_COST: u64 = 32;
/// Cost of finding a part that was kept.
const FIND_COST: u64 = 256;
/// Cost of a recipe that blocks share, as our writer makes it.
const RECIPE_COST: u64 = 1 << 15;
/// Hashing this many bytes costs as much as decoding one.
pub(crate) const HASHED_FOR_ONE: u64 = 16;

/// Decoders may write this many times the length of the original, for it and for each base below
/// it. Its own bytes are written once, and those of a base twice where f32 is rounded.
const TIMES: u64 = 4;
/// Cost that a span may have in addition to its bytes, for it and for each base below it.
const SPAN_FREE: u64 = 1 << 16;
/// Cost that a file may have whatever it holds: whole segments, where little of each is wanted.
const FREE: u64 = 64 << 20;
/// A new file may use one part in this many of the budget; the rest is for costs that are not known
/// before it is coded.
const NEW_PART: u64 = 2;

/// The work that may be done for one request.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Allowed for each file of the base chain.
    each: AtomicU64,
    /// The depth of the base chain, as far as it has been found.
    depth: AtomicUsize,
    spent: AtomicU64,
    /// The context of the call that it is for.
    context: Context,
    /// The number of threads that work.
    threads: AtomicUsize,
}

/// A budget, and how many files of the base chain are above the one that is decoded here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort<'a> {
    budget: &'a Budget,
    pub depth: usize,
}

impl Budget {
    /// A budget for an original of `len` bytes in `spans` spans.
    pub(crate) fn new(len: u64, spans: usize, context: &Context) -> Self {
        let each = AtomicU64::new(each(len, spans));
        let (depth, threads) = (AtomicUsize::new(0), AtomicUsize::new(1));
        Self { each, depth, spent: AtomicU64::new(0), context: context.clone(), threads }
    }

    /// Adds the budget for another request.
    pub(crate) fn extend(&self, len: u64, spans: usize) {
        self.each.fetch_add(each(len, spans), Ordering::Relaxed);
    }

    /// The effort for work on the file itself.
    pub(crate) fn effort(&self) -> Effort<'_> {
        Effort { budget: self, depth: 0 }
    }

    /// The most that may be spent.
    pub(crate) fn most(&self) -> u64 {
        most(self.each.load(Ordering::Relaxed), self.depth.load(Ordering::Relaxed))
    }

    /// Whether more has been requested than may be spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed) > self.most()
    }

    /// Starts again, as if nothing had been spent.
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

/// Does some work on all threads of the context. If that costs too much, the work is repeated, or
/// continues, on one thread. Many threads that read here and there in a base may find little of
/// what others have read, and the cost of a file was worked out for one thread that reads it from
/// start to end.
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
            work(&context.alone())
        }
        done => done,
    }
}

/// Cost of a look into a span with this many blocks.
fn look_cost(blocks: usize) -> u64 {
    SPAN_COST + BLOCK_COST * blocks as u64
}

impl<'a> Effort<'a> {
    /// The context of the call that it is for.
    pub(crate) fn context(self) -> &'a Context {
        &self.budget.context
    }

    /// The same, one file further down the base chain.
    pub(crate) fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// How many decoded bytes may be kept.
    pub(crate) fn kept_max(self) -> u64 {
        len_max(self.budget.threads.load(Ordering::Relaxed))
    }

    /// Counts a look into a span with this many blocks.
    pub(crate) fn look(self, blocks: usize) -> Result<()> {
        self.decode(look_cost(blocks))
    }

    /// Counts the lookup of a part that was kept.
    pub(crate) fn find(self) -> Result<()> {
        self.decode(FIND_COST)
    }

    /// Counts bytes that are about to be decoded; fails if the total is too much.
    pub(crate) fn decode(self, bytes: u64) -> Result<()> {
        self.budget.depth.fetch_max(self.depth, Ordering::Relaxed);
        let most = self.budget.most();
        let spent = self.budget.spent.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if spent <= most {
            return Ok(());
        }
        let message = format!(
            "its parts refer to each other and to its bases so often that it would cost as much as \
             decoding more than {most} bytes; no file that lmc makes does so with its own bases, \
             so it may be meant to waste time"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message).with_advice(Advice::RestoreBasesFirst))
    }
}

/// The cost of reading parts of bases, added up before it is done.
#[derive(Debug)]
pub(crate) struct Cost {
    /// What a restore may cost for each file of the base chain.
    each: u64,
    /// The depth of the base chain.
    depth: usize,
    work: u64,
    /// The parts of files that will be kept, by the number of the file.
    kept: Recent<()>,
}

impl Cost {
    /// No cost yet, for a new file of `len` bytes in `spans` spans.
    pub(crate) fn new(len: u64, spans: usize) -> Self {
        Self { each: each(len, spans), depth: 0, work: 0, kept: Recent::default() }
    }

    /// Whether a restore would do so much work on bases that it might be refused.
    pub(crate) fn is_too_much(&self) -> bool {
        self.work > most(self.each, self.depth) / NEW_PART
    }

    /// The part of a file that holds byte `at` of its original, if it will still be kept.
    pub(crate) fn kept(&mut self, file: usize, at: u64) -> Option<Range<u64>> {
        Some(self.kept.find(file, at)?.0)
    }

    /// Records that a part of a file will be kept. This counts on half of the available room:
    /// several threads change the order.
    pub(crate) fn keep(&mut self, file: usize, range: Range<u64>) {
        self.kept.keep(file, range, (), LEN_MAX / 2);
    }

    /// Adds that a span with this many blocks will be looked into this many times for `writes`
    /// bytes, in a file that has `depth` others above it in the base chain.
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
