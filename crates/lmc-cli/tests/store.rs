//! The commands of a store from end to end: what is printed, exit codes, and the bytes.

mod common;

use common::{Folder, code, stderr, text};
use serde_json::Value;

/// A store, two steps of a run in it, and the folder they are in.
fn scene() -> Folder {
    let folder = Folder::new();
    assert_eq!(code(&folder.lmc(&["init", "store"])), 0);
    for step in ["9", "10"] {
        folder.write(&format!("checkpoint-{step}/model.bin"), step.repeat(5000).as_bytes());
        folder.write(&format!("checkpoint-{step}/optimizer.pt"), step.as_bytes());
        folder.write(&format!("checkpoint-{step}/config.json"), b"{}");
        let path = format!("checkpoint-{step}");
        let save = ["save", &path, "--store", "store", "--run", "r", "--tag", "all"];
        assert_eq!(code(&folder.lmc(&save)), 0);
    }
    folder
}

fn json(folder: &Folder, args: &[&str]) -> Value {
    let output = folder.lmc(&[args, &["--store", "store", "--json"]].concat());
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_str(&text(output.stdout)).expect("JSON")
}

/// Saved, listed, shown and restored.
#[test]
fn there_and_back() {
    let folder = scene();
    let log = json(&folder, &["log"]);
    let steps: Vec<u64> =
        log.as_array().unwrap().iter().map(|name| name["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [9, 10]);
    assert_eq!(json(&folder, &["snapshots", "-n", "1"])[0]["tags"][0], "all");
    let shown = json(&folder, &["show", "r@10"]);
    assert_eq!((&shown["parent"], &shown["entries"]), (&log[0]["id"], &Value::from(3)));
    assert_eq!(json(&folder, &["ls", "latest"])[1]["path"], "model.bin");
    let id = log[0]["id"].as_str().unwrap();
    json(&folder, &["restore", &id[..8], "out"]);
    assert_eq!(folder.read("out/model.bin"), folder.read("checkpoint-9/model.bin"));
    json(&folder, &["restore", "latest", "weights", "--weights-only"]);
    assert!(folder.exists("weights/config.json") && !folder.exists("weights/optimizer.pt"));
    json(&folder, &["restore", "r@latest", "only", "--only", "*.json"]);
    assert!(folder.exists("only/config.json") && !folder.exists("only/model.bin"));
}

/// What deletes has a dry run, and what is kept is whole afterwards.
#[test]
fn housekeeping() {
    let folder = scene();
    let dry = json(&folder, &["forget", "--keep-last", "1", "-n"]);
    assert_eq!(dry["forgotten"][0]["step"], 9);
    assert_eq!(json(&folder, &["log"]).as_array().unwrap().len(), 2);
    json(&folder, &["forget", "--keep-last", "1"]);
    assert_eq!(json(&folder, &["log"]).as_array().unwrap().len(), 1);
    assert_eq!(json(&folder, &["prune", "-n"])["snapshots"][0]["step"], 9);
    json(&folder, &["prune", "--grace", "0s"]);
    assert!(
        json(&folder, &["check", "--read-data"])["damaged_packs"].as_array().unwrap().is_empty()
    );
    json(&folder, &["rebase", "latest"]);
    assert_eq!(json(&folder, &["tag", "latest", "best", "--remove", "all"])["tags"][0], "best");
    assert_eq!(json(&folder, &["stats"])["snapshots"], 1);
    json(&folder, &["restore", "latest", "out"]);
    assert_eq!(folder.read("out/model.bin"), folder.read("checkpoint-10/model.bin"));
    json(&folder, &["export", "latest", "-o", "export"]);
    assert_eq!(code(&folder.lmc(&["decompress", "export", "-o", "again"])), 0);
    assert_eq!(folder.read("again/model.bin"), folder.read("checkpoint-10/model.bin"));
}

/// Optimizer state is left out of older snapshots alone, and `show` says so.
#[test]
fn thinning() {
    let folder = scene();
    let thin = ["forget", "--keep-optimizer-last", "1", "-n"];
    assert_eq!(json(&folder, &thin)["thinned"][0]["step"], 9);
    assert_eq!(json(&folder, &["show", "r@9"])["thinned"], false);
    assert!(json(&folder, &thin[..3])["forgotten"].as_array().unwrap().is_empty());
    assert_eq!(json(&folder, &["show", "r@9"])["thinned"], true);
    assert_eq!(json(&folder, &["show", "r@10"])["thinned"], false);
    json(&folder, &["restore", "r@9", "out"]);
    assert!(folder.exists("out/model.bin") && !folder.exists("out/optimizer.pt"));
    assert!(json(&folder, &thin)["thinned"].as_array().unwrap().is_empty());
}

/// Snapshots are compared by the command that compares files.
#[test]
fn differences() {
    let folder = scene();
    let diff = json(&folder, &["diff", "r@9", "r@10"]);
    assert_eq!(diff["same"][0], "config.json");
    assert_eq!(diff["changed"].as_array().unwrap().len(), 2);
    let (old, new) = ("checkpoint-9/model.bin", "checkpoint-10/model.bin");
    assert_eq!(code(&folder.lmc(&["diff", old, new])), 0);
}

/// Copied to another store, damaged here, and repaired from there.
#[test]
fn copies_repair() {
    let folder = scene();
    assert_eq!(code(&folder.lmc(&["init", "--store", "other"])), 0);
    assert_eq!(code(&folder.lmc(&["copy", "store", "other"])), 0);
    let manifest = json(&folder, &["check", "--read-data"]);
    assert_eq!(manifest["packs_read"], manifest["packs"]);
    let pack = walk(&folder.path("store/packs")).remove(0);
    std::fs::write(&pack, b"rot").unwrap();
    let check = ["check", "--store", "store", "--read-data-subset", "100%"];
    assert_eq!(code(&folder.lmc(&check)), 4);
    assert_eq!(code(&folder.lmc(&["repair", "--store", "store"])), 4);
    assert_eq!(code(&folder.lmc(&["repair", "--store", "store", "--from", "other"])), 0);
    assert_eq!(code(&folder.lmc(&check)), 0);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// 10 where there is no store, 1 for what is not there, 2 for wrong use.
#[test]
fn exit_codes() {
    let folder = scene();
    let with = |args: &[&str]| code(&folder.lmc(&[args, &["--store", "store"]].concat()));
    assert_eq!(code(&folder.lmc(&["log", "--store", "nowhere"])), 10);
    assert_eq!(code(&folder.lmc(&["init", "store"])), 1);
    assert_eq!(with(&["show", "ffffffff"]), 1);
    assert_eq!(with(&["restore", "latest", "checkpoint-9"]), 1);
    assert_eq!(with(&["forget"]), 2);
    assert_eq!(with(&["prune", "--grace", "soon"]), 2);
    assert_eq!(with(&["save", "missing"]), 1);
    let output = folder.lmc(&["log"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}

/// A save whose stdout cannot be written to fails, and says that the snapshot is there.
#[test]
fn a_save_that_cannot_print_says_that_it_saved() {
    let folder = Folder::new();
    folder.write("x", b"x");
    folder.ok(&["init", "store"]);
    for format in [&[][..], &["--json"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let args = [&["save", "x", "--store", "store"], format].concat();
        let output = common::command(&folder.path(""), &args).stdout(full).output().expect("lmc");
        assert_eq!(code(&output), 1);
        let log = common::text(folder.ok(&["log", "--json", "--store", "store"]));
        let log: Value = serde_json::from_str(&log).expect("JSON");
        let ids = log.as_array().expect("snapshots").iter().filter_map(|one| one["id"].as_str());
        let said = common::stderr(&output);
        assert!(ids.into_iter().any(|id| said.contains(&id[..8])), "{said}");
        assert!(said.contains("saved"), "{said}");
    }
}
