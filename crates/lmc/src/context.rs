//! The settings that a caller passes with each call: a way to stop it, a progress callback, and the
//! number of threads and the memory.
//!
//! Work checks its interrupt before each part of a file, on every thread that it uses, and fails
//! with [`ErrorKind::Interrupted`]. It ends as on any other error: unpublished results are removed.

use crate::crew::{Crew, CrewSize, Shift};
use lmc_format::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most threads that are ever started.
const THREADS_MAX: usize = 1024;

/// The most parts that may be in memory.
const PARTS_MAX: usize = 1024;
/// The memory that a part takes: its bytes, those of its base, and the coded ones.
const PART_COST: u64 = 24 << 20;

/// How work can be stopped, who is told about its progress, and how many threads and how much
/// memory it uses. By default nothing stops it, nobody watches, and it uses all cores. A clone
/// shares all of these: calls that run concurrently with clones use no more than one would.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Ends the work early.
    pub interrupt: Interrupt,
    /// Is told how far the work is.
    pub progress: Progress,
    /// Threads that use the CPU; 0 for one per core. Threads that wait are not counted.
    pub threads: usize,
    /// Bytes of memory for parts of files, about; 0 for as many as keep all threads busy.
    pub memory: u64,
    /// The threads of all calls with clones of this context.
    pub crew: Crew,
}

/// How many parts may be in memory where this many threads work on them: some wait until those
/// before them are written.
fn parts_for(threads: usize) -> usize {
    threads + threads / 4 + 4
}

impl Context {
    /// Work on this many threads that nobody stops or watches.
    pub fn with_threads(threads: usize) -> Self {
        Self { threads, ..Self::default() }
    }

    /// The same, watched by `progress`, which is called with the number of original bytes just
    /// finished, on any thread.
    pub fn watched(&self, progress: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self { progress: Progress::new(progress), ..self.clone() }
    }

    /// The same without the progress callback: for work that is only a step of the requested work.
    pub fn unwatched(&self) -> Self {
        Self { progress: Progress::default(), ..self.clone() }
    }

    /// The same on this many threads, which are others.
    pub fn on_threads(&self, threads: usize) -> Self {
        Self { threads, crew: Crew::default(), ..self.clone() }
    }

    /// The same with one part after the other.
    pub(crate) fn alone(&self) -> Self {
        self.crew_size();
        Self { threads: 1, ..self.clone() }
    }

    /// Runs `work` on this thread as one of those that the context allows: what it does
    /// [in a turn](crate::in_turn) waits until a core is free for it.
    pub fn employ<T>(&self, work: impl FnOnce() -> T) -> T {
        self.crew_size();
        self.crew.employ(work)
    }

    /// Memory that is used in a call is kept for the next ones while the result exists.
    pub fn shift(&self) -> Shift {
        self.crew.shift()
    }

    /// The limits of the crew.
    pub(crate) fn crew_size(&self) -> CrewSize {
        self.crew.size(|| {
            let turns = self.thread_count();
            let parts = match self.memory {
                0 => parts_for(turns),
                memory => usize::try_from(memory / PART_COST).unwrap_or(usize::MAX),
            };
            CrewSize { turns, parts: parts.clamp(1, PARTS_MAX) }
        })
    }

    /// The number of threads to use.
    pub fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n.min(THREADS_MAX),
        }
    }
}

/// Ends work, from any thread. One that is never sent changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Makes the work end: it fails soon, unless it is nearly done.
    pub fn send(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the work should end.
    pub fn is_sent(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Fails if the work should end.
    pub fn check(&self) -> Result<()> {
        match self.is_sent() {
            true => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }
}

/// Is told how far work is; by default nobody is.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(u64) + Send + Sync>>);

impl Progress {
    /// Calls `done` with the number of original bytes just finished.
    pub fn new(done: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(done)))
    }

    /// Reports that this many more bytes are finished.
    pub fn add(&self, bytes: u64) {
        self.0.iter().for_each(|done| done(bytes));
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "watched" } else { "unwatched" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Stopping a context stops its clones, and does not stop another context.
    #[test]
    fn clones_share_their_interrupt() {
        let (context, other) = (Context::with_threads(3), Context::default());
        let clones = [context.clone(), context.on_threads(1), context.watched(|_| ())];
        context.interrupt.send();
        for clone in clones {
            assert_eq!(clone.interrupt.check().unwrap_err().kind, ErrorKind::Interrupted);
        }
        assert!(other.interrupt.check().is_ok());
    }

    /// The callback hears of all work except unwatched work.
    #[test]
    fn progress_is_heard() {
        let heard = Arc::new(AtomicU64::new(0));
        let sum = heard.clone();
        let context = Context::default().watched(move |bytes| {
            sum.fetch_add(bytes, Ordering::Relaxed);
        });
        context.progress.add(2);
        context.on_threads(1).progress.add(3);
        context.unwatched().progress.add(4);
        assert_eq!(heard.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn threads() {
        assert_eq!(Context::with_threads(3).thread_count(), 3);
        assert_eq!(Context::with_threads(usize::MAX).thread_count(), THREADS_MAX);
        assert!(Context::default().thread_count() > 0);
    }
}
