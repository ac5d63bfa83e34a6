//! Checkpoints coded against an earlier one: sizes on the original files, then speed on large
//! buffers of the same tensors.
//!
//! Base and new are shuffled alike: the order of a tensor's rows depends only on its place in its
//! file, and both files have the same tensors. Pairs of types that the corpus does not have are
//! made from its fp32 weights (`made.rs`).

use std::fs;
use std::path::Path;

use lmc_bench::Result;
use lmc_bench::buffers::Buffer;
use lmc_bench::corpus_bits::FileBits;
use lmc_bench::run::{self, Limits};
use lmc_engines::{Engine, Measured, Memcpy, ON_BASE, on_base};
use lmc_testkit::CorpusFile;
use serde::{Deserialize, Serialize};

use crate::made::Made;

/// A file of the corpus and an earlier one of the same run, or files made from both.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    pub name: &'static str,
    pub new: &'static str,
    pub base: &'static str,
    #[serde(skip)]
    made: Option<Made>,
}

/// The size that another program reached on a pair.
#[derive(Debug, Deserialize)]
struct OtherSize {
    pair: String,
    level: String,
    bytes_out: usize,
}

impl Pair {
    /// Every pair, in the order of the report.
    pub const ALL: [Pair; 16] = [
        pair("bf16 1010/1000", "pretrain/001010.weights-bf16", "pretrain/001000.weights-bf16"),
        pair("bf16 1100/1000", "pretrain/001100.weights-bf16", "pretrain/001000.weights-bf16"),
        pair("bf16 1100/1010", "pretrain/001100.weights-bf16", "pretrain/001010.weights-bf16"),
        pair("f32 1100/1000", "pretrain/001100.weights-fp32", "pretrain/001000.weights-fp32"),
        pair("adam-m 1100/1000", "pretrain/001100.adam-m", "pretrain/001000.adam-m"),
        pair("adam-v 1100/1000", "pretrain/001100.adam-v", "pretrain/001000.adam-v"),
        pair("finetune 30/20", "finetune/000030.weights-bf16", "finetune/000020.weights-bf16"),
        pair("rl 21/20", "rl/000021.weights-bf16", "rl/000020.weights-bf16"),
        made("f32 2 steps", Made::Near),
        made("f32 1e-6", Made::Moved),
        made("f32 1 %", Made::FewF32),
        made("f16 1100/1000", Made::F16),
        made("fp8 1100/1000", Made::Fp8),
        made("fp8 1 %", Made::FewFp8),
        made("int8 1100/1000", Made::Int8),
        made("f64 1e-6", Made::MovedF64),
    ];

    /// The pairs that `names` asks for, each by its name or the beginning of it; all pairs if
    /// `names` is empty.
    pub fn select(names: &[String]) -> Result<Vec<Pair>> {
        let is_asked = |pair: &Pair, name: &String| pair.name.starts_with(name.as_str());
        if let Some(name) = names.iter().find(|&n| !Self::ALL.iter().any(|p| is_asked(p, n))) {
            return Err(
                format!("no pair `{name}`: {}", Self::ALL.map(|p| p.name).join(", ")).into()
            );
        }
        let asked = |pair: &Pair| names.is_empty() || names.iter().any(|name| is_asked(pair, name));
        Ok(Self::ALL.into_iter().filter(asked).collect())
    }

    /// Whether both are unchanged files of the corpus.
    pub fn is_of_files(&self) -> bool {
        self.made.is_none()
    }

    /// The size of the new file with each of these engines; with all engines if none are given.
    pub fn sizes(&self, corpus: &[CorpusFile], engines: &[String]) -> Result<FileBits> {
        let (new, base) = self.buffers(corpus, 0, false)?;
        let engines = engines_on_base(engines, base.width())?;
        FileBits::measure(self.name, &new, Some(&base), engines)
    }

