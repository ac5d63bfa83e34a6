//! What a call is handed by whoever asks for it: a way to stop it, somebody who watches, threads.
//!
//! Work looks for its interrupt before each part of a file, on every thread that it takes, and
//! fails with [`ErrorKind::Interrupted`]. It ends as on any other error: what was not published is
//! gone.

use lmc_format::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most threads that are ever started.
const THREADS_MAX: usize = 1024;

/// How work can be stopped, who watches it, and on how many threads it is done. By default nobody
/// stops it, nobody watches, and it takes all cores. A clone is stopped and watched by the same.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// What ends the work early.
    pub interrupt: Interrupt,
    /// Who hears how far the work is.
    pub progress: Progress,
    /// Threads that code; 0 for one on each core. Reading and writing have their own.
    pub threads: usize,
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

    /// The same without anybody who watches: for work that is only a step of what they asked for.
    pub fn unwatched(&self) -> Self {
        Self { progress: Progress::default(), ..self.clone() }
    }

    /// The same on this many threads.
    pub fn on_threads(&self, threads: usize) -> Self {
        Self { threads, ..self.clone() }
    }

    /// How many threads are meant.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n.min(THREADS_MAX),
        }
    }
}

/// What ends work, from any thread. One that nobody sends changes nothing.
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

/// Who hears how far work is; by default nobody.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(u64) + Send + Sync>>);

impl Progress {
    /// Calls `done` with the number of original bytes just finished.
    pub fn new(done: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(done)))
    }

    /// So many bytes more are finished.
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

    /// A clone is stopped with the first one, and another context is not.
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

    /// Whoever watches hears of everything but the work that is not for them.
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
