//! What tests of limits share: memory that is counted, and parts of blocks that claim much.
//!
//! Memory is counted by an allocator of the test's own, for each thread alone, as the most that was
//! held at once beyond what the caller brought.

use lmc_codec::{Decoder, Isa};
use lmc_format::{ChainTable, Coder, varint};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

pub const KIB: usize = 1 << 10;
pub const MIB: usize = 1 << 20;

/// Passes everything to the system's allocator and counts.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// Notes that the thread holds `more` bytes more and `less` bytes less.
fn note(more: usize, less: usize) {
    // Fails only while a thread ends, when nothing is measured.
    let _ = HELD.try_with(|held| {
        held.set(held.get().wrapping_add(more));
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
        held.set(held.get().wrapping_sub(less));
    });
}

// SAFETY: every call goes to the system's allocator as it came, which keeps the promises.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Both are held while the bytes move.
        note(new_size, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs `work`; returns what it gave, the most bytes it held at once, and the time it took of a
/// core.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize, Duration) {
    // A base well above zero, so that freeing older memory cannot wrap around.
    const BASE: usize = 1 << 60;
    let (start, start_of_core) = (Instant::now(), core_time());
    HELD.set(BASE);
    MOST.set(BASE);
    let result = work();
    let held = MOST.get() - BASE;
    // Without a count of the core's time, that of the clock is the most it can be.
    let time = match (start_of_core, core_time()) {
        (Some(start), Some(end)) => end.saturating_sub(start),
        _ => start.elapsed(),
    };
    (result, held, time)
}

/// How long this thread has been running, not counting when others did, if the system tells.
fn core_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    // Kernels that do not count say 0.
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// Decodes into a buffer that the caller brings, with a new decoder: whether it succeeds, the
/// bytes held at once, and the time.
pub fn decode(isa: Isa, block: &[u8], raw_len: usize) -> (bool, usize, Duration) {
    decode_against(isa, block, None, raw_len)
}

/// The same against a base.
pub fn decode_against(
    isa: Isa,
    block: &[u8],
    base: Option<&[u8]>,
    raw_len: usize,
) -> (bool, usize, Duration) {
    let mut out = vec![0; raw_len];
    measured(|| Decoder::with_isa(isa).decode_block(block, None, base, &mut out).is_ok())
}

/// The most that decoding into `raw_len` bytes may hold.
///
/// The worst case for small blocks holds 5.13 bytes for each original one: bytes cut into two
/// chain-coded planes (2), the two buffers of the chain (2), and the values (1) and flags (1/8)
/// of a sparse segment. Buffers do not grow beyond the largest segment, 2^18 values, for which
/// nine planes and the rest take 19.2 bytes each; rows of one byte take a byte for each. Columns
/// take 1 MiB, and tables the rest.
pub fn decode_bound(raw_len: usize) -> usize {
    (raw_len * 21 / 4).min(raw_len + 5 * MIB) + 2 * MIB
}

/// A block of `kind` that claims `raw_len` bytes, with `body` after that.
pub fn block(kind: u8, raw_len: u64, body: &[u8]) -> Vec<u8> {
    let mut block = vec![kind];
    varint::write(&mut block, raw_len);
    block.extend_from_slice(body);
    block
}

/// A chain of one level: a plane of zeros is one zero bit for each byte.
pub fn chain() -> Coder {
    Coder::Chain(ChainTable::new(vec![1], vec![0]).expect("one level of one symbol"))
}

/// Bytes of one level of a chain, of a plane of `n` bytes.
pub fn level_len(n: usize) -> usize {
    n / 64 * 8 + (n % 64).div_ceil(8)
}
