//! `lmc list`: the tensors in .lmc files, as a table or as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use lmc::{Archive, Tensor};
use serde_json::{Value, json};

use crate::args::ListArgs;
use crate::exit::{self, Exit, Failure};
use crate::names;
use crate::stdio::print;
use crate::table::{Align, Table, ratio};

/// Lists every file; JSON is one array, printed when all files have been read.
pub fn run(args: &ListArgs) -> Exit {
    let files = names::archives(&args.files);
    let mut listed: Vec<Value> = Vec::new();
    let exit = exit::for_each(&files, |path| {
        let archive = Archive::open(path)?;
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
    match print(format!("{:#}\n", Value::from(listed))) {
        Ok(()) => exit,
        Err(failure) => exit::report("stdout".as_ref(), Err(failure)),
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
    ]);
    for tensor in tensors {
        let len = tensor.range.end - tensor.range.start;
        table.push(vec![
            printable(&tensor.name),
            tensor.dtype.clone(),
            shape(&tensor.shape),
            len.to_string(),
            ratio(len, tensor.coded_len),
            tensor.recipe.clone(),
        ]);
    }
    let (original, coded) = (archive.original_len(), archive.file_len());
    let total = format!(
        "{}: {}, {original} bytes in {coded}, {}x\n",
        path.display(),
        kind(archive, tensors),
        ratio(original, coded),
    );
    if tensors.is_empty() { print(total) } else { print(format!("{table}{total}")) }
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

/// A name that cannot steer the terminal: control characters are escaped.
fn printable(name: &str) -> String {
    let escape = |c: char| -> String {
        if c.is_control() { c.escape_default().collect() } else { c.to_string() }
    };
    name.chars().map(escape).collect()
}

fn shape(dimensions: &[u64]) -> String {
    let dimensions: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    format!("[{}]", dimensions.join(", "))
}

fn file_json(path: &Path, archive: &Archive, tensors: &[Tensor]) -> Value {
    let tensors: Vec<Value> = tensors.iter().map(tensor_json).collect();
    json!({
        "file": path.to_string_lossy(),
        "safetensors": archive.is_safetensors(),
        "original_bytes": archive.original_len(),
        "file_bytes": archive.file_len(),
        "coded_as": coded_as(archive).into_iter().collect::<BTreeMap<_, _>>(),
        "content_hash": format!("{:032x}", archive.content_hash()),
        "tensors": tensors,
    })
}

fn tensor_json(tensor: &Tensor) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "offset": tensor.range.start,
        "bytes": tensor.range.end - tensor.range.start,
        "coded_bytes": tensor.coded_len,
        "recipe": tensor.recipe,
        "hash": format!("{:032x}", tensor.hash),
    })
}
