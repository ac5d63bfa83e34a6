//! `lmc show`: what is known about a snapshot.

use std::collections::BTreeMap;

use lmc_store::{ContentKind, Manifest, Node, SnapshotName, Store};
use serde_json::{Value, json};

use super::{name_json, size_text, time_text, with_store};
use crate::args::store::ShowArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};

/// Shows the snapshot that `args` names.
pub fn run(args: &ShowArgs) -> Exit {
    with_store(&args.store, |store| show(store, args))
}

fn show(store: &Store, args: &ShowArgs) -> Result<(), Failure> {
    let name = store.find(&args.snapshot.name)?;
    let manifest = store.manifest(&name)?;
    let tags = store.tags()?.remove(&name.id).unwrap_or_default();
    let json = || {
        let mut value = json(&name, &manifest);
        value["tags"] = json!(tags);
        value
    };
    let listed: Vec<&str> = tags.iter().map(String::as_str).collect();
    tell(Effect::Looked, text(&name, &manifest, &listed.join(", ")), args.format.json.then(json))
}

/// For each kind: the number of files, their bytes, and the bytes of their own archives.
fn kinds(manifest: &Manifest) -> BTreeMap<ContentKind, (u64, u64, u64)> {
    let mut kinds: BTreeMap<ContentKind, (u64, u64, u64)> = BTreeMap::new();
    for (_, file) in manifest.files() {
        let kind = kinds.entry(file.kind).or_default();
        kind.0 += 1;
        kind.1 += file.size;
        // Several files may share one archive.
        kind.2 = kind.2.saturating_add(manifest.archives[file.archive].stored);
    }
    kinds
}

fn json(name: &SnapshotName, manifest: &Manifest) -> Value {
    let kinds: BTreeMap<&str, Value> = kinds(manifest)
        .into_iter()
        .map(|(kind, (files, bytes, stored))| {
            (kind.name(), json!({"files": files, "bytes": bytes, "stored_bytes": stored}))
        })
        .collect();
    let (depth, read) = manifest.reading();
    let mut value = name_json(name);
    value["parent"] = json!(manifest.parent);
    value["meta"] = json!(manifest.meta);
    value["kinds"] = json!(kinds);
    value["thinned"] = manifest.is_thinned.into();
    value["entries"] = manifest.entries.len().into();
    value["archives"] = manifest.archives.len().into();
    value["packs"] = manifest.packs.len().into();
    value["chain_depth"] = depth.into();
    value["restore_reads_bytes"] = read.into();
    value
}

fn text(name: &SnapshotName, manifest: &Manifest, tags: &str) -> Printable {
    let mut text = Printable::default();
    let mut line = |label: &str, value: String| text.push_line(format_args!("{label:<10}{value}"));
    line("snapshot", name.id.clone());
    line("run", name.run.clone());
    line("step", name.step.to_string());
    line("time", time_text(name.time_ms));
    line("parent", manifest.parent.as_deref().unwrap_or("none").to_string());
    if !tags.is_empty() {
        line("tags", tags.to_string());
    }
    for (key, value) in &manifest.meta {
        line("meta", format!("{key}={value}"));
    }
    line("size", size_text(name.size));
    line("added", size_text(name.added));
    for (kind, (files, bytes, stored)) in kinds(manifest) {
        let (bytes, stored) = (size_text(bytes), size_text(stored));
        line(kind.name(), format!("{files} files, {bytes} in {stored}"));
    }
    if manifest.is_thinned {
        line("optimizer", "left out by forget".to_string());
    }
    let folders = |entry: &&lmc_store::ManifestEntry| matches!(entry.node, Node::Directory { .. });
    let (depth, read) = manifest.reading();
    line("folders", manifest.entries.iter().filter(folders).count().to_string());
    line("restore", format!("reads {} in chains of up to {depth} deltas", size_text(read)));
    text
}
