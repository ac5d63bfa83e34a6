//! Calls of the libraries. They release the interpreter, which handles signals meanwhile.

use lmc::Context;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::errors::internal;

/// How long a signal may wait for its handler.
const PAUSE: Duration = Duration::from_millis(50);
/// Work on fewer bytes than this ends before a signal could matter.
pub const SHORT_LEN: usize = 1 << 20;

/// Does work that takes almost no time.
///
/// A panic in it becomes an error that Python code can catch: pyo3's own is not an `Exception`.
pub fn short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> lmc::Result<T> + Send,
) -> PyResult<lmc::Result<T>> {
    // Anything that the work left half done is dropped with it, or checked before it is used again.
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(|panic| failure(&*panic))
}

/// Does work on `len` bytes.
pub fn sized<T: Send>(
    py: Python<'_>,
    len: usize,
    work: impl FnOnce(&Context) -> lmc::Result<T> + Send,
) -> PyResult<lmc::Result<T>> {
    if len < SHORT_LEN { short(py, || work(&Context::default())) } else { long(py, work) }
}

/// Does work that may take long.
pub fn long<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Context) -> lmc::Result<T> + Send,
) -> PyResult<lmc::Result<T>> {
    watched(py, None, work)
}

/// Does work that may take long. Python runs signal handlers only on its main thread. So a call
/// from there works on another thread and waits. If a handler raises an exception, as that of
/// Ctrl-C does, the work is stopped, and the exception becomes the error. If the system refuses
/// another thread, the work is done on this one, and signals wait for it.
///
/// `progress` is called with the bytes done so far, by the waiting thread: the working threads
/// never need the interpreter. If it raises an exception, the work is stopped too.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Context) -> lmc::Result<T> + Send,
) -> PyResult<lmc::Result<T>> {
    if progress.is_none() && !is_main_thread(py)? {
        return short(py, || work(&Context::default()));
    }
    let bytes = Arc::new(AtomicU64::new(0));
    let mut report = Report { progress, bytes: bytes.clone(), told: 0 };
    let context = Context::default().watched(move |done| {
        bytes.fetch_add(done, Ordering::Relaxed);
    });
    let (end, work) = (End::default(), Mutex::new(Some(work)));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let done = thread::scope(|scope| {
        let run = || {
            let _signal = SetOnDrop(&end);
            take().map(|work| work(&context))
        };
        let started = thread::Builder::new().name("lmc".to_string()).spawn_scoped(scope, run);
        let Ok(worker) = started else {
            let Some(work) = take() else { return Err(failure(&"its work is gone")) };
            return short(py, || work(&context));
        };
        let mut raised = Ok(());
        while raised.is_ok() && !py.detach(|| end.wait()) {
            raised = py.check_signals().and_then(|()| report.tell());
        }
        if raised.is_err() {
            context.interrupt.send();
        }
        let done = py.detach(|| worker.join()).map_err(|panic| failure(&*panic))?;
        raised.and_then(|()| done.ok_or_else(|| failure(&"its work is gone")))
    })?;
    if done.is_ok() {
        report.tell()?;
    }
    Ok(done)
}

/// Tells Python how much of the work is done.
struct Report<'a, 'py> {
    progress: Option<&'a Bound<'py, PyAny>>,
    bytes: Arc<AtomicU64>,
    told: u64,
}

impl Report<'_, '_> {
    /// Calls the function if there is anything new.
    fn tell(&mut self) -> PyResult<()> {
        let done = self.bytes.load(Ordering::Relaxed);
        let Some(progress) = self.progress.filter(|_| done > self.told) else { return Ok(()) };
        self.told = done;
        progress.call1((done,)).map(drop)
    }
}

/// The exception for a panic.
fn failure(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("for an unknown reason");
    internal(&format!("lmc failed: {text}; unless the system refused something, please report it"))
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static THREADING: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let threading = THREADING.get_or_try_init(py, || py.import("threading").map(Bound::unbind))?;
    let threading = threading.bind(py);
    // Looked up every time: after a fork it is another thread.
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    threading.call_method0("get_ident")?.eq(main)
}

/// Whether the work has ended.
#[derive(Default)]
struct End(Mutex<bool>, Condvar);

impl End {
    /// Waits for the end for a while.
    fn wait(&self) -> bool {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.1.wait_timeout_while(ended, PAUSE, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Signals the end, even after a panic.
struct SetOnDrop<'a>(&'a End);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}
