//! The corpus of real training state: where it is, and the tensors of its safetensors files.
//!
//! `LMC_CORPUS` names the folder. If it is not set, `../shared/corpus` next to the repository is
//! used.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

pub use safetensors::Dtype;
use safetensors::SafeTensors;

/// One tensor, copied out of its file.
#[derive(Clone, Debug)]
pub struct CorpusTensor {
    /// Name in the file.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, the last one contiguous.
    pub shape: Vec<usize>,
    /// Little-endian values.
    pub bytes: Vec<u8>,
}

/// One file of the corpus.
#[derive(Clone, Debug)]
pub struct CorpusFile {
    /// Path below the corpus folder, without `.safetensors`: `pretrain/001000.adam-m`.
    pub name: String,
    /// Its tensors in the order of their bytes.
    pub tensors: Vec<CorpusTensor>,
}

impl CorpusTensor {
    /// Bytes of one value.
    pub fn width(&self) -> usize {
        self.dtype.bitsize() / 8
    }

    /// Values in the last dimension; 1 for a scalar.
    pub fn row_len(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Number of values.
    pub fn value_count(&self) -> usize {
        self.bytes.len() / self.width()
    }
}

/// The corpus folder, or `None` if there is none.
pub fn find() -> Option<PathBuf> {
    let beside_repository = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let dir = env::var_os("LMC_CORPUS").map_or_else(beside_repository, PathBuf::from);
    dir.is_dir().then_some(dir)
}

/// Reads every safetensors file below `dir`, sorted by name.
pub fn load(dir: &Path) -> io::Result<Vec<CorpusFile>> {
    let mut paths = Vec::new();
    collect_files(dir, &mut paths)?;
    paths.sort();
    paths.iter().map(|path| load_file(dir, path)).collect()
}

/// Tensors of one safetensors file held in memory, in the order of their bytes.
pub fn parse(bytes: &[u8]) -> io::Result<Vec<CorpusTensor>> {
    let file = SafeTensors::deserialize(bytes).map_err(io::Error::other)?;
    let mut views = file.tensors();
    views.sort_by_key(|(_, view)| view.data().as_ptr());
    let tensor = |(name, view): (String, safetensors::tensor::TensorView)| CorpusTensor {
        name,
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    Ok(views.into_iter().map(tensor).collect())
}

fn collect_files(dir: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_files(&path, paths)?;
        } else if path.extension().is_some_and(|e| e == "safetensors") {
            paths.push(path);
        }
    }
    Ok(())
}

fn load_file(dir: &Path, path: &Path) -> io::Result<CorpusFile> {
    let relative = path.strip_prefix(dir).unwrap_or(path).with_extension("");
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    Ok(CorpusFile { name: parts.join("/"), tensors: parse(&fs::read(path)?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hand-made file gives its tensors back in the order of their bytes.
    #[test]
    fn parses_a_small_file() {
        let header = concat!(
            r#"{"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"#,
            r#""a":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}}"#,
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7]);
        let tensors = parse(&bytes).unwrap();
        assert_eq!((tensors[0].name.as_str(), tensors[0].row_len()), ("b", 1));
        assert_eq!((tensors[1].value_count(), tensors[1].bytes[0]), (3, 5));
    }
}
