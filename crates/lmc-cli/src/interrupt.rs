//! Ctrl-C and polite kills: what is temporary goes, then the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The code of a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 128 + 2;

/// What would be left behind.
static TEMPORARY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// While it lives, an interrupt removes the temporary file or directory it was made for.
pub struct Guard(());

/// Takes over SIGINT, SIGTERM and SIGHUP.
pub fn install() {
    // A second call in one process fails, and the first handler is as good.
    let _ = ctrlc::set_handler(|| {
        if let Some(path) = temporary().take() {
            // A file may have been given its final name just now; then nothing is there.
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        std::process::exit(EXIT_INTERRUPTED);
    });
}

/// Removes `path` if the process is interrupted before the guard is dropped.
pub fn guard(path: &Path) -> Guard {
    *temporary() = Some(path.to_path_buf());
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        *temporary() = None;
    }
}

fn temporary() -> MutexGuard<'static, Option<PathBuf>> {
    // A path is whole at any time, so a panic elsewhere does not spoil it.
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}
