//! Ctrl-C and other requests to end: temporary files are removed, and then the process ends.
//!
//! A command has one context, and a signal sends its interrupt. Work on a store ends by itself: its
//! storage fails from then on, and all running work cleans up as on any error, including its
//! leases. Other work, and work that does not end soon, is stopped after the known temporary files
//! and directories have been removed.
//!
//! The handler of a signal has no arguments, so its data is in statics. All of them are here, and
//! so is the only exit of the process that does not go through `main`.
//!
//! A write beyond the limit on the size of files (`ulimit -f`) fails with an error instead of
//! ending the process.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread::{Builder, sleep};
use std::time::Duration;

use lmc::{Context, Interrupt, Leftover, Publish};
use lmc_store::storage::{Interruptible, Storage};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::args::shared::{ResourceArgs, ThreadArgs};
use crate::exit::Exit;

/// How long work on a store may take to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many times the removal of a directory is tried: the work that fills it continues meanwhile.
const REMOVALS_MAX: usize = 100;

/// Sent when the process is asked to end.
static INTERRUPT: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);
/// Whether there is work that ends by itself.
static ENDS_ITSELF: AtomicBool = AtomicBool::new(false);
/// The temporary files and directories that would be left over.
static TEMPORARY: Mutex<Temporary> =
    Mutex::new(Temporary { guarded: Vec::new(), noted: Vec::new() });

/// Temporary files and directories.
struct Temporary {
    /// Those that have a guard.
    guarded: Vec<Arc<Leftover>>,
    /// Those that were noted, as far as they are still in use.
    noted: Vec<Arc<Leftover>>,
}

/// While this guard exists, an interrupt removes the temporary file or directory that it was made
/// for.
pub struct Guard(Arc<Leftover>);

/// Handles SIGINT, SIGTERM and SIGHUP; signals that are ignored stay ignored, as `nohup` wants.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // With any handler, the write returns an error, which is then reported. If no handler can
        // be set, the signal ends the process as usual.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        let ends = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let ends: Vec<i32> = ends.collect();
        let (ready, is_ready) = mpsc::channel();
        // The new thread takes over the signals, not this one: if no thread or no handler is
        // available, signals end the process as usual.
        let handler = move || {
            let signals = Signals::new(ends);
            drop(ready);
            signals.into_iter().for_each(|mut signals| signals.forever().for_each(|_| end()));
        };
        if Builder::new().spawn(handler).is_ok() {
            // Returns with an error as soon as `ready` is gone.
            let _: Result<(), _> = is_ready.recv();
        }
    });
}

/// Whether the process was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn end() {
    if !INTERRUPT.is_sent() && ENDS_ITSELF.load(Ordering::Acquire) {
        INTERRUPT.send();
        // On another thread if possible: the next signal would have to wait for it.
        let wait = || {
            sleep(PATIENCE);
            cut_off()
        };
        if Builder::new().spawn(wait).is_err() {
            wait();
        }
        return;
    }
    cut_off();
}

fn cut_off() -> ! {
    // The process does not end before this has removed the file. Other threads that notice the
    // interrupt and want to start another temporary file wait here for the end.
    let mut temporary = temporary();
    INTERRUPT.send();
    let Temporary { guarded, noted } = &mut *temporary;
    guarded.drain(..).chain(noted.drain(..)).for_each(|leftover| remove(&leftover));
    std::process::exit(i32::from(Exit::Interrupted.code()));
}

fn remove(leftover: &Leftover) {
    for _ in 0..REMOVALS_MAX {
        // A file that has just got its final name stays.
        if leftover.remove().is_ok() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Waits for a removal that a signal started, if there is one; called at the end of a command.
pub fn wait() {
    drop(temporary());
}

/// The context of the command, which is interrupted when the process is asked to end. Nobody
/// watches it yet.
pub fn context(resources: &ResourceArgs) -> Context {
    let ResourceArgs { threads, memory } = resources;
    Context { memory: *memory, ..context_on(threads) }
}

/// The same for work that has no limit on its memory.
pub fn context_on(threads: &ThreadArgs) -> Context {
    let (interrupt, threads) = (INTERRUPT.clone(), usize::from(threads.count));
    Context { interrupt, threads, ..Context::default() }
}

/// A storage that fails once the process was asked to end.
pub fn interruptible(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    ENDS_ITSELF.store(true, Ordering::Release);
    Arc::new(Interruptible::new(storage, &INTERRUPT))
}

/// Whether the process was asked to end; failures after that are not reported.
pub fn is_stopped() -> bool {
    INTERRUPT.is_sent()
}

/// Removes a temporary file or directory if the process is interrupted before the guard is dropped.
pub fn guard(leftover: Arc<Leftover>) -> Guard {
    temporary().guarded.push(leftover.clone());
    Guard(leftover)
}

/// A file that `create` starts, with its guard. An interrupt comes before or after both.
pub fn guarded(create: impl FnOnce() -> lmc::Result<Publish>) -> lmc::Result<(Publish, Guard)> {
    let mut temporary = temporary();
    let publish = create()?;
    temporary.guarded.push(publish.leftover());
    let guard = Guard(publish.leftover());
    Ok((publish, guard))
}

/// The same as [`guard`], as long as anybody else has it.
pub fn note(leftover: Arc<Leftover>) {
    let noted = &mut temporary().noted;
    noted.retain(|leftover| Arc::strong_count(leftover) > 1);
    noted.push(leftover);
}

impl Drop for Guard {
    fn drop(&mut self) {
        temporary().guarded.retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}

fn temporary() -> MutexGuard<'static, Temporary> {
    // The value is whole at all times, so a panic elsewhere does not damage it.
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}
