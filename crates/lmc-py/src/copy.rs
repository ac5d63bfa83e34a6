//! Copying many buffers on all cores.

use lmc::Error;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::thread::{Builder, available_parallelism, scope};

use crate::buffers::{Bytes, expect_writes};
use crate::context::short;
use crate::errors::Raise;

/// Threads take pieces of this length, one after the other. In shorter pieces, memcpy does not
/// bypass the cache: with 4 MiB, 1 GiB took 165 ms instead of 115 ms, on an Ice Lake Xeon.
const PIECE_LEN: usize = 32 << 20;

/// Copies buffers into others of the same length: pairs of source and target.
#[pyfunction]
pub fn copy(py: Python<'_>, pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>) -> PyResult<()> {
    let pair = |(from, to): &(_, _)| Ok((Bytes::new(from)?, Bytes::new_mut(to)?));
    let mut pairs = pairs.iter().map(pair).collect::<PyResult<Vec<_>>>()?;
    short(py, || {
        let mut pieces = Vec::new();
        for (from, to) in &mut pairs {
            let (from, to) = (from.get(), to.get_mut());
            if from.len() != to.len() {
                return Err(Error::invalid("a copy needs buffers of the same length"));
            }
            expect_writes(to);
            pieces.extend(from.chunks(PIECE_LEN).zip(to.chunks_mut(PIECE_LEN)));
        }
        copy_pieces(pieces);
        Ok(())
    })?
    .raise()
}

fn copy_pieces(pieces: Vec<(&[u8], &mut [u8])>) {
    let threads = available_parallelism().map_or(1, |n| n.get()).min(pieces.len());
    let pieces = Mutex::new(pieces.into_iter());
    let next = || pieces.lock().ok()?.next();
    let run = || {
        while let Some((from, to)) = next() {
            to.copy_from_slice(from);
        }
    };
    scope(|scope| {
        // If no thread can be started, this one copies everything.
        (1..threads).for_each(|_| drop(Builder::new().spawn_scoped(scope, run)));
        run();
    });
}
