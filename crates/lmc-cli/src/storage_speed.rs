//! How fast a directory is: bytes are written to a file there and synced to the disk.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use lmc::Interrupt;

use crate::exit::Failure;

/// Bytes written between two looks for an interrupt.
const STEP_LEN: usize = 32 << 20;
/// The first round asks the system for memory that later ones have.
const ROUNDS: usize = 2;

/// Bytes per second of writing `len` bytes, which are those of `data` again and again, to a file
/// without a name in `dir`: the faster of two rounds.
pub fn measure(dir: &Path, data: &[u8], len: usize, interrupt: &Interrupt) -> Result<f64, Failure> {
    (0..ROUNDS).try_fold(0.0, |fastest: f64, _| {
        write(dir, data, len, interrupt).map(|speed| speed.max(fastest))
    })
}

/// One round.
fn write(dir: &Path, data: &[u8], len: usize, interrupt: &Interrupt) -> Result<f64, Failure> {
    if data.is_empty() || len == 0 {
        return Err(Failure::new("there are no bytes to measure the storage with"));
    }
    let what = format!("write a file into {}", dir.display());
    let failed = |error| Failure::io(&what, &error);
    let mut file = tempfile::tempfile_in(dir).map_err(failed)?;
    let start = Instant::now();
    let mut rest = len;
    for part in data.chunks(STEP_LEN).cycle() {
        interrupt.check()?;
        let part = &part[..part.len().min(rest)];
        file.write_all(part).map_err(failed)?;
        rest -= part.len();
        if rest == 0 {
            break;
        }
    }
    file.sync_all().map_err(failed)?;
    Ok(len as f64 / start.elapsed().as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory has a speed; one that is not there, or nothing to write, has an error that says
    /// so. An interrupt ends it.
    #[test]
    fn speeds() {
        let dir = tempfile::tempdir().expect("a directory");
        let idle = Interrupt::default();
        let speed = measure(dir.path(), &[7; 1000], 12_345, &idle).expect("a speed");
        assert!(speed > 0.0 && speed.is_finite(), "{speed}");
        assert_eq!(dir.path().read_dir().expect("a directory").count(), 0);
        let failed = |dir: &Path, data: &[u8], interrupt: &Interrupt| {
            let failure = measure(dir, data, 10, interrupt).expect_err("no speed");
            failure.line("x").as_str().to_string()
        };
        let missing = dir.path().join("missing");
        assert!(failed(&missing, &[1], &idle).contains("cannot write a file into"));
        assert!(failed(dir.path(), &[], &idle).contains("no bytes"));
        let sent = Interrupt::default();
        sent.send();
        assert!(failed(dir.path(), &[1], &sent).contains("interrupted"));
    }
}
