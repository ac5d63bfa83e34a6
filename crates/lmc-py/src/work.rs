//! Calls of the libraries: without the interpreter, which hears of signals meanwhile. A panic in them
//! becomes an error like any other: `except Exception` would not catch the exception that pyo3 makes
//! of it.

use lmc::Interrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a signal may wait for its handler.
const PAUSE: Duration = Duration::from_millis(50);
/// Work on fewer bytes than these is over before a signal could matter.
pub const SHORT_LEN: usize = 1 << 20;

/// Does work that takes no time worth mentioning.
pub fn short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> lmc::Result<T> + Send,
) -> lmc::Result<T> {
    py.detach(|| guarded(work))
}

/// Does work; a panic in it is an error.
fn guarded<T>(work: impl FnOnce() -> lmc::Result<T>) -> lmc::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(lmc::Error::new(lmc::ErrorKind::Io, "a thread of lmc failed; please report it"))
    })
}

/// Does work on `len` bytes.
pub fn sized<T: Send>(
    py: Python<'_>,
    len: usize,
    work: impl FnOnce() -> lmc::Result<T> + Send,
) -> PyResult<lmc::Result<T>> {
    if len < SHORT_LEN { Ok(short(py, work)) } else { long(py, work) }
}

/// Does work that may take long. Python runs the handlers of signals on its main thread alone, so
/// that a call from there works on another one and waits; if a handler raises, as that of Ctrl-C
/// does, the work is made to end, and what was raised is the error.
pub fn long<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> lmc::Result<T> + Send,
) -> PyResult<lmc::Result<T>> {
    if !is_main_thread(py)? {
        return Ok(short(py, work));
    }
    let (interrupt, end) = (Interrupt::default(), End::default());
    let work = Mutex::new(Some(work));
    let work = || match work.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(work) => guarded(work),
        None => Err(lmc::Error::invalid("the work was done already; please report it")),
    };
    thread::scope(|scope| {
        let run = || {
            let _signal = SetOnDrop(&end);
            interrupt.run(work)
        };
        let started = thread::Builder::new().name("lmc".to_string()).spawn_scoped(scope, run);
        let Ok(worker) = started else {
            // No thread can be had, so this one does the work; signals wait until it is done.
            return Ok(py.detach(work));
        };
        let mut raised = Ok(());
        while raised.is_ok() && !py.detach(|| end.wait()) {
            raised = py.check_signals();
        }
        if raised.is_err() {
            interrupt.send();
        }
        let done =
            py.detach(|| worker.join().unwrap_or_else(|panic| guarded(|| resume_unwind(panic))));
        raised.map(|()| done)
    })
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static THREADING: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let threading = THREADING.get_or_try_init(py, || py.import("threading").map(Bound::unbind))?;
    let threading = threading.bind(py);
    // Asked for every time: after a fork it is another one.
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    threading.call_method0("get_ident")?.eq(main)
}

/// Whether the work has ended.
#[derive(Default)]
struct End(Mutex<bool>, Condvar);

impl End {
    /// Waits for it a while.
    fn wait(&self) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(ended, PAUSE, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Tells of the end, even if it is a panic.
struct SetOnDrop<'a>(&'a End);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}
