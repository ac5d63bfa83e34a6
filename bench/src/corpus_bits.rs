//! Sizes of our levels on the original corpus files, next to the order-0 bound. A size is that of
//! the whole file, with all tables and lengths. Every file is decoded again and compared.

use lmc_engines::{Engine, LevelName, Lmc};
use lmc_testkit::CorpusFile;
use serde::Serialize;

use crate::Result;
use crate::buffers::{Buffer, Set};
use crate::run::{self, Limits};

/// Sizes of one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileBits {
    pub file: String,
    pub values: usize,
    /// Order-0 bound in bits per value.
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

impl FileBits {
    /// The sizes that the engines reach on `buffer`, each under the name given with it. Engines
    /// that use a base get `base`.
    pub fn measure(
        file: &str,
        buffer: &Buffer,
        base: Option<&Buffer>,
        engines: impl IntoIterator<Item = (String, Box<dyn Engine>)>,
    ) -> Result<Self> {
        let (names, mut engines): (Vec<String>, Vec<_>) = engines.into_iter().unzip();
        let measured = run::run(buffer, base, &mut engines, &Limits::WHOLE);
        let measured = measured.map_err(|e| format!("{file}: {e}"))?;
        let mut bits = Self {
            file: file.into(),
            values: buffer.bytes.len() / buffer.width(),
            bound_bits: buffer.bound_bits_per_value(buffer.bytes.len()),
            levels: Vec::new(),
        };
        for (name, measured) in names.into_iter().zip(measured) {
            bits.add(name, measured.bytes_out);
        }
        Ok(bits)
    }

    /// Adds the size that one engine reached on the file.
    pub fn add(&mut self, level: String, bytes_out: usize) {
        let bits_per_value = bytes_out as f64 * 8.0 / self.values as f64;
        self.levels.push(LevelBits { level, bytes_out, bits_per_value });
    }
}

/// All corpus files, then the cast ones.
pub fn measure(corpus: &[CorpusFile]) -> Result<Vec<FileBits>> {
    let casts = [Set::F16, Set::Fp8].into_iter().flat_map(|set| set.files(corpus));
    corpus.iter().cloned().chain(casts).map(|file| measure_file(&file)).collect()
}

fn measure_file(file: &CorpusFile) -> Result<FileBits> {
    let buffer = Buffer::build(std::slice::from_ref(file), 0, false)?;
    let engine = |level: LevelName| {
        let lmc: Box<dyn Engine> = Box::new(Lmc::new(level, false).streaming());
        (level.to_string(), lmc)
    };
    FileBits::measure(&file.name, &buffer, None, LevelName::ALL.map(engine))
}
