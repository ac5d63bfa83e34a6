//! What concurrent work shares: turns on the CPU, room for parts in memory, and used memory.
//!
//! A command may work on several files concurrently, each with threads of its own. Its crew makes
//! sure that no more of them use the CPU than were asked for, that they hold no more parts of files
//! than one file would, and that they use each other's buffers again.
//!
//! A thread that waits for a turn never keeps others from ending theirs: who has a turn may wait
//! for nothing but short locks, and gives the turn up for anything longer ([`waiting`]). After that
//! it goes on at once, even if all turns are taken by then.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The threads of a command, or of one call. Clones are the same crew.
#[derive(Clone, Default)]
pub struct Crew(Arc<Shared>);

#[derive(Default)]
struct Shared {
    size: OnceLock<CrewSize>,
    state: Mutex<State>,
    /// Threads that wait for a turn.
    waiting: AtomicUsize,
    turn_is_free: Condvar,
    /// The same for urgent work.
    urgent_turn_is_free: Condvar,
    part_is_free: Condvar,
    used: Mutex<Used>,
}

/// The limits of a crew, from the first context that it works for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrewSize {
    /// Threads that may use the CPU.
    pub turns: usize,
    /// Parts of files that may be in memory.
    pub parts: usize,
}

#[derive(Default)]
struct State {
    /// Turns that are taken.
    turns: usize,
    /// Threads with urgent work that wait for a turn.
    urgent: usize,
    /// Parts that are in memory.
    parts: usize,
}

/// Objects for reuse, by their types, as long as anybody may need them.
#[derive(Default)]
struct Used {
    shifts: usize,
    objects: HashMap<TypeId, Vec<Box<dyn Any + Send>>>,
}

/// Which of two threads that wait for a turn gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Work that makes room for other work, such as writing.
    Urgent,
    /// All other work.
    Usual,
}

thread_local! {
    /// Whom this thread works for.
    static EMPLOYER: RefCell<Option<Crew>> = const { RefCell::new(None) };
    /// Whose turn it has.
    static TURN: RefCell<Option<Crew>> = const { RefCell::new(None) };
}

/// Room for a part of a file in memory.
pub(crate) struct Permit(Crew);

/// While this exists, used objects are kept for reuse.
#[must_use]
pub struct Shift(Crew);

impl Crew {
    /// Its limits; `size` says what they are if they are not known yet.
    pub(crate) fn size(&self, size: impl FnOnce() -> CrewSize) -> CrewSize {
        *self.0.size.get_or_init(size)
    }

    fn known_size(&self) -> CrewSize {
        self.size(|| CrewSize { turns: 1, parts: 1 })
    }

