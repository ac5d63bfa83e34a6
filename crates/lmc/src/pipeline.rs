//! Takes the parts of a file through three stages: read, work, write.
//!
//! A thread takes the next part, reads it and works on it. Parts are written in their order. The
//! thread that finishes the next one writes it, and all that are ready after it; meanwhile the
//! others go on. Several threads that write to one file would wait for each other in the kernel.
//! Parts that come over a network are read by threads of their own, which wait for it.
//!
//! There are never more parts in the pipelines of a crew than permits, so memory is bounded
//! whatever the files hold: a part takes a permit before it is read and gives it back when it is
//! written. Each stage takes a turn on the CPU; writing comes first, because it makes room.
//!
//! The system may refuse to start threads. Then the work is done with those that could be started.

use crate::context::{Context, Interrupt};
use crate::crew::{Permit, Urgency, has_turn, in_turn};
use crossbeam_channel::{Receiver, Sender, bounded};
use lmc_format::{Error, ErrorKind, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

/// Parts that may wait between those who read and those who work.
const WAITING: usize = 2;

/// The work that is done on each part.
pub(crate) trait Stages: Sync {
    /// A part after reading.
    type Read: Send;
    /// What a thread needs for the work, such as buffers; used again for other parts and files.
    type Worker: Any + Send + Default;
    /// A part after the work.
    type Done: Send;
    /// A part that is ready to be written.
    type Write: Send;

    /// Whether reading waits for a network.
    fn is_far(&self) -> bool;
    /// Reads part `i`.
    fn read(&self, i: usize) -> Result<Self::Read>;
    /// Works on part `i`.
    fn work(&self, worker: &mut Self::Worker, i: usize, read: Self::Read) -> Result<Self::Done>;
    /// Writes a part.
    fn write(&self, part: Self::Write) -> Result<()>;
}

/// A part that was read.
struct Parcel<T> {
    i: usize,
    permit: Option<Permit>,
    part: Result<T>,
}

/// Takes parts 0 to `count` through all stages; `collect` sees them in order. Returns the first
/// error of a write, or else the first of any stage. After an error that is not from a write, all
/// parts that `collect` has seen are written.
pub(crate) fn run<S: Stages>(
    stages: &S,
    count: usize,
    context: &Context,
    collect: impl FnMut(usize, S::Done) -> Result<S::Write> + Send,
) -> Result<()> {
    let _shift = context.shift();
    let order = Order { waiting: BTreeMap::new(), turn: 0, is_writing: false, collect };
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (order, failures) = (Mutex::new(order), Mutex::default());
    let line = Line { stages, count, context, next, order, failures, is_over };
    let threads = context.thread_count().min(count).min(context.crew_size().parts);
    let readers = if stages.is_far() { context.crew_size().parts.div_ceil(2) } else { 0 };
    // Within a stage of another pipeline, all permits and turns may be taken by those who wait.
    if threads <= 1 && readers == 0 || has_turn() {
        context.employ(|| line.work_on_all());
        return line.end();
    }
    let (to_work, from_read) = bounded(WAITING);
    std::thread::scope(|scope| {
        let (line, from_read, to_work) = (&line, &from_read, to_work);
        let start_reader = |_: &usize| {
            let to_work = to_work.clone();
            start(scope, context, move || line.read_all(&to_work))
        };
        let has_readers = (0..readers.min(count)).take_while(start_reader).count() > 0;
        drop(to_work);
        let work = move || match has_readers {
            true => line.work_on_what_is_read(from_read),
            false => line.work_on_all(),
        };
        let _ = (1..threads).take_while(|_| start(scope, context, work)).count();
        context.employ(work);
    });
    line.end()
}

/// Starts a thread; says whether the system allowed it.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: &'scope Context,
    run: impl FnOnce() + Send + 'scope,
) -> bool {
    Builder::new().spawn_scoped(scope, || context.employ(run)).is_ok()
}

/// What the threads of a pipeline share.
struct Line<'a, S: Stages, C> {
    stages: &'a S,
    count: usize,
    context: &'a Context,
    /// The part that is taken next.
    next: AtomicUsize,
    order: Mutex<Order<S::Done, C>>,
    failures: Mutex<Failures>,
    is_over: AtomicBool,
}

