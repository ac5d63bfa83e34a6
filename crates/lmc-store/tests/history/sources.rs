//! Small checkpoints to be saved. Some have files in common, so that packs are shared and found
//! again.

use crate::common::{checkpoint, tree, write};
use crate::disks::Random;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Paths with kind, mode and content; a single file has an empty path.
pub type Content = BTreeMap<Vec<u8>, (char, u32, Vec<u8>)>;

/// How many there are.
pub const SOURCES: usize = 12;

/// Checkpoints, and room for what is restored.
pub struct Sources {
    folder: TempDir,
    all: Vec<(PathBuf, Content)>,
}

impl Sources {
    pub fn new(random: &mut Random) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let folder = folder.expect("a folder");
        let all = (0..SOURCES).map(|number| {
            // No digits in the name: a step would be read from it.
            let path = folder.path().join(format!("source{}", ["-"; SOURCES][..number].concat()));
            make(&path, number, random);
            let content = content(&path);
            (path, content)
        });
        let all = all.collect();
        Self { folder, all }
    }

    pub fn path(&self, source: usize) -> &Path {
        &self.all[source].0
    }

    pub fn content(&self, source: usize) -> &Content {
        &self.all[source].1
    }

    /// Whether it has nothing but files and folders with the modes that what is in memory gets.
    pub fn is_plain(&self, source: usize) -> bool {
        let private = |(kind, mode, _): &(char, u32, Vec<u8>)| {
            matches!((*kind, *mode), ('f', 0o600) | ('d', 0o700))
        };
        self.path(source).is_dir() && self.content(source).values().all(private)
    }

    /// Bytes of the files of a source.
    pub fn size(&self, source: usize) -> u64 {
        let files = self.content(source).values().filter(|(kind, ..)| *kind == 'f');
        files.map(|(.., bytes)| bytes.len() as u64).sum()
    }

    /// Where to restore to; nothing is there yet.
    pub fn target(&self) -> PathBuf {
        let target = self.folder.path().join("restored");
        let _ = fs::remove_dir_all(&target);
        let _ = fs::remove_file(&target);
        target
    }
}

/// All of what is at a path.
pub fn content(path: &Path) -> Content {
    if path.is_dir() {
        return tree(path);
    }
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    BTreeMap::from([(Vec::new(), ('f', mode, fs::read(path).unwrap()))])
}

fn make(path: &Path, number: usize, random: &mut Random) {
    let values = [150, 600][number % 2];
    let model = checkpoint(&["a", "b"], values, 1 + number as u64 / 6, number as u32 % 3);
    if number == SOURCES - 1 {
        return write(path, &model);
    }
    write(
        &path.join(if number == 7 { "renamed.safetensors" } else { "model.safetensors" }),
        &model,
    );
    write(&path.join("frozen.bin"), &checkpoint(&["c"], 100, 9, 0));
    for entry in fs::read_dir(path).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o600)).unwrap();
    }
    if number % 3 != 1 {
        let noise: Vec<u8> = (0..200 + number * 40).map(|_| random.below(256) as u8).collect();
        write(&path.join("sub/optimizer.pt"), &noise);
        for (name, mode) in [("sub/optimizer.pt", 0o600), ("sub", 0o700)] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    if number % 4 == 2 {
        write(&path.join("run.sh"), b"");
        fs::set_permissions(path.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("model.safetensors", path.join("link")).unwrap();
    }
}
