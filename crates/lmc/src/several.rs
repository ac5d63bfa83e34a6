//! Work on several files concurrently.

use crate::context::Context;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::Builder;

/// The most files that are worked on concurrently. Each has a writer, and few of them keep memory
/// and disks busy.
const FILES_MAX: usize = 8;

/// Works on several files, each of which uses the threads of one context.
#[derive(Clone, Copy, Debug)]
pub struct Several(usize);

impl Several {
    /// For so many files.
    pub fn of(context: &Context, files: usize) -> Self {
        Self(context.thread_count().min(files).clamp(1, FILES_MAX))
    }

    /// How many are worked on concurrently.
    pub fn count(self) -> usize {
        self.0
    }

    /// Works on all jobs, in their order. `settle` gets each result on this thread as it comes; if
    /// it says no, no other job is begun. Jobs whose result `is_short` are done again one after the
    /// other, when no other work has what they were short of.
    pub fn run<J: Sync, R: Send>(
        self,
        jobs: &[J],
        work: impl Fn(&J) -> R + Sync,
        is_short: impl Fn(&R) -> bool,
        mut settle: impl FnMut(&J, R) -> bool,
    ) {
        let (next, is_over) = (Mutex::new(jobs.iter()), AtomicBool::new(false));
        let next_job = || match is_over.load(Ordering::Acquire) {
            true => None,
            false => next.lock().ok()?.next(),
        };
        let mut settle = |job: &J, result| {
            if !settle(job, result) {
                is_over.store(true, Ordering::Release);
            }
        };
        let mut again = Vec::new();
        if self.0 > 1 {
            std::thread::scope(|scope| {
                let (done, results) = mpsc::channel();
                let start = |_| {
                    let (done, work, next_job) = (done.clone(), &work, &next_job);
                    let run = move || {
                        while let Some(job) = next_job() {
                            if done.send((job, work(job))).is_err() {
                                return;
                            }
                        }
                    };
                    // The system may refuse threads; those that were started do the work.
                    Builder::new().spawn_scoped(scope, run).ok()
                };
                let _ = (0..self.0).map_while(start).count();
                drop(done);
                for (job, result) in results {
                    match is_short(&result) {
                        true => again.push(job),
                        false => settle(job, result),
                    }
                }
            });
        }
        for job in again.into_iter().chain(std::iter::from_fn(next_job)) {
            if is_over.load(Ordering::Acquire) {
                return;
            }
            settle(job, work(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// All jobs are done once, several at a time, and none is begun after a no.
    #[test]
    fn jobs_are_done() {
        let jobs: Vec<usize> = (0..100).collect();
        let meet = Barrier::new(4);
        let mut done = Vec::new();
        let work = |&i: &usize| {
            meet.wait();
            2 * i
        };
        let settle = |&i: &usize, result| {
            assert_eq!(result, 2 * i);
            done.push(i);
            true
        };
        Several(4).run(&jobs, work, |_| false, settle);
        done.sort_unstable();
        assert_eq!(done, jobs);
        let mut count = 0;
        let settle = |_: &usize, ()| {
            count += 1;
            count < 7
        };
        Several(1).run(&jobs, |_| (), |()| false, settle);
        assert_eq!(count, 7);
    }

    /// A job that is short of something while others run is done again when none does.
    #[test]
    fn short_jobs_are_done_again_alone() {
        let running = AtomicUsize::new(0);
        let work = |_: &usize| {
            let others = running.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            running.fetch_sub(1, Ordering::SeqCst);
            others
        };
        let (jobs, mut done) = ((0..50).collect::<Vec<usize>>(), Vec::new());
        let settle = |&i: &usize, others| {
            assert_eq!(others, 0);
            done.push(i);
            true
        };
        Several(4).run(&jobs, work, |&others| others > 0, settle);
        done.sort_unstable();
        assert_eq!(done, jobs);
    }
}
