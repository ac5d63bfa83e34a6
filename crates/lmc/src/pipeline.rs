//! Takes the parts of a file through three concurrent stages: read, work, write.
//!
//! ```text
//! readers -> [few] -> workers -> [few] -> collector, in order -> [few] -> writers
//! ```
//!
//! There are never more parts in the pipeline than permits, so memory is bounded whatever a file
//! holds: a part takes a permit before it is read and gives it back when it is written.
//!
//! The system may refuse to start threads. Then the work is done with those that could be started.
//! If there are none, the calling thread does everything.

use crate::context::{Context, Interrupt};
use crossbeam_channel::{Receiver, Sender, bounded};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

/// Parts that may wait between two stages.
const WAITING: usize = 2;
/// Parts that may be in the pipeline in addition to those that are worked on.
const PERMITS_EXTRA: usize = 4;

/// The work that is done on each part.
pub(crate) trait Stages: Sync {
    /// A part after reading.
    type Read: Send;
    /// State that a worker keeps between parts.
    type Worker;
    /// A part after the work.
    type Done: Send;
    /// A part that is ready to be written.
    type Write: Send;

    /// Reads part `i`.
    fn read(&self, i: usize) -> Result<Self::Read>;
    /// The initial state of a worker.
    fn worker(&self) -> Self::Worker;
    /// Works on part `i`.
    fn work(&self, worker: &mut Self::Worker, i: usize, read: Self::Read) -> Result<Self::Done>;
    /// Writes a part.
    fn write(&self, part: Self::Write) -> Result<()>;
}

/// Takes parts 0 to `count` through all stages, with this many threads that write; `collect` sees
/// them in order. Returns the first error of a write, or else the first of any stage. After an
/// error that is not from a write, all parts that `collect` has seen are written.
///
/// Errors travel the same way as the parts. So the collector always hears of them and drops its
/// ends of the channels, which makes all other threads stop.
pub(crate) fn run<S: Stages>(
    stages: &S,
    count: usize,
    context: &Context,
    writers: usize,
    collect: impl FnMut(usize, S::Done) -> Result<S::Write>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let write_failure = Mutex::new(None);
    let (interrupt, workers) = (&context.interrupt, context.thread_count());
    let mut collect = collect;
    let collected = std::thread::scope(|scope| {
        let (permit, permits) = bounded(workers + PERMITS_EXTRA);
        (0..workers + PERMITS_EXTRA).for_each(|_| permit.send(()).unwrap_or_default());
        let (to_work, from_read) = bounded(WAITING);
        let (to_collect, from_work) = bounded(workers + WAITING);
        let (to_write, from_collect) = bounded::<S::Write>(WAITING);
        let start_reader = || {
            let (to_work, permits, next) = (to_work.clone(), permits.clone(), &next);
            start(scope, move || read_all(stages, interrupt, (next, count), &permits, &to_work))
        };
        let start_worker = || {
            let (from_read, to_collect) = (from_read.clone(), to_collect.clone());
            start(scope, move || work_all(stages, interrupt, &from_read, &to_collect))
        };
        let start_writer = || {
            let (from_collect, permit) = (from_collect.clone(), permit.clone());
            let failure = &write_failure;
            start(scope, move || write_all(stages, interrupt, &from_collect, &permit, failure))
        };
        // One of each first, with the reader last: no part is touched unless all three have
        // started.
        if !(start_writer() && start_worker() && start_reader()) {
            return None;
        }
        let _ = (1..workers).all(|_| start_worker());
        let _ = (1..workers.div_ceil(4)).all(|_| start_reader());
        let _ = (1..writers).all(|_| start_writer());
        drop((to_work, from_read, to_collect, from_collect, permits, permit));
        Some(collect_all(from_work, &to_write, &write_failure, &mut collect))
    });
    // A write error comes before all others: its part is lost, and nothing after it may be used.
    match write_failure.into_inner() {
        Ok(None) => collected.unwrap_or_else(|| run_alone(stages, count, interrupt, collect)),
        Ok(Some(error)) => Err(error),
        Err(_) => Err(broken()),
    }
}

/// Starts a thread; says whether the system allowed it. If not, its closure is dropped, along with
/// its ends of the channels.
fn start<'scope>(scope: &'scope Scope<'scope, '_>, run: impl FnOnce() + Send + 'scope) -> bool {
    Builder::new().spawn_scoped(scope, run).is_ok()
}

/// The same as [`run`], on this thread alone.
fn run_alone<S: Stages>(
    stages: &S,
    count: usize,
    interrupt: &Interrupt,
    mut collect: impl FnMut(usize, S::Done) -> Result<S::Write>,
) -> Result<()> {
    let mut worker = stages.worker();
    (0..count).try_for_each(|i| {
        let read = guarded(interrupt, || stages.read(i))?;
        let done = guarded(interrupt, || stages.work(&mut worker, i, read))?;
        let part = collect(i, done)?;
        guarded(interrupt, || stages.write(part))
    })
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
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            if let Err(error) = guarded(interrupt, || work(&mut worker, i)) {
                fail(i, error);
            }
        }
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

fn read_all<S: Stages>(
    stages: &S,
    interrupt: &Interrupt,
    (next, count): (&AtomicUsize, usize),
    permits: &Receiver<()>,
    to_work: &Sender<(usize, Result<S::Read>)>,
) {
    // The permit comes first, so that the part that all others wait for always has one.
    while permits.recv().is_ok() {
        let i = next.fetch_add(1, Ordering::Relaxed);
        if i >= count || to_work.send((i, guarded(interrupt, || stages.read(i)))).is_err() {
            return;
        }
    }
}

fn work_all<S: Stages>(
    stages: &S,
    interrupt: &Interrupt,
    from_read: &Receiver<(usize, Result<S::Read>)>,
    to_collect: &Sender<(usize, Result<S::Done>)>,
) {
    let mut worker = stages.worker();
    for (i, read) in from_read {
        let done = read.and_then(|read| guarded(interrupt, || stages.work(&mut worker, i, read)));
        if to_collect.send((i, done)).is_err() {
            return;
        }
    }
}

fn write_all<S: Stages>(
    stages: &S,
    interrupt: &Interrupt,
    from_collect: &Receiver<S::Write>,
    permit: &Sender<()>,
    failure: &Mutex<Option<Error>>,
) {
    for part in from_collect {
        if let (Err(error), Ok(mut first)) =
            (guarded(interrupt, || stages.write(part)), failure.lock())
        {
            first.get_or_insert(error);
        }
        // When all parts have been read, nobody receives permits any more.
        permit.send(()).unwrap_or_default();
    }
}

fn collect_all<D, W>(
    from_work: Receiver<(usize, Result<D>)>,
    to_write: &Sender<W>,
    write_failure: &Mutex<Option<Error>>,
    collect: &mut impl FnMut(usize, D) -> Result<W>,
) -> Result<()> {
    let mut waiting = BTreeMap::new();
    let mut turn = 0;
    for (i, done) in from_work {
        waiting.insert(i, done?);
        while let Some(done) = waiting.remove(&turn) {
            let part = collect(turn, done)?;
            if to_write.send(part).is_err() {
                return Err(broken());
            }
            turn += 1;
        }
        if write_failure.lock().map_or(true, |first| first.is_some()) {
            return Ok(());
        }
    }
    Ok(())
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

        fn read(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn worker(&self) {}

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
            let error = run(&stages, 2, &Context::with_threads(2), 1, |_, ()| Ok(())).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Io, "{error}");
        }
    }
}