    /// The speed of each of these engines on at least `len_min` new bytes.
    pub fn speeds(
        &self,
        corpus: &[CorpusFile],
        names: &[String],
        len_min: usize,
        limits: &Limits,
    ) -> Result<(Buffer, Vec<Measured>)> {
        let (new, base) = self.buffers(corpus, len_min, true)?;
        let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Memcpy)];
        let others = engines_on_base(names, base.width())?;
        engines.extend(others.into_iter().map(|(_, engine)| engine));
        let measured = run::run(&new, Some(&base), &mut engines, limits)?;
        Ok((new, measured))
    }

    /// The new bytes, and the bytes of the base at the same places.
    pub fn buffers(
        &self,
        corpus: &[CorpusFile],
        len_min: usize,
        shuffled: bool,
    ) -> Result<(Buffer, Buffer)> {
        let (new, base) = (find(corpus, self.new)?, find(corpus, self.base)?);
        let shape = |file: &CorpusFile| -> Vec<_> {
            file.tensors.iter().map(|t| (t.name.clone(), t.dtype, t.shape.clone())).collect()
        };
        if shape(new) != shape(base) {
            return Err(format!("{} and {} have other tensors", new.name, base.name).into());
        }
        let build = |file| Buffer::build(std::slice::from_ref(file), len_min, shuffled);
        match self.made {
            Some(made) => {
                let (new, base) = made.pair(new, base);
                Ok((build(&new)?, build(&base)?))
            }
            None => Ok((build(new)?, build(base)?)),
        }
    }
}

/// The engines that `names` lists, or those of [`ON_BASE`] if it is empty, for values of `width`
/// bytes.
fn engines_on_base(names: &[String], width: usize) -> Result<Vec<(String, Box<dyn Engine>)>> {
    let engine = |name: &str| Ok((name.into(), on_base(name, width)?.for_buffer()?));
    match names {
        [] => ON_BASE.into_iter().map(engine).collect(),
        _ => names.iter().map(|name| engine(name)).collect(),
    }
}

const fn pair(name: &'static str, new: &'static str, base: &'static str) -> Pair {
    Pair { name, new, base, made: None }
}

const fn made(name: &'static str, made: Made) -> Pair {
    let (new, base) = ("pretrain/001100.weights-fp32", "pretrain/001000.weights-fp32");
    Pair { name, new, base, made: Some(made) }
}

fn find<'a>(corpus: &'a [CorpusFile], name: &str) -> Result<&'a CorpusFile> {
    let found = corpus.iter().find(|file| file.name == name);
    found.ok_or_else(|| format!("the corpus has no file {name}").into())
}

/// Adds the sizes in the file at `path`, which `pairs.py` wrote.
pub fn add_others(pairs: &mut [FileBits], path: &Path) -> Result<()> {
    let text = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let others: Vec<OtherSize> = serde_json::from_slice(&text)?;
    for other in others {
        let found = pairs.iter_mut().find(|bits| bits.file == other.pair);
        let bits = found.ok_or_else(|| format!("no pair `{}`", other.pair))?;
        bits.add(other.level, other.bytes_out);
    }
    Ok(())
}

/// For each engine other than our levels with the base, whether our default is smaller on every
/// pair.
pub fn verdicts(pairs: &[FileBits]) -> Vec<String> {
    const OURS: [&str; 3] = ["fast", "default", "max"];
    let levels = pairs.first().map_or(&[][..], |bits| &bits.levels);
    let others = levels.iter().filter(|level| !OURS.contains(&level.level.as_str()));
    others.map(|other| verdict(pairs, &other.level)).collect()
}

fn verdict(pairs: &[FileBits], other: &str) -> String {
    let size = |bits: &FileBits, name: &str| {
        bits.levels.iter().find(|level| level.level == name).map(|level| level.bytes_out)
    };
    let mut exceptions = Vec::new();
    for bits in pairs {
        match (size(bits, "default"), size(bits, other)) {
            (Some(ours), Some(theirs)) if ours < theirs => {}
            (Some(ours), Some(theirs)) => {
                exceptions.push(format!("{} ({ours} against {theirs} bytes)", bits.file));
            }
            _ => exceptions.push(format!("{} (not measured)", bits.file)),
        }
    }
    match exceptions.as_slice() {
        [] => format!("default on the base is smaller than {other} on every pair"),
        _ => {
            format!("default on the base is NOT smaller than {other} on {}", exceptions.join(", "))
        }
    }
}
