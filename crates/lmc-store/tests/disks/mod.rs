//! Disks in memory for tests: one that a power cut can come to, and one that fails; and the history
//! of a store that both are put below.

pub mod crash;
pub mod cut;
pub mod faulty;
pub mod scene;
pub mod verify;

/// Random numbers that a seed reproduces.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    /// Others that do not depend on how many are taken here.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