    /// Runs `work` on this thread as one of the crew.
    pub(crate) fn employ<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = EMPLOYER.replace(Some(self.clone()));
        let _back = OnDrop(|| drop(EMPLOYER.replace(before.clone())));
        work()
    }

    /// Waits until another part may be in memory.
    pub(crate) fn permit(&self) -> Permit {
        let most = self.known_size().parts;
        let mut state = self.state();
        while state.parts >= most {
            state = self.0.part_is_free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.parts += 1;
        Permit(self.clone())
    }

    /// Used objects are kept until the last shift ends.
    pub fn shift(&self) -> Shift {
        self.used().shifts += 1;
        Shift(self.clone())
    }

    /// An object that was used before, or a new one.
    pub fn take<T: Any + Send + Default>(&self) -> T {
        let used = self.used().objects.get_mut(&TypeId::of::<T>()).and_then(Vec::pop);
        used.and_then(|used| used.downcast().ok()).map_or_else(T::default, |used| *used)
    }

    /// Keeps an object for reuse.
    pub fn give<T: Any + Send>(&self, object: T) {
        let mut used = self.used();
        if used.shifts > 0 {
            used.objects.entry(TypeId::of::<T>()).or_default().push(Box::new(object));
        }
    }

    /// Whether a thread waits for a turn.
    pub(crate) fn is_turn_wanted(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    fn take_turn(&self, urgency: Urgency) {
        let turns = self.known_size().turns;
        let (is_urgent, shared) = (urgency == Urgency::Urgent, &self.0);
        let mut state = self.state();
        state.urgent += usize::from(is_urgent);
        while state.turns >= turns || !is_urgent && state.urgent > 0 {
            let turn = if is_urgent { &shared.urgent_turn_is_free } else { &shared.turn_is_free };
            shared.waiting.fetch_add(1, Ordering::Relaxed);
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            shared.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        state.urgent -= usize::from(is_urgent);
        state.turns += 1;
        if state.turns < turns {
            // A thread with usual work may have waited only for this one.
            self.wake(&state);
        }
    }

    fn give_turn_back(&self) {
        let mut state = self.state();
        state.turns -= 1;
        self.wake(&state);
    }

    fn wake(&self, state: &State) {
        match state.urgent {
            0 => self.0.turn_is_free.notify_one(),
            _ => self.0.urgent_turn_is_free.notify_one(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Crew")
    }
}

/// Does work that needs the CPU, in a turn. A thread that works for no crew, or that has a turn
/// already, just does it.
pub fn in_turn<T>(urgency: Urgency, work: impl FnOnce() -> T) -> T {
    let employer = EMPLOYER.with_borrow(Clone::clone);
    let (Some(crew), false) = (employer, has_turn()) else { return work() };
    crew.take_turn(urgency);
    TURN.set(Some(crew));
    let _end = OnDrop(|| {
        if let Some(crew) = TURN.take() {
            crew.give_turn_back();
        }
    });
    work()
}

/// Waits for something other than the CPU. If this thread has a turn, another one gets it
/// meanwhile.
pub fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    let Some(crew) = TURN.take() else { return wait() };
    crew.give_turn_back();
    let _back = OnDrop(|| {
        crew.state().turns += 1;
        TURN.set(Some(crew.clone()));
    });
    wait()
}

/// Whether this thread has a turn.
pub(crate) fn has_turn() -> bool {
    TURN.with_borrow(Option::is_some)
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.state().parts -= 1;
        self.0.0.part_is_free.notify_one();
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        let mut used = self.0.used();
        used.shifts -= 1;
        if used.shifts == 0 {
            let objects = std::mem::take(&mut used.objects);
            drop(used);
            drop(objects);
        }
    }
}

/// Does something at the end, even after a panic.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn sized(turns: usize, parts: usize) -> Crew {
        let crew = Crew::default();
        crew.size(|| CrewSize { turns, parts });
        crew
    }

    /// However many threads there are, no more work than there are turns, and urgent work is done.
    #[test]
    fn turns_are_limited() {
        let (crew, working, most) = (sized(3, 1), AtomicUsize::new(0), AtomicUsize::new(0));
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for i in 0..12 {
                let (crew, working, most, done) = (&crew, &working, &most, &done);
                let urgency = if i % 3 == 0 { Urgency::Urgent } else { Urgency::Usual };
                scope.spawn(move || {
                    crew.employ(|| {
                        for _ in 0..200 {
                            in_turn(urgency, || {
                                let now = working.fetch_add(1, Ordering::SeqCst) + 1;
                                most.fetch_max(now, Ordering::SeqCst);
                                in_turn(urgency, thread::yield_now);
                                working.fetch_sub(1, Ordering::SeqCst);
                                done.fetch_add(1, Ordering::SeqCst);
                            });
                        }
                    });
                });
            }
        });
        assert_eq!(done.into_inner(), 12 * 200);
        assert!(most.into_inner() <= 3);
        assert_eq!(crew.state().turns, 0);
    }

    /// A thread that waits lends its turn to others, and goes on even if they keep it.
    #[test]
    fn who_waits_lends_its_turn() {
        let crew = sized(1, 1);
        let (it_waits, is_lent) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let (it_goes_on, is_back) = mpsc::channel();
        thread::scope(|scope| {
            let other = &crew;
            scope.spawn(move || {
                let wait = || {
                    it_waits.send(()).unwrap();
                    may_go_on.recv().unwrap();
                };
                let work = || {
                    waiting(wait);
                    it_goes_on.send(()).unwrap();
                };
                other.employ(|| in_turn(Urgency::Usual, work));
            });
            is_lent.recv().unwrap();
            crew.employ(|| {
                in_turn(Urgency::Usual, || {
                    go_on.send(()).unwrap();
                    is_back.recv().unwrap();
                });
            });
        });
        assert_eq!(crew.state().turns, 0);
    }

    /// Used objects are there again during a shift, and gone after it.
    #[test]
    fn used_objects() {
        let crew = Crew::default();
        crew.give(vec![1_u8]);
        assert_eq!(crew.take::<Vec<u8>>(), [0_u8; 0], "there was no shift");
        let (shift, other) = (crew.shift(), crew.shift());
        crew.give(vec![1_u8]);
        crew.give(7_u32);
        drop(other);
        assert_eq!((crew.take::<Vec<u8>>(), crew.take::<u32>()), (vec![1], 7));
        crew.give(7_u32);
        drop(shift);
        assert_eq!(crew.take::<u32>(), 0);
    }

    /// A part that is dropped makes room for another one.
    #[test]
    fn parts_are_limited() {
        let crew = sized(1, 2);
        let (first, _second) = (crew.permit(), crew.permit());
        thread::scope(|scope| {
            let third = scope.spawn(|| drop(crew.permit()));
            assert_eq!(crew.state().parts, 2);
            drop(first);
            third.join().unwrap();
        });
        assert_eq!(crew.state().parts, 1);
    }
}
