//! Finds files in a folder that hold the f32 weights that other files there were rounded from.

use crate::io::{Input, Source};
use crate::items::{self, look};
use lmc_format::Dtype;
use lmc_input::Tensor;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// For each of `paths`, the numbers of the paths that it may be compressed against; `open` opens a
/// path by its number. These are safetensors files in the same folder, mostly f32, that together
/// hold a tensor of the same name and shape for most of its bf16 or f16 bytes. A file that others
/// may be compressed against is itself compressed against none, so that there are no cycles. A file
/// that cannot be read has none.
pub fn masters(paths: &[PathBuf], open: impl Fn(usize) -> Option<File>) -> Vec<Vec<usize>> {
    let tensors: Vec<Vec<Tensor>> = (0..paths.len()).map(|i| tensors(open(i))).collect();
    let is_master: Vec<bool> =
        tensors.iter().map(|own| share(own, |tensor| tensor.dtype == Dtype::F32)).collect();
    let mut known: HashMap<(&Path, &str, &[u64]), Vec<usize>> = HashMap::new();
    for (i, own) in tensors.iter().enumerate().filter(|(i, _)| is_master[*i]) {
        for tensor in own.iter().filter(|tensor| tensor.dtype == Dtype::F32) {
            known.entry(key(&paths[i], tensor)).or_default().push(i);
        }
    }
    let masters = |(path, own): (&PathBuf, &Vec<Tensor>)| {
        let is_rounding = |tensor: &Tensor| {
            matches!(tensor.dtype, Dtype::Bf16 | Dtype::F16)
                && known.contains_key(&key(path, tensor))
        };
        let mut masters = BTreeSet::new();
        if share(own, is_rounding) {
            for tensor in own.iter().filter(|tensor| is_rounding(tensor)) {
                masters.extend(known.get(&key(path, tensor)).into_iter().flatten());
            }
        }
        masters.into_iter().collect()
    };
    paths.iter().zip(&tensors).map(masters).collect()
}

/// A tensor and its rounding share this: the folder, the name and the shape.
fn key<'a>(path: &'a Path, tensor: &'a Tensor) -> (&'a Path, &'a str, &'a [u64]) {
    (path.parent().unwrap_or(path), &tensor.name, &tensor.shape)
}

/// Whether most bytes belong to tensors for which `is` returns true.
fn share(tensors: &[Tensor], is: impl Fn(&Tensor) -> bool) -> bool {
    let len = |tensor: &Tensor| tensor.range.end - tensor.range.start;
    let all: u64 = tensors.iter().map(len).sum();
    2 * tensors.iter().filter(|tensor| is(tensor)).map(len).sum::<u64>() > all
}

/// The tensors of a file; none if it has none, or cannot be read.
fn tensors(file: Option<File>) -> Vec<Tensor> {
    let look = || {
        let file = file?;
        let source = Source::new(Input::File(&file)).ok()?;
        let layout = look(&source, source.len().ok()?).ok()?;
        items::tensors(&source, &layout).ok()
    };
    look().unwrap_or_default()
}
