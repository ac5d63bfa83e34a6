//! How fast whole saves and restores are: a sample goes into a store and back, with everything that
//! a save does beside coding, such as reading, checksums, verification and packs.

use std::path::Path;
use std::sync::Arc;

use lmc::{Context, Leftover, Level};
use lmc_analyze::engines::{Piece, Row};
use lmc_store::storage::{Access, open_new};
use lmc_store::{MemoryFile, Parent, RelPath, RestoreOptions, SaveOptions, Store, SystemClock};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::exit::Failure;
use crate::safetensors::File;
use crate::signals::{self, Guard};

/// The levels that a plan has, by the names of their rows.
const LEVELS: [(&str, Level); 3] =
    [("fast", Level::Fast), ("default", Level::Default), ("max", Level::Max)];
/// The first round asks the system for memory that later ones have.
const ROUNDS: usize = 2;
const FILE_NAME: &str = "sample.safetensors";

/// A temporary directory, which an interrupt removes too.
struct Place {
    directory: TempDir,
    /// Dropped last, when the directory is gone.
    _guard: Guard,
}

/// Puts the speeds of whole saves and restores, by CPU time, into the rows of our levels. Stores
/// are made in `dir`, and removed.
pub fn measure(
    rows: &mut [Row],
    pieces: &[Piece],
    dir: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let new = file(pieces, |piece| Some(&piece.bytes));
    let old = file(pieces, |piece| piece.base.as_ref());
    let ours = rows.iter_mut().filter(|row| row.engine == "lmc" && !row.xor);
    for row in ours {
        let Some((_, level)) = LEVELS.iter().find(|(name, _)| row.level == *name) else { continue };
        context.interrupt.check()?;
        let base = row.base.then_some(old.as_slice());
        let mut fastest = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            let (save_s, restore_s) = round(&new, base, *level, dir, context)?;
            fastest = (fastest.0.min(save_s), fastest.1.min(restore_s));
        }
        let len = new.len() as f64;
        (row.compress_cpu, row.decompress_cpu) = (len / fastest.0, len / fastest.1);
    }
    Ok(())
}

/// The pieces as tensors of a file; those without bytes are left out.
fn file(pieces: &[Piece], bytes: impl Fn(&Piece) -> Option<&Vec<u8>>) -> Vec<u8> {
    let mut file = File::default();
    for (i, piece) in pieces.iter().enumerate() {
        let Some(bytes) = bytes(piece) else { continue };
        // A type that safetensors does not have, or that is not whole bytes, is stored as bytes.
        let width = piece.dtype.byte_len(1).unwrap_or(1);
        let (dtype, width) = piece.dtype.in_safetensors().map_or(("U8", 1), |name| (name, width));
        let values = bytes.len() as u64 / width;
        let shape = match piece.row_len {
            row if row > 0 && values.is_multiple_of(row) => vec![values / row, row],
            _ => vec![values],
        };
        file.push(&i.to_string(), dtype, &shape, bytes);
    }
    file.finish()
}

/// Seconds of CPU time of a save and of a restore, on one thread.
fn round(
    new: &[u8],
    base: Option<&[u8]>,
    level: Level,
    dir: &Path,
    context: &Context,
) -> Result<(f64, f64), Failure> {
    let what = format!("make a directory in {}", dir.display());
    let failed = |error| Failure::io(&what, &error);
    let directory = tempfile::tempdir_in(dir).map_err(failed)?;
    let leftover = Leftover::directory(directory.path()).map_err(failed)?;
    let place = Place { directory, _guard: signals::guard(Arc::new(leftover)) };
    let location = place.directory.path().join("store");
    let storage = open_new(&location.to_string_lossy(), Access::Private)?;
    let store = Store::init(storage, Arc::new(SystemClock))?.with_context(&context.on_threads(1));
    let path = RelPath::new(FILE_NAME.as_bytes())?;
    let save = |bytes: &[u8], step, parent| {
        let file = MemoryFile { path: path.clone(), parts: vec![bytes], like: Vec::new() };
        let options = SaveOptions { step: Some(step), parent, level, ..SaveOptions::default() };
        store.save_files(&[file], &options)
    };
    if let Some(base) = base {
        save(base, 1, Parent::None)?;
    }
    let start = cpu_s();
    let saved = save(new, 2, if base.is_some() { Parent::Auto } else { Parent::None })?;
    let save_s = cpu_s() - start;
    let target = place.directory.path().join("restored");
    let start = cpu_s();
    store.restore(&saved.name, &target, &RestoreOptions::default())?;
    Ok((save_s, cpu_s() - start))
}

/// CPU time of this process so far.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
