//! Several processes on one storage that take turns, call by call, in an order that a seed gives.

use super::clock::World;
use crate::disks::Random;
use std::sync::{Arc, Condvar, Mutex};

/// Whose turn it is.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    turn: usize,
    is_alive: Vec<bool>,
    random: Random,
    /// Once in so many calls it is another one's turn.
    calls_mean: usize,
    world: Arc<World>,
    /// Time that may pass meanwhile.
    left_ms: u64,
}

impl Turns {
    /// For `count` processes, while which at most `left_ms` pass.
    pub fn new(count: usize, world: &Arc<World>, left_ms: u64, random: &mut Random) -> Arc<Self> {
        let state = State {
            turn: random.below(count),
            is_alive: vec![true; count],
            random: random.fork(),
            calls_mean: [1, 3, 10, 25][random.below(4)],
            world: world.clone(),
            left_ms,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Waits until the process may make its next call. Whoever has the turn says who is next.
    pub fn wait(&self, own: usize) {
        let mut state = self.state.lock().unwrap();
        if state.turn == own {
            state.go_on();
            self.changed.notify_all();
        }
        let _state = self.changed.wait_while(state, |state| state.turn != own).unwrap();
    }

    /// The process makes no more calls.
    pub fn leave(&self, own: usize) {
        let mut state = self.state.lock().unwrap();
        state.is_alive[own] = false;
        if state.turn == own {
            state.choose();
        }
        self.changed.notify_all();
    }
}

impl State {
    fn go_on(&mut self) {
        if self.random.once_in(12) {
            let ms = self.random.below(self.left_ms as usize + 1) as u64;
            self.left_ms -= ms;
            self.world.pass_ms(ms);
        }
        if self.random.once_in(self.calls_mean) {
            self.choose();
        }
    }

    fn choose(&mut self) {
        let alive: Vec<usize> =
            (0..self.is_alive.len()).filter(|&process| self.is_alive[process]).collect();
        if !alive.is_empty() {
            self.turn = alive[self.random.below(alive.len())];
        }
    }
}
