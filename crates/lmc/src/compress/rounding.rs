//! Finds files in a folder that hold the f32 weights that other files there were rounded from.

use crate::io::{ByteSource, Input};
use crate::items::InputLayout;
use lmc_format::Dtype;
use lmc_input::TensorInfo;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// For each of `paths`, the numbers of the paths that it may be compressed against; `open` opens a
/// path by its number. These are safetensors files in the same folder, mostly f32, that together
/// hold a tensor of the same name and shape for most of its bf16 or f16 bytes. A file that others
/// may be compressed against is itself compressed against none, so that there are no cycles. A file
/// that cannot be read has none.
pub fn rounding_sources(
    paths: &[PathBuf],
    open: impl Fn(usize) -> Option<File>,
) -> Vec<Vec<usize>> {
    let tensors: Vec<Vec<TensorInfo>> = (0..paths.len()).map(|i| tensors(open(i))).collect();
    let is_source: Vec<bool> =
        tensors.iter().map(|own| share(own, |tensor| tensor.dtype == Dtype::F32)).collect();
    let mut known: HashMap<(&Path, &str, &[u64]), Vec<usize>> = HashMap::new();
    for (i, own) in tensors.iter().enumerate().filter(|(i, _)| is_source[*i]) {
        for tensor in own.iter().filter(|tensor| tensor.dtype == Dtype::F32) {
            known.entry(key(&paths[i], tensor)).or_default().push(i);
        }
    }
    let sources_of = |(path, own): (&PathBuf, &Vec<TensorInfo>)| {
        let is_rounding = |tensor: &TensorInfo| {
            matches!(tensor.dtype, Dtype::Bf16 | Dtype::F16)
                && known.contains_key(&key(path, tensor))
        };
        let mut sources = BTreeSet::new();
        if share(own, is_rounding) {
            for tensor in own.iter().filter(|tensor| is_rounding(tensor)) {
                sources.extend(known.get(&key(path, tensor)).into_iter().flatten());
            }
        }
        sources.into_iter().collect()
    };
    paths.iter().zip(&tensors).map(sources_of).collect()
}

/// A tensor and its rounding share this: the folder, the name and the shape.
fn key<'a>(path: &'a Path, tensor: &'a TensorInfo) -> (&'a Path, &'a str, &'a [u64]) {
    (path.parent().unwrap_or(path), &tensor.name, &tensor.shape)
}

/// Whether most bytes belong to tensors for which `is` returns true.
fn share(tensors: &[TensorInfo], is: impl Fn(&TensorInfo) -> bool) -> bool {
    let len = |tensor: &TensorInfo| tensor.range.end - tensor.range.start;
    let all: u64 = tensors.iter().map(len).sum();
    2 * tensors.iter().filter(|tensor| is(tensor)).map(len).sum::<u64>() > all
}

/// The tensors of a file; none if it has none, or cannot be read.
fn tensors(file: Option<File>) -> Vec<TensorInfo> {
    let read = || {
        let file = file?;
        let source = ByteSource::new(Input::File(&file)).ok()?;
        InputLayout::named(&source, source.len().ok()?).ok()
    };
    read().unwrap_or_default()
}
