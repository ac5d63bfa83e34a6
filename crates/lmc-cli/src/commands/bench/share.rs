//! Work that threads share.

use std::io;
use std::sync::Mutex;
use std::thread;

use crate::exit::Failure;

/// Gives each item to the next worker that is free; every worker has a thread of its own. Fails if
/// the system refuses one: a measurement with fewer threads would be another one.
pub fn share<W: Send, T: Send>(
    workers: &mut [W],
    items: &mut [T],
    work: impl Fn(&mut W, &mut T) -> lmc_engines::Result<()> + Sync,
) -> Result<(), Failure> {
    let items = Mutex::new(items.iter_mut());
    let next = || items.lock().ok()?.next();
    let run = |worker: &mut W| -> lmc_engines::Result<()> {
        while let Some(item) = next() {
            work(worker, item)?;
        }
        Ok(())
    };
    let run = &run;
    let results: Vec<lmc_engines::Result<()>> = thread::scope(|scope| {
        let start = |worker| thread::Builder::new().spawn_scoped(scope, move || run(worker));
        let threads: Vec<_> = workers.iter_mut().map(start).collect();
        let join = |thread: io::Result<thread::ScopedJoinHandle<_>>| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err("a thread panicked".into())),
            Err(error) => Err(format!("cannot start a thread: {error}; give fewer with -T").into()),
        };
        threads.into_iter().map(join).collect()
    });
    let results: lmc_engines::Result<()> = results.into_iter().collect();
    results.map_err(|error| Failure::new(error.to_string()))
}