/// Parts that were worked on, on their way to be written.
struct Order<D, C> {
    /// Those that come after others which are not done yet.
    waiting: BTreeMap<usize, (D, Option<Permit>)>,
    /// The part that comes next.
    turn: usize,
    /// Whether a thread writes. No other one begins to.
    is_writing: bool,
    collect: C,
}

/// The first failures.
#[derive(Default)]
struct Failures {
    /// Of a write. It comes before all others: its part is lost, and nothing after it may be used.
    write: Option<Error>,
    other: Option<Error>,
}

impl<S: Stages, C: FnMut(usize, S::Done) -> Result<S::Write>> Line<'_, S, C> {
    /// Takes the next part; none if there is none, or if the work is over.
    fn take(&self) -> Option<(usize, Option<Permit>)> {
        let is_left = || {
            !self.is_over.load(Ordering::Acquire) && self.next.load(Ordering::Relaxed) < self.count
        };
        if !is_left() {
            return None;
        }
        // The permit comes first, so that the part that all others wait for always has one.
        let permit = (!has_turn()).then(|| self.context.crew.permit());
        let i = self.next.fetch_add(1, Ordering::Relaxed);
        (i < self.count && !self.is_over.load(Ordering::Acquire)).then_some((i, permit))
    }

    fn read(&self, i: usize) -> Result<S::Read> {
        self.guarded(Urgency::Usual, || self.stages.read(i))
    }

    /// Reads parts for others.
    fn read_all(&self, to_work: &Sender<Parcel<S::Read>>) {
        while let Some((i, permit)) = self.take() {
            if to_work.send(Parcel { i, permit, part: self.read(i) }).is_err() {
                return;
            }
        }
    }

    fn work_on_what_is_read(&self, from_read: &Receiver<Parcel<S::Read>>) {
        for Parcel { i, permit, part } in from_read {
            if !self.is_over.load(Ordering::Acquire) {
                self.work_on(i, permit, part);
            }
        }
    }

    fn work_on_all(&self) {
        while let Some((i, permit)) = self.take() {
            self.work_on(i, permit, self.read(i));
        }
    }

    /// Works on a part, and writes what can then be written.
    fn work_on(&self, i: usize, permit: Option<Permit>, read: Result<S::Read>) {
        let work = |read| {
            self.guarded(Urgency::Usual, || {
                // There are no more of these than turns.
                let mut worker = self.context.crew.take();
                let done = self.stages.work(&mut worker, i, read);
                self.context.crew.give(worker);
                done
            })
        };
        match read.and_then(work) {
            Ok(done) => self.order().waiting.insert(i, (done, permit)),
            Err(error) => return self.fail(|failures| &mut failures.other, error),
        };
        while let Some((part, _permit)) = self.next_to_write() {
            if let Err(error) = self.guarded(Urgency::Urgent, || self.stages.write(part)) {
                self.fail(|failures| &mut failures.write, error);
            }
            self.order().is_writing = false;
        }
    }

    /// The part that comes next, if it is done and nobody writes.
    fn next_to_write(&self) -> Option<(S::Write, Option<Permit>)> {
        let mut order = self.order();
        if order.is_writing || self.is_over.load(Ordering::Acquire) {
            return None;
        }
        let turn = order.turn;
        let (done, permit) = order.waiting.remove(&turn)?;
        order.turn += 1;
        let collected = catch_unwind(AssertUnwindSafe(|| (order.collect)(turn, done)));
        match collected.unwrap_or_else(|_| Err(broken())) {
            Ok(part) => {
                order.is_writing = true;
                Some((part, permit))
            }
            Err(error) => {
                drop(order);
                self.fail(|failures| &mut failures.other, error);
                None
            }
        }
    }

    fn fail(&self, kind: impl FnOnce(&mut Failures) -> &mut Option<Error>, error: Error) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        kind(&mut failures).get_or_insert(error);
        self.is_over.store(true, Ordering::Release);
    }

    fn order(&self) -> MutexGuard<'_, Order<S::Done, C>> {
        // Nothing panics while it is locked.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guarded<T>(&self, urgency: Urgency, stage: impl FnOnce() -> Result<T>) -> Result<T> {
        in_turn(urgency, || guarded(&self.context.interrupt, stage))
    }

    /// The result, once all threads are done.
    fn end(self) -> Result<()> {
        let Failures { write, other } =
            self.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        write.or(other).map_or(Ok(()), Err)
    }
}

