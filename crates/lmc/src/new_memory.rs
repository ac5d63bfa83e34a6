//! New memory for results: `len` goes in, that many zero bytes come out, or an error if there is
//! not enough memory. No page of it exists before somebody writes to it.

use crate::io::too_long;
use lmc_format::Result;
use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// New memory to restore or compress into, zeros at first.
///
/// The first write to each page of new memory stops a thread while the system clears the page.
/// `vec![0; len]` has pages of 4 KiB, where that takes longer than decoding. This memory asks Linux
/// for pages of 2 MiB, and leaves each of them to the thread that writes to it first.
#[derive(Debug)]
pub struct NewMemory(MmapMut);

impl NewMemory {
    /// `len` bytes, or an error if there is not enough memory: a file can claim any length.
    pub fn new(len: u64) -> Result<Self> {
        let map = usize::try_from(len).ok().and_then(|len| MmapMut::map_anon(len).ok());
        let map = map.ok_or_else(|| too_long(len))?;
        // This is only advice: without large pages, the memory is merely slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self(map))
    }
}

impl Deref for NewMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for NewMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::NewMemory;
    use lmc_format::ErrorKind;

    /// Memory of any length is zeros, keeps what is written to it, and can go to another thread.
    #[test]
    fn zeros_that_keep_what_is_written() {
        for len in [0, 1, (3 << 20) + 1] {
            let mut memory = NewMemory::new(len as u64).expect("memory");
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|&byte| byte == 0), "{len}");
            let byte = |i: usize| (i % 251) as u8;
            std::thread::scope(|scope| {
                for (k, part) in memory.chunks_mut(1 << 20).enumerate() {
                    scope.spawn(move || {
                        let start = k << 20;
                        part.iter_mut().enumerate().for_each(|(i, to)| *to = byte(start + i));
                    });
                }
            });
            let memory = std::thread::spawn(|| memory).join().expect("a thread");
            assert!(memory.iter().enumerate().all(|(i, &found)| found == byte(i)), "{len}");
        }
    }

    /// A length that no memory has is an error which names it.
    #[test]
    fn absurd_lengths() {
        for len in [1 << 60, i64::MAX as u64, 1 << 63, u64::MAX] {
            let error = NewMemory::new(len).expect_err("too much memory");
            assert_eq!(error.kind, ErrorKind::LimitExceeded);
            let message = format!("{len} bytes are more than memory can hold");
            assert_eq!(error.to_string(), message);
        }
    }
}
