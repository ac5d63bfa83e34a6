//! Files of every format that their own libraries wrote, found out completely.

use crate::made::{contents_of, dcp_contents_of};
use lmc_input::{Contents, Data, TensorInfo, dcp_items};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// `LMC_INPUT_FILES` names a folder that the program in `real/` filled.
#[test]
#[ignore = "needs files of other libraries, in LMC_INPUT_FILES"]
fn files_that_libraries_describe() {
    let folder = env::var_os("LMC_INPUT_FILES").expect("LMC_INPUT_FILES names a folder");
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for path in paths(Path::new(&folder)) {
        let list = path.with_added_extension("json");
        let Ok(list) = fs::read(&list) else { continue };
        let list: serde_json::Value = serde_json::from_slice(&list).expect("JSON");
        let file = fs::read(&path).expect("a file");
        let name = path.display();
        let found = found_in(&path, &file);
        assert_eq!(found.format.label(), list["format"], "{name}: {:?}", found.note);
        assert!(found.is_complete, "{name}: {:?}", found.note);
        let tensors = list["tensors"].as_array().expect("a list");
        for expected in tensors {
            compare(&file, &found, expected, &name.to_string());
        }
        let described = found.tensors.len() + found.others.len();
        assert_eq!(described, tensors.len(), "{name}: {:?}", found.tensors);
        compare_data(&found, &name.to_string());
        let count = counts.entry(found.format.label().into()).or_default();
        count[0] += 1;
        count[1] += found.tensors.len();
        count[2] += found.others.len();
    }
    for (label, [files, tensors, others]) in counts {
        println!("{label}: {files} files, {tensors} tensors, {others} that are no ranges");
    }
}

/// Tensors are in data, and data that a tensor covers is called after it and has its type.
fn compare_data(found: &Contents, file_name: &str) {
    for tensor in &found.tensors {
        let Range { start, end } = tensor.range;
        let is_around = |data: &&Data| data.range.start <= start && end <= data.range.end;
        assert!(start == end || found.data.iter().any(|data| is_around(&data)), "{file_name}");
    }
    for data in &found.data {
        let covering: Vec<_> = found.tensors.iter().filter(|t| t.range == data.range).collect();
        let is_it = |t: &&TensorInfo| {
            t.name == data.name && Some(t.dtype) == data.dtype && t.shape == data.shape
        };
        assert!(covering.is_empty() || covering.iter().any(is_it), "{file_name}: {data:?}");
    }
}

/// The files in a folder, and in those in it.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { paths(&path) } else { vec![path] }).collect()
}

/// The contents of a file; those of torch.distributed.checkpoint have names elsewhere.
fn found_in(path: &Path, file: &[u8]) -> Contents {
    let found = contents_of(file);
    let metadata = fs::read(path.with_file_name(".metadata"));
    let Some(metadata) = metadata.ok().filter(|_| path.extension() == Some("distcp".as_ref()))
    else {
        return found;
    };
    let items = dcp_items(&metadata).expect("metadata");
    let items: Vec<_> = items.into_iter().filter(|item| path.ends_with(&item.path)).collect();
    let named = dcp_contents_of(file, &items);
    let ranges = |found: &Contents| -> Vec<_> {
        found.data.iter().map(|data| (data.range.clone(), data.dtype, data.row_len)).collect()
    };
    assert_eq!(ranges(&found), ranges(&named), "{}", path.display());
    assert!(named.data.iter().all(|data| !data.name.starts_with("item ")), "{named:?}");
    named
}

fn compare(file: &[u8], found: &Contents, expected: &serde_json::Value, file_name: &str) {
    let name = expected["name"].as_str().expect("a name");
    let shape = expected["shape"].as_array().expect("a shape");
    let shape: Vec<u64> = shape.iter().filter_map(|n| n.as_u64()).collect();
    let Some(bytes) = expected["bytes"].as_str() else {
        let other = found.others.iter().find(|t| t.name == name);
        let other = other.unwrap_or_else(|| panic!("{file_name}: {name} is missing"));
        let dtype = other.dtype.map(|dtype| dtype.name());
        assert_eq!((dtype, &other.shape), (expected["dtype"].as_str(), &shape), "{file_name}");
        assert_eq!(format!("{:?}", other.reason), expected["reason"], "{file_name}: {name}");
        return;
    };
    let tensor = found.tensors.iter().find(|t| t.name == name);
    let tensor =
        tensor.unwrap_or_else(|| panic!("{file_name}: {name} is a range: {:?}", found.others));
    let form = (tensor.dtype.name(), &tensor.shape);
    assert_eq!(form, (expected["dtype"].as_str().expect("a type"), &shape), "{file_name}: {name}");
    let range = tensor.range.start as usize..tensor.range.end as usize;
    let found_bytes: String = file[range].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found_bytes, bytes, "{file_name}: {name}");
}
