//! `lmc list`: the tensors in .lmc files, as a table or as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use lmc::{Archive, Bases, Tensor};
use serde_json::{Value, json};

use crate::args::ListArgs;
use crate::bases;
use crate::exit::{self, Exit, Failure};
use crate::names;
use crate::printable::Printable;
use crate::stdio::print;
use crate::table::{Align, Table, ratio, shape};

/// Lists every file; JSON is one array, printed when all files have been read.
pub fn run(args: &ListArgs) -> Exit {
    let files = names::archives(&args.files);
    let mut listed: Vec<Value> = Vec::new();
    let exit = exit::for_each(&files, |path| {
        let bases = bases::to_restore(&args.bases.paths, bases::place(path, &args.files));
        let archive = Archive::open_on(path, &Bases::open(&bases, 0)?)?;
        let tensors = archive.tensors()?;
        if args.json {
            listed.push(file_json(path, &archive, &tensors));
            return Ok(());
        }
        print_file(path, &archive, &tensors)
    });
    if !args.json {
        return exit;
    }
    match print(Printable::json(&listed.into())) {
        Ok(()) => exit,
        Err(failure) => exit::report_at("stdout", Err(failure)),
    }
}

fn print_file(path: &Path, archive: &Archive, tensors: &[Tensor]) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("dtype", Align::Left),
        ("shape", Align::Left),
        ("bytes", Align::Right),
        ("ratio", Align::Right),
        ("recipe", Align::Left),
        ("on", Align::Left),
    ]);
    for (tensor, note) in tensors.iter().zip(archive.base_notes(tensors)) {
        let len = tensor.range.end - tensor.range.start;
        table.push(vec![
            tensor.name.clone(),
            tensor.dtype.clone(),
            shape(&tensor.shape),
            len.to_string(),
            ratio(len, tensor.coded_len),
            tensor.recipe.clone(),
            note.unwrap_or_else(|| on(archive, tensor).unwrap_or_else(|| "-".into())),
        ]);
    }
    let (original, coded) = (archive.original_len(), archive.file_len());
    let mut text = if tensors.is_empty() { Printable::default() } else { table.into() };
    text.push_line(format_args!(
        "{}: {}, {original} bytes in {coded}, {}x",
        path.display(),
        kind(archive, tensors),
        ratio(original, coded),
    ));
    print(text)
}

fn kind(archive: &Archive, tensors: &[Tensor]) -> String {
    let dtypes: Vec<String> = coded_as(archive).into_iter().map(|(dtype, _)| dtype).collect();
    match archive.is_safetensors() {
        true => format!("safetensors, {} tensors", tensors.len()),
        false if dtypes.is_empty() => "bytes".into(),
        false => format!("bytes, coded as {}", dtypes.join(", ")),
    }
}

/// Element types and the bytes that were coded as them, the one of most bytes first.
fn coded_as(archive: &Archive) -> Vec<(String, u64)> {
    let mut bytes = BTreeMap::new();
    for span in archive.spans() {
        *bytes.entry(span.dtype).or_insert(0) += span.raw_len;
    }
    let mut dtypes: Vec<(String, u64)> = bytes.into_iter().collect();
    dtypes.sort_by_key(|(_, bytes)| Reverse(*bytes));
    dtypes
}

/// What a tensor is coded against.
fn on(archive: &Archive, tensor: &Tensor) -> Option<String> {
    tensor.reference.as_ref().map(|reference| archive.describe_reference(reference))
}

fn file_json(path: &Path, archive: &Archive, tensors: &[Tensor]) -> Value {
    let notes = archive.base_notes(tensors);
    let pairs = tensors.iter().zip(notes);
    let tensors: Vec<Value> =
        pairs.map(|(tensor, note)| tensor_json(archive, tensor, note)).collect();
    json!({
        "file": path.to_string_lossy(),
        "safetensors": archive.is_safetensors(),
        "original_bytes": archive.original_len(),
        "file_bytes": archive.file_len(),
        "coded_as": coded_as(archive).into_iter().collect::<BTreeMap<_, _>>(),
        "content_hash": format!("{:032x}", archive.content_hash()),
        "bases": bases::json(archive),
        "tensors": tensors,
    })
}

fn tensor_json(archive: &Archive, tensor: &Tensor, note: Option<String>) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "offset": tensor.range.start,
        "bytes": tensor.range.end - tensor.range.start,
        "coded_bytes": tensor.coded_len,
        "recipe": tensor.recipe,
        "on": on(archive, tensor),
        "note": note,
        "hash": format!("{:032x}", tensor.hash),
    })
}
