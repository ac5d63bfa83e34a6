//! The clock that everything is timed with: wall time, or CPU time of this thread on a machine that has
//! other work too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

static IS_CPU_TIME: AtomicBool = AtomicBool::new(false);

/// Counts CPU time of the calling thread from now on.
pub fn use_cpu_time() {
    IS_CPU_TIME.store(true, Ordering::Relaxed);
}

/// Whether CPU time is counted.
pub fn is_cpu_time() -> bool {
    IS_CPU_TIME.load(Ordering::Relaxed)
}

/// A moment.
#[derive(Clone, Copy)]
pub struct Clock(Duration);

impl Clock {
    /// This moment.
    pub fn now() -> Self {
        let id = if is_cpu_time() { ClockId::ThreadCPUTime } else { ClockId::Monotonic };
        let time = clock_gettime(id);
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Seconds since then.
    pub fn seconds(self) -> f64 {
        (Self::now().0 - self.0).as_secs_f64()
    }
}