/// Works on parts 0 to `count` on several threads, each with a `worker` of its own. Returns the
/// results in order, or the error of the first part that fails. Looks for the interrupt of
/// `context` before each part.
pub fn each<W, R: Send>(
    count: usize,
    context: &Context,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let done = Mutex::new(Vec::with_capacity(count));
    for_each(count, context, worker, |worker, i| {
        let result = work(worker, i)?;
        done.lock().map_err(|_| broken())?.push((i, result));
        Ok(())
    })?;
    let mut done = done.into_inner().map_err(|_| broken())?;
    done.sort_unstable_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// The same for work without results.
pub(crate) fn for_each<W>(
    count: usize,
    context: &Context,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize) -> Result<()> + Sync,
) -> Result<()> {
    let (interrupt, next) = (&context.interrupt, AtomicUsize::new(0));
    let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let fail = |i: usize, error: Error| {
        // All parts before this one are already running or done; none after it is needed.
        next.fetch_max(count, Ordering::Relaxed);
        let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(before, _)| i < *before) {
            *first = Some((i, error));
        }
    };
    let run = || {
        let mut worker = worker();
        // One turn for as many as nobody else waits for: some of this work is very short.
        let mut some = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    return false;
                }
                if let Err(error) = guarded(interrupt, || work(&mut worker, i)) {
                    fail(i, error);
                }
                if context.crew.is_turn_wanted() {
                    return true;
                }
            }
        };
        context.employ(|| while in_turn(Urgency::Usual, &mut some) {});
    };
    let has_failed = std::thread::scope(|scope| {
        let start = |_| Builder::new().spawn_scoped(scope, run).ok();
        let others: Vec<_> = (1..context.thread_count().min(count)).map_while(start).collect();
        run();
        others.into_iter().filter_map(|thread| thread.join().err()).count() > 0
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None if has_failed => Err(broken()),
        None => Ok(()),
    }
}

/// Runs a stage unless it is interrupted. A panic in it becomes an error, so that no other thread
/// waits for its part.
fn guarded<T>(interrupt: &Interrupt, stage: impl FnOnce() -> Result<T>) -> Result<T> {
    interrupt.check()?;
    catch_unwind(AssertUnwindSafe(stage)).unwrap_or_else(|_| Err(broken()))
}

fn broken() -> Error {
    Error::new(ErrorKind::Io, "a thread of lmc failed; please report it")
}

/// A reusable buffer. It keeps its longest length, because new memory costs a page fault per 4 KiB.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// Makes it `len` bytes long; the contents are arbitrary.
    pub(crate) fn sized(&mut self, len: u64) -> Result<&mut [u8]> {
        self.len = usize::try_from(len).map_err(|_| Error::invalid("more than memory can hold"))?;
        if self.memory.len() < self.len {
            self.memory.resize(self.len, 0);
        }
        Ok(&mut self.memory[..self.len])
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// Objects for reuse.
#[derive(Debug, Default)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T: Default> Pool<T> {
    pub(crate) fn new(used: Vec<T>) -> Self {
        Self(Mutex::new(used))
    }

    /// An object that was given back, or a new one.
    pub(crate) fn take(&self) -> T {
        self.0.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default()
    }

    pub(crate) fn give(&self, used: T) {
        if let Ok(mut pool) = self.0.lock() {
            pool.push(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Part 0 cannot be written, which shows only after part 1 has failed.
    struct LateFailure(Barrier);

    impl Stages for LateFailure {
        type Read = ();
        type Worker = ();
        type Done = ();
        type Write = ();

        fn is_far(&self) -> bool {
            false
        }

        fn read(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn work(&self, (): &mut (), i: usize, (): ()) -> Result<()> {
            if i == 0 {
                return Ok(());
            }
            self.0.wait();
            Err(Error::new(ErrorKind::LimitExceeded, "too much"))
        }

        fn write(&self, (): ()) -> Result<()> {
            self.0.wait();
            Err(Error::new(ErrorKind::Io, "no space"))
        }
    }

    /// A failed write is never hidden by another failure, after which the work might go on as if
    /// the write had succeeded.
    #[test]
    fn a_failed_write_is_not_forgotten() {
        for _ in 0..100 {
            let stages = LateFailure(Barrier::new(2));
            let error = run(&stages, 2, &Context::with_threads(2), |_, ()| Ok(())).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Io, "{error}");
        }
    }
}
