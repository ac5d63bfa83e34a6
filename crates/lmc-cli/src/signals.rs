//! Ctrl-C and polite kills: what is temporary goes, then the process.
//!
//! A command has one context, whose interrupt a signal sends. Work on a store ends by itself: its
//! storage fails from then on, and whatever is under way clears up as on any error, its leases too.
//! Other work, and what does not end soon, is cut off after the one temporary file or directory
//! that is known has been removed.
//!
//! The handler of a signal is handed nothing, so what it needs is in statics: all of them are here,
//! and so is the one exit of the process that does not go through `main`.
//!
//! A write beyond the limit on the size of files (`ulimit -f`) fails with an error instead of
//! ending the process.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError, mpsc};
use std::thread::{Builder, sleep};
use std::time::Duration;

use lmc::{Context, Interrupt, Leftover};
use lmc_store::storage::{Interruptible, Storage};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::Exit;

/// How long work on a store may take to end.
const PATIENCE: Duration = Duration::from_secs(3);
/// Times that a directory is removed: the work that fills it goes on meanwhile.
const REMOVALS_MAX: usize = 100;

/// Sent when the process was asked to end.
static INTERRUPT: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);
/// Whether there is work that ends by itself.
static ENDS_ITSELF: AtomicBool = AtomicBool::new(false);
/// What would be left behind.
static TEMPORARY: Mutex<Option<Arc<Leftover>>> = Mutex::new(None);

/// While it lives, an interrupt removes the temporary file or directory it was made for.
pub struct Guard(());

/// Takes over SIGINT, SIGTERM and SIGHUP; those that are ignored stay so, as `nohup` wants it.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // With any handler at all the write returns an error, which is then reported. Where no
        // handler can be set, the signal ends the process as it always does.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        let ends = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let ends: Vec<i32> = ends.collect();
        let (ready, is_ready) = mpsc::channel();
        // The thread takes the signals over, not this one: where no thread can be had, or no
        // handler, signals end the process as they always do.
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

/// Whether whoever started this process wants a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn end() {
    if !INTERRUPT.is_sent() && ENDS_ITSELF.load(Ordering::Acquire) {
        INTERRUPT.send();
        // Not here, if it can be helped: the next signal would wait for it.
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
    // Nobody ends the process before this has removed it. Whoever hears of the interrupt and would
    // begin with another temporary file waits here for the end.
    let mut temporary = temporary();
    INTERRUPT.send();
    if let Some(leftover) = temporary.take() {
        remove(&leftover);
    }
    std::process::exit(i32::from(Exit::Interrupted.code()));
}

fn remove(leftover: &Leftover) {
    for _ in 0..REMOVALS_MAX {
        // What was given its final name just now stays.
        if leftover.remove().is_ok() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Waits for what is being removed because of a signal, if anything is: for the end of a command.
pub fn wait() {
    drop(temporary());
}

/// The context of the command, which ends when the process is asked to: nobody watches it yet.
pub fn context(threads: u16) -> Context {
    let (interrupt, threads) = (INTERRUPT.clone(), usize::from(threads));
    Context { interrupt, threads, ..Context::default() }
}

/// A storage that fails once the process was asked to end.
pub fn interruptible(storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    ENDS_ITSELF.store(true, Ordering::Release);
    Arc::new(Interruptible::new(storage, &INTERRUPT))
}

/// Whether the process was asked to end; what fails from then on is not worth a word.
pub fn is_stopped() -> bool {
    INTERRUPT.is_sent()
}

/// Removes what is temporary if the process is interrupted before the guard is dropped.
pub fn guard(leftover: Arc<Leftover>) -> Guard {
    note(leftover);
    Guard(())
}

/// The same until another one is noted.
pub fn note(leftover: Arc<Leftover>) {
    *temporary() = Some(leftover);
}

impl Drop for Guard {
    fn drop(&mut self) {
        *temporary() = None;
    }
}

fn temporary() -> MutexGuard<'static, Option<Arc<Leftover>>> {
    // It is whole at any time, so a panic elsewhere does not spoil it.
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}
