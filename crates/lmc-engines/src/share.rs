//! Work shared between threads.

use std::sync::Mutex;
use std::{io, thread};

use crate::Result;

/// Gives each item to the next free worker. Each worker has its own thread; a single worker runs on
/// this one. Fails if the system refuses a thread: a measurement with fewer threads would not be
/// the same one.
pub fn share<W: Send, T: Send>(
    workers: &mut [W],
    items: &mut [T],
    work: impl Fn(&mut W, &mut T) -> Result<()> + Sync,
) -> Result<()> {
    if let [worker] = workers {
        return items.iter_mut().try_for_each(|item| work(worker, item));
    }
    let items = Mutex::new(items.iter_mut());
    let next = || items.lock().ok()?.next();
    let run = |worker: &mut W| -> Result<()> {
        while let Some(item) = next() {
            work(worker, item)?;
        }
        Ok(())
    };
    let run = &run;
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let start = |worker| thread::Builder::new().spawn_scoped(scope, move || run(worker));
        let threads: Vec<_> = workers.iter_mut().map(start).collect();
        let join = |thread: io::Result<thread::ScopedJoinHandle<_>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err("a thread panicked".into())),
            Err(error) => Err(format!("cannot start a thread: {error}; use fewer threads").into()),
        };
        threads.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}
