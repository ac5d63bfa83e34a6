//! `lmc ls`: the files of a snapshot, or the tensors of one of them.

use std::sync::Arc;

use lmc::ArchiveTensor;
use lmc_store::{Manifest, ManifestEntry, Node, RelPath, Store, rfc3339};
use serde_json::{Value, json};

use super::{size_text, with_store};
use crate::args::store::LsArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::print;
use crate::table::{Align, Table, ratio, shape};

/// Lists what `args` names.
pub fn run(args: &LsArgs) -> Exit {
    with_store(&args.store, |store| {
        let name = store.find(&args.snapshot.name)?;
        let manifest = Arc::new(store.manifest(&name)?);
        match &args.file {
            Some(file) => tensors(store, &manifest, file, args.format.json),
            None => files(&manifest, args.format.json),
        }
    })
}

fn files(manifest: &Manifest, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let depths = manifest.depths();
        let entries = manifest.entries.iter().map(|entry| entry_json(manifest, &depths, entry));
        return print(Printable::json(&entries.collect()));
    }
    let mut table = Table::new(&[
        ("mode", Align::Left),
        ("kind", Align::Left),
        ("size", Align::Right),
        ("stored", Align::Right),
        ("path", Align::Left),
    ]);
    for entry in &manifest.entries {
        let path = entry.path.to_string();
        let row = match &entry.node {
            Node::File(file) => {
                let stored = manifest.archives[file.archive].stored;
                let mode = format!("{:03o}", file.mode);
                [mode, file.kind.name().into(), size_text(file.size), size_text(stored), path]
            }
            Node::Directory { mode } => {
                [format!("{mode:03o}"), "folder".into(), "".into(), "".into(), format!("{path}/")]
            }
            Node::Link { target } => {
                let target = String::from_utf8_lossy(&target.0);
                ["".into(), "link".into(), "".into(), "".into(), format!("{path} -> {target}")]
            }
        };
        table.push(row.to_vec());
    }
    print(table)
}

fn entry_json(manifest: &Manifest, depths: &[usize], entry: &ManifestEntry) -> Value {
    let mut value = json!({"path": entry.path.to_string()});
    match &entry.node {
        Node::File(file) => {
            let archive = &manifest.archives[file.archive];
            let (seconds, _) = file.mtime;
            value["type"] = "file".into();
            value["mode"] = file.mode.into();
            value["kind"] = file.kind.name().into();
            value["bytes"] = file.size.into();
            value["stored_bytes"] = archive.stored.into();
            value["chain_depth"] = depths[file.archive].into();
            value["content_hash"] = format!("{:032x}", archive.hash).into();
            value["modified"] =
                rfc3339(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)).into();
        }
        Node::Directory { mode } => {
            value["type"] = "directory".into();
            value["mode"] = (*mode).into();
        }
        Node::Link { target } => {
            value["type"] = "link".into();
            value["target"] = String::from_utf8_lossy(&target.0).into_owned().into();
        }
    }
    value
}

fn tensors(
    store: &Store,
    manifest: &Arc<Manifest>,
    file: &str,
    as_json: bool,
) -> Result<(), Failure> {
    let path = RelPath::new(file.as_bytes())?;
    let tensors = store.archive(manifest, &path)?.tensors()?;
    if as_json {
        let tensor = |tensor: &ArchiveTensor| {
            json!({
                "name": tensor.name,
                "dtype": tensor.dtype.label(),
                "shape": tensor.shape,
                "bytes": tensor.range.end - tensor.range.start,
                "coded_bytes": tensor.coded_len,
                "recipe": &*tensor.recipe,
                "hash": tensor.hash.map(|hash| format!("{hash:032x}")),
            })
        };
        return print(Printable::json(&tensors.iter().map(tensor).collect()));
    }
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("dtype", Align::Left),
        ("shape", Align::Left),
        ("size", Align::Right),
        ("ratio", Align::Right),
        ("recipe", Align::Left),
    ]);
    for tensor in &tensors {
        let len = tensor.range.end - tensor.range.start;
        table.push(vec![
            tensor.name.clone(),
            tensor.dtype.label().to_string(),
            shape(&tensor.shape),
            size_text(len),
            ratio(len, tensor.coded_len),
            tensor.recipe.to_string(),
        ]);
    }
    match tensors.is_empty() {
        true => print(Printable::line("no tensors are known in it")),
        false => print(table),
    }
}
