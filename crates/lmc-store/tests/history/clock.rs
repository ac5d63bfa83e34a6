//! The time of a made-up world, and machines whose clocks are wrong.

use lmc_store::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The time by the clock of the storage. It advances by a tick whenever an object is put.
#[derive(Debug)]
pub struct World {
    now_ms: AtomicU64,
    tick_ms: AtomicU64,
}

impl World {
    pub fn new(now_ms: u64) -> Arc<Self> {
        Arc::new(Self { now_ms: AtomicU64::new(now_ms), tick_ms: AtomicU64::new(1) })
    }

    /// The time, which does not go on by that.
    pub fn peek_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    pub fn pass_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// With a tick of 0 many things happen at the same time.
    pub fn set_tick_ms(&self, ms: u64) {
        self.tick_ms.store(ms, Ordering::SeqCst);
    }
}

impl Clock for World {
    fn now_ms(&self) -> u64 {
        self.now_ms.fetch_add(self.tick_ms.load(Ordering::SeqCst), Ordering::SeqCst)
    }

    fn boot_ms(&self) -> u64 {
        self.peek_ms()
    }
}

/// The clock of a machine, which is ahead or behind.
#[derive(Debug)]
pub struct Machine {
    world: Arc<World>,
    ahead_ms: AtomicI64,
}

impl Machine {
    pub fn new(world: &Arc<World>) -> Arc<Self> {
        Arc::new(Self { world: world.clone(), ahead_ms: AtomicI64::new(0) })
    }

    /// Sets the clock, forward or back.
    pub fn set_ahead_ms(&self, ms: i64) {
        self.ahead_ms.store(ms, Ordering::SeqCst);
    }
}

impl Clock for Machine {
    fn now_ms(&self) -> u64 {
        self.world.peek_ms().saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }

    /// Nobody sets this one.
    fn boot_ms(&self) -> u64 {
        self.world.peek_ms()
    }
}

/// A moment, by the clock of the storage and by that of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub stored_ms: u64,
    pub machine_ms: u64,
}

impl Moment {
    pub fn of(world: &World, machine: &Machine) -> Self {
        Self { stored_ms: world.peek_ms(), machine_ms: machine.now_ms() }
    }

    /// What a snapshot that is saved now may be stamped with at most.
    pub fn limit_ms(self) -> u64 {
        self.stored_ms + 60_000
    }

    /// Whether the clock of the machine is ahead of the storage's, or behind, by more than it may
    /// be.
    pub fn is_wrong(self) -> bool {
        self.machine_ms.abs_diff(self.stored_ms) > 60_000
    }

    /// The time that a save believes: that of its machine, unless that is wrong.
    pub fn believed_ms(self) -> u64 {
        if self.is_wrong() { self.stored_ms } else { self.machine_ms }
    }
}
