//! Sizes of our levels on the original corpus files, whole files with all tables and lengths,
//! beside the order-0 bound. Every file is decoded again and compared.

use lmc_testkit::CorpusFile;
use serde::Serialize;

use crate::Result;
use crate::buffers::{Buffer, Set};
use crate::engines::{Engine, LevelName, Lmc, Sample};

/// Sizes of one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileBits {
    pub file: String,
    pub values: usize,
    /// Order-0 bound in bits a value.
    pub bound_bits: f64,
    pub levels: Vec<LevelBits>,
}

/// Size of one file at one level.
#[derive(Clone, Debug, Serialize)]
pub struct LevelBits {
    pub level: String,
    pub bytes_out: usize,
    pub bits_per_value: f64,
}

/// All corpus files, then the cast ones.
pub fn measure(corpus: &[CorpusFile]) -> Result<Vec<FileBits>> {
    let casts = [Set::F16, Set::Fp8].into_iter().flat_map(|set| set.files(corpus));
    corpus.iter().cloned().chain(casts).map(|file| measure_file(&file)).collect()
}

fn measure_file(file: &CorpusFile) -> Result<FileBits> {
    let buffer = Buffer::build(std::slice::from_ref(file), 0, false)?;
    let level_bits = |level| {
        let done = measure_level(&buffer, level);
        done.map_err(|e| format!("{} at level {level}: {e}", file.name))
    };
    Ok(FileBits {
        file: file.name.clone(),
        values: buffer.bytes.len() / buffer.width(),
        bound_bits: buffer.bound_bits_per_value(buffer.bytes.len()),
        levels: LevelName::ALL
            .into_iter()
            .map(level_bits)
            .collect::<std::result::Result<_, _>>()?,
    })
}

fn measure_level(buffer: &Buffer, level: LevelName) -> Result<LevelBits> {
    let mut engine = Lmc::new(level);
    let mut coded = Vec::new();
    let coded_len = engine.compress(Sample::first(buffer, usize::MAX), &mut coded)?;
    let mut out = vec![0xa5; buffer.bytes.len()];
    engine.decompress(&coded, &mut out)?;
    if out != buffer.bytes {
        return Err("the decompressed bytes differ from the input".into());
    }
    let bytes_out = coded_len + engine.extra_len();
    let values = buffer.bytes.len() / buffer.width();
    let bits_per_value = bytes_out as f64 * 8.0 / values as f64;
    Ok(LevelBits { level: level.to_string(), bytes_out, bits_per_value })
}
