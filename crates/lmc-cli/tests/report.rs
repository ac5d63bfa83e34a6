//! `lmc report`: what is printed and written, and exit codes.

use crate::common::{Folder, code, stderr, text, weights};
use serde_json::Value;
use std::path::{Path, PathBuf};

const STORE: [&str; 2] = ["--store", "store"];

/// A store with two runs: three steps, and one of another run.
fn scene() -> Folder {
    let folder = Folder::new();
    folder.ok(&["init", "store"]);
    for (run, step) in [("r", 10), ("r", 20), ("s <b>&\u{202e}", 7), ("r", 30)] {
        let path = format!("checkpoint-{step}");
        folder.write(&format!("{path}/model.bin"), &weights(20_000, step));
        folder.write(&format!("{path}/config.json"), b"{}");
        folder.ok(&["save", &path, "--run", run, "--store", "store"]);
    }
    folder.ok(&["tag", "r@20", "</script>", "eval", "--store", "store"]);
    folder
}

fn json(folder: &Folder, args: &[&str]) -> Value {
    let output = folder.lmc(&[args, &STORE, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn report(folder: &Folder, args: &[&str]) -> (i32, String, String) {
    let output = folder.lmc(&[&["report"], args, &STORE].concat());
    (code(&output), stderr(&output), text(output.stdout))
}

/// Files below a folder, except the markers.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| !path.ends_with(".folder"));
    paths.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Every field of the schema is there, and the sums are those of `lmc stats`.
#[test]
fn the_json_has_its_schema() {
    let folder = scene();
    let report = json(&folder, &["report"]);
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let fields = ["checked", "damage", "retention", "runs", "schema", "store", "totals", "version"];
    assert_eq!(keys(&report), fields);
    assert_eq!((&report["schema"], &report["store"]), (&Value::from(1), &Value::from("store")));
    assert_eq!(report["totals"], json(&folder, &["stats"]));
    assert!(report["checked"].is_null() && report["damage"].as_array().unwrap().is_empty());
    let runs = report["runs"].as_array().unwrap();
    assert_eq!((&runs[0]["run"], &runs[1]["run"]), (&"r".into(), &"s <b>&\u{202e}".into()));
    let own = runs[0]["snapshots"].as_array().unwrap();
    let steps: Vec<u64> = own.iter().map(|own| own["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [10, 20, 30]);
    let fields = [
        "added_bytes",
        "bases",
        "bytes",
        "damage",
        "depth",
        "files",
        "id",
        "reused_bytes",
        "saved_coding",
        "saved_delta",
        "saved_reuse",
        "step",
        "tags",
        "time",
        "whole_bytes",
    ];
    assert_eq!(keys(&own[1]), fields);
    assert_eq!(own[1]["tags"], serde_json::json!(["</script>", "eval"]));
    assert_eq!((&own[1]["files"], &own[1]["reused_bytes"]), (&2.into(), &2.into()));
    assert!(own[1]["time"].as_str().unwrap().ends_with('Z') && own[1]["damage"].is_null());
    let all = runs.iter().flat_map(|run| run["snapshots"].as_array().unwrap());
    let added: u64 = all.map(|own| own["added_bytes"].as_u64().unwrap()).sum();
    assert_eq!(added, report["totals"]["pack_bytes"]);
    let rules: Vec<&Value> =
        report["retention"].as_array().unwrap().iter().map(|rule| &rule["rule"]).collect();
    assert_eq!(rules, ["--keep-last 1", "--keep-last 3", "--keep-last 10"]);
    assert_eq!(report["retention"][0]["snapshots_removed"], 2);
}

/// A rule that is given is the one that is tried, and it frees what `forget` and `prune` free.
#[test]
fn a_rule_is_tried() {
    let folder = scene();
    let args = ["--keep-last", "1", "--keep-tag", "</script>", "--keep-tag", "none"];
    let report = json(&folder, &[&["report"], &args[..]].concat());
    let retention = report["retention"].as_array().unwrap();
    assert_eq!(retention.len(), 1);
    let rule = "--keep-last 1 --keep-tag '</script>' --keep-tag none";
    assert_eq!(
        (&retention[0]["rule"], &retention[0]["snapshots_removed"]),
        (&rule.into(), &1.into())
    );
    let (_, said, shown) = self::report(&folder, &args);
    assert!(said.contains("no snapshot has the tag none"), "{said}");
    assert!(shown.contains("--keep-tag '</script>'"), "{shown}");
    assert_eq!(report["totals"]["snapshots"], 4);
    folder.ok(&[&["forget"], &args[..], &STORE].concat());
    let pruned = json(&folder, &["prune", "--grace", "0"]);
    assert_eq!(pruned["bytes"], retention[0]["freed_bytes"]);
}

/// The summary has a line for each run, each of the newest snapshots and each rule.
#[test]
fn the_summary() {
    let folder = scene();
    let (exit, said, shown) = report(&folder, &[]);
    assert_eq!((exit, said.as_str()), (0, ""));
    for wanted in ["r ", "10 to 30", "s <b>&\\u{202e}", "--keep-last 3", "packs", "restore reads"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    folder.ok(&["init", "empty"]);
    let shown = text(folder.ok(&["report", "--check", "--store", "empty"]));
    assert!(shown.ends_with("no snapshots\nchecked names and sizes: no damage\n"), "{shown}");
    let empty: Value =
        serde_json::from_slice(&folder.ok(&["report", "--json", "--store", "empty"])).unwrap();
    assert!(empty["runs"].as_array().unwrap().is_empty());
}

/// Damage is named and ends with 4, however much was looked at, and the page is written all the
/// same.
#[test]
fn damage_is_told() {
    let folder = scene();
    let checked = |args: &[&str]| json(&folder, &[&["report"], args].concat());
    assert_eq!(checked(&["--check"])["checked"], "names and sizes");
    assert_eq!(checked(&["--read-data"])["checked"], "every byte");
    let log = json(&folder, &["log", "-n", "1"]);
    let manifest = json(&folder, &["prune", "-n"]);
    assert_eq!(manifest["packs"].as_array().unwrap().len(), 0);
    let packs = walk(&folder.path("store/packs"));
    let newest = packs.iter().max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let pack = newest.unwrap();
    let mut bytes = std::fs::read(pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(pack, &bytes).unwrap();
    assert_eq!(report(&folder, &["--check"]).0, 0);
    let (exit, said, shown) = report(&folder, &["--read-data", "--html", "page.html"]);
    assert_eq!(exit, 4, "{said}");
    assert!(said.contains("lmc repair") && said.lines().count() == 1, "{said}");
    assert!(shown.contains("damaged: packs/") && shown.contains("affected: "), "{shown}");
    assert!(text(folder.read("page.html")).contains("packs/"));
    let data = checked(&["--read-data"]);
    assert_eq!(data["damage"].as_array().unwrap().len(), 1);
    let own = data["runs"][0]["snapshots"].as_array().unwrap();
    let hurt: Vec<bool> = own.iter().map(|own| !own["damage"].is_null()).collect();
    assert_eq!(hurt, [false, false, true]);
    assert_eq!(own[2]["id"], log[0]["id"]);
    assert!(own[2]["damage"][0].as_str().unwrap().starts_with("model.bin"));
    // A manifest is looked at in any case.
    let manifest = walk(&folder.path("store/snapshots/r")).remove(0);
    std::fs::write(&manifest, b"rot").unwrap();
    let (exit, _, shown) = report(&folder, &[]);
    assert!(exit == 4 && shown.contains("damaged: snapshots/r/"), "{exit} {shown}");
    let data = checked(&[]);
    let own = data["runs"][0]["snapshots"].as_array().unwrap();
    let unknown = own.iter().find(|own| !own["damage"].is_null()).expect("the damaged one");
    assert!(unknown["files"].is_null() && unknown["bytes"].as_u64().unwrap() > 40_000);
    assert!(data["retention"][1]["freed_bytes"].is_null());
}

/// The page appears whole or not at all, and no file is overwritten without -f.
#[test]
fn the_page_is_written_whole() {
    let folder = scene();
    let page = ["--html", "page.html"];
    let (exit, said, shown) = report(&folder, &page);
    assert_eq!(exit, 0, "{said}");
    assert!(shown.ends_with("the page is page.html\n"), "{shown}");
    let written = text(folder.read("page.html"));
    assert!(written.to_lowercase().starts_with("<!doctype html>"), "{written}");
    assert!(!written.contains("s <b>") && !written.contains("\"</script>"), "{written}");
    folder.write("page.html", b"mine");
    for args in [&page[..], &["--html", "page.html", "-f"]] {
        let (exit, said, _) = report(&folder, args);
        assert_eq!((exit, folder.read("page.html")), (1, b"mine".to_vec()), "{said}");
    }
    folder.write("page.html", b"<!DOCTYPE html> mine");
    let (_, said, _) = report(&folder, &page);
    assert!(said.contains("page.html") && said.contains("-f"), "{said}");
    assert_eq!(report(&folder, &[&page[..], &["-f"]].concat()).0, 0);
    assert_eq!(text(folder.read("page.html")), written);
    let names = folder.names();
    for (args, wanted) in [
        (&["--html", "-"][..], 2),
        (&["-f"], 2),
        (&["--html", "nowhere/page.html"], 1),
        (&["--html", "store/page.html"], 2),
        (&["--html", "store/packs/page.html"], 2),
        (&["--html", "checkpoint-10", "-f"], 1),
        (&["--html", "new.html", "--keep-every", "0"], 2),
    ] {
        assert_eq!(report(&folder, args).0, wanted, "{args:?}");
    }
    assert_eq!(code(&folder.lmc(&["report", "--html", "new.html", "--store", "none"])), 10);
    // A failure on the way leaves nothing.
    std::fs::rename(folder.path("store/packs"), folder.path("store/away")).unwrap();
    assert_eq!(report(&folder, &["--html", "new.html"]).0, 4);
    assert_eq!(folder.names(), names);
}

/// Thinned and rebased snapshots are reported as they are now.
#[test]
fn snapshots_that_were_replaced() {
    let folder = Folder::new();
    folder.ok(&["init", "store"]);
    for step in ["1", "2", "3"] {
        let path = format!("ck-{step}");
        folder.write(&format!("{path}/model.bin"), &weights(20_000, 1));
        folder.write(&format!("{path}/optimizer.pt"), step.repeat(9000).as_bytes());
        folder.ok(&["save", &path, "--store", "store"]);
    }
    folder.ok(&["forget", "--keep-optimizer-last", "1", "--store", "store"]);
    folder.ok(&["rebase", "main@3", "--store", "store"]);
    let report = json(&folder, &["report", "--read-data"]);
    let own = report["runs"][0]["snapshots"].as_array().unwrap();
    let files: Vec<u64> = own.iter().map(|own| own["files"].as_u64().unwrap()).collect();
    assert_eq!(files, [1, 1, 2]);
    assert!(report["totals"]["unneeded_bytes"].as_u64().unwrap() > 0);
    assert_eq!(report["checked"], "every byte");
}
