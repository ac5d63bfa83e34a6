//! `lmc analyze`: what is read as a series, what is left out, and what is printed. The figures are
//! compared with numpy in `crates/lmc-py/tests/test_analyze.py`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Folder, checkpoint, code, noise, pair, safetensors, stderr, text, weights};

/// A checkpoint of one bf16 matrix, different for each step.
fn state(step: u64) -> Vec<u8> {
    safetensors(&[("layers.0.w", "BF16", &[64, 512], &changed(step))])
}

/// The matrix: some of its low bits differ from step to step.
fn changed(step: u64) -> Vec<u8> {
    let mut bytes = weights(64 * 512, 1);
    let flips = noise(bytes.len(), step);
    bytes.iter_mut().zip(flips).step_by(2).for_each(|(byte, flip)| *byte ^= flip & 3);
    bytes
}

/// The JSON of a run that succeeds.
fn report(folder: &Folder, args: &[&str]) -> Value {
    let args = [&["analyze", "--json"], args].concat();
    serde_json::from_slice(&folder.ok(&args)).expect("JSON")
}

/// The JSON of a run that leaves something out, and its messages.
fn partial(folder: &Folder, args: &[&str]) -> (Value, String) {
    let output = folder.lmc(&[&["analyze", "--json"], args].concat());
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    let messages = stderr(&output);
    (serde_json::from_slice(&output.stdout).expect("JSON"), messages)
}

/// A field of each entry of a list.
fn column(value: &Value, list: &str, field: &str) -> Vec<Value> {
    let entries = value[list].as_array().expect("a list");
    entries.iter().map(|entry| entry[field].clone()).collect()
}

/// Files that differ in a number are a series in the order of the numbers, and each is compared
/// with those 1, 2 and 4 before it.
#[test]
fn files_of_steps() {
    let folder = Folder::new();
    for step in [9, 10, 100, 1000, 1001] {
        folder.write(&format!("run/w-{step}.safetensors"), &state(step));
    }
    folder.write("run/config.json", b"{}");
    let found = report(&folder, &["run"]);
    assert_eq!(column(&found, "checkpoints", "step"), [9, 10, 100, 1000, 1001]);
    assert_eq!(column(&found, "checkpoints", "name")[0], "w-9");
    assert_eq!(column(&found, "pairs", "distance"), [1, 1, 2, 1, 2, 1, 2, 4]);
    assert_eq!(column(&found, "pairs", "steps"), [1, 90, 91, 900, 990, 1, 901, 992]);
    assert_eq!(column(&found, "tensors", "name"), ["layers.0.w"]);
    assert_eq!(column(&found, "tensors", "kind"), ["layers.*.w"]);
    assert_eq!(found["skipped"], json!([]));
    assert_eq!(found["title"], "run");
    let total = &found["checkpoints"][0]["total"];
    assert_eq!((&total["values"], &total["bytes"]), (&json!(32768), &json!(65536)));
    assert_eq!(total["counted"], total["values"]);
    // The same checkpoints by name, in another order and without a directory.
    let reversed = report(&folder, &["run/w-1001.safetensors", "run/w-9.safetensors"]);
    assert_eq!(column(&reversed, "checkpoints", "step"), [1001, 9]);
    assert_eq!(column(&reversed, "pairs", "steps"), [-992]);
    assert_eq!(reversed["title"], "run/w-1001.safetensors to run/w-9.safetensors");
}

/// Folders that differ in a number are a series, whatever they are in; shards are one checkpoint.
/// What is hidden, not finished or a second name of something is left out without a word, and a
/// pipe is never opened.
#[test]
fn folders_of_steps() {
    let folder = Folder::new();
    for step in [1, 2] {
        let parts: &[usize] = if step == 1 { &[1, 2] } else { &[1, 2, 3] };
        for part in parts {
            let name = format!("w.{}", if *part == 3 { 1 } else { *part });
            let tensors = [(&*name, "BF16", &[64, 512][..], &changed(step)[..])];
            let tensors = if step == 2 && *part == 1 { &[][..] } else { &tensors[..] };
            let path = format!("out/run/step-{step}/a/model-0000{part}-of-00003.safetensors");
            folder.write(&path, &safetensors(tensors));
        }
        folder.write(&format!("out/run/step-{step}/config.json"), b"{}");
    }
    folder.write("out/run/.cache/step-3/a.safetensors", &state(3));
    folder.write("out/run/tmp-step-3/a.safetensors", &state(3));
    folder.write("out/run/step-2/a.safetensors.tmp", b"half");
    std::os::unix::fs::symlink("step-2", folder.path("out/run/latest")).expect("a link");
    let found = report(&folder, &["out"]);
    assert_eq!(column(&found, "checkpoints", "name"), ["step-1", "step-2"]);
    assert_eq!(column(&found, "checkpoints", "files"), [3, 4]);
    assert_eq!(column(&found, "tensors", "name"), ["w.1", "w.2"]);
    let pair = &found["pairs"][0];
    assert_eq!((&pair["only_new"], &pair["only_base"]), (&json!([]), &json!([])));
    assert_eq!(pair["total"]["compared"], 2 * 32768);

    let made = Command::new("mkfifo").arg(folder.path("out/run/step-1/pipe")).status();
    assert!(made.expect("mkfifo").success());
    std::os::unix::fs::symlink("/etc", folder.path("out/run/step-1/etc")).expect("a link");
    let (found, messages) = partial(&folder, &["out"]);
    assert_eq!(column(&found, "checkpoints", "files"), [3, 4]);
    assert!(messages.contains("step-1/pipe: is not a regular file"), "{messages}");
    assert!(messages.contains("step-1/etc: is a link, which is not followed"), "{messages}");
}

/// Where a checkpoint has several files, the names of tensors begin with those of the files,
/// without the step: also at a step that has one file.
#[test]
fn several_files_for_each_step() {
    let folder = Folder::new();
    for name in ["001000.adam-m", "001000.weights", "001010.weights", "001100.adam-m"] {
        folder.write(&format!("run/{name}.safetensors"), &state(name.len() as u64));
    }
    let found = report(&folder, &["run"]);
    assert_eq!(column(&found, "checkpoints", "name"), ["001000", "001010", "001100"]);
    assert_eq!(column(&found, "tensors", "name"), ["adam-m/layers.0.w", "weights/layers.0.w"]);
    assert_eq!(found["pairs"][0]["only_base"], json!(["adam-m/layers.0.w"]));
    assert_eq!(found["pairs"][1]["total"]["unchanged"], Value::Null);
    assert_eq!(found["pairs"][2]["distance"], 2);
    assert_eq!(found["pairs"][2]["total"]["compared"], 32768);
}

/// A directory of several series is not mixed up: its series are named. A file that belongs to no
/// step of a series is named too.
#[test]
fn what_is_no_series_is_said() {
    let folder = Folder::new();
    for run in ["a", "b"] {
        for step in [100, 200] {
            folder.write(&format!("all/{run}/{step}.safetensors"), &state(step));
        }
    }
    let output = folder.lmc(&["analyze", "all"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("holds several series; name one of them: a, b"));
    folder.write("all/a/final.safetensors", &state(3));
    let (found, messages) = partial(&folder, &["all/a"]);
    assert_eq!(column(&found, "checkpoints", "step"), [100, 200]);
    assert!(messages.contains("all/a/final.safetensors: belongs to no step"), "{messages}");
    // One series after the other.
    let both = partial(&folder, &["all/b", "all/a"]).0;
    assert_eq!(column(&both, "checkpoints", "step"), [100, 200, 100, 200]);
}

/// Damaged, cut-off and empty files are named and left out, alone or with all of a checkpoint, and
/// the rest is measured.
#[test]
fn damaged_files_are_left_out() {
    let folder = Folder::new();
    for step in [1, 2, 3, 4] {
        folder.write(&format!("run/step-{step}/a.safetensors"), &state(step));
        folder.write(&format!("run/step-{step}/b.safetensors"), &state(step + 10));
    }
    let whole = state(2);
    folder.write("run/step-2/a.safetensors", &whole[..whole.len() - 1]);
    folder.write("run/step-3/a.safetensors", b"");
    folder.ok(&["compress", "run/step-3/b.safetensors"]);
    let mut archive = folder.read("run/step-3/b.safetensors.lmc");
    let middle = archive.len() / 2;
    archive[middle] ^= 1;
    folder.write("run/step-3/b.safetensors.lmc", &archive);
    fs::remove_file(folder.path("run/step-3/b.safetensors")).expect("removed");
    let (found, messages) = partial(&folder, &["run"]);
    assert_eq!(column(&found, "checkpoints", "step"), [1, 2, 4]);
    assert_eq!(column(&found, "checkpoints", "files"), [2, 1, 2]);
    assert_eq!(column(&found, "pairs", "distance"), [1, 1, 2]);
    assert_eq!(found["pairs"][0]["only_base"], json!(["a/layers.0.w"]));
    let skipped = column(&found, "skipped", "path");
    let names = ["step-2/a.safetensors", "step-3/a.safetensors", "step-3/b.safetensors.lmc"];
    assert_eq!(skipped, names.map(|name| format!("run/{name}")));
    for name in names {
        assert!(messages.contains(&format!("lmc: run/{name}: ")), "{messages}");
    }
    assert_eq!(messages.lines().count(), 3, "{messages}");
}

/// If nothing can be read, that is an error, and there is no report.
#[test]
fn nothing_is_an_error() {
    let folder = Folder::new();
    folder.write("cut.safetensors", &state(1)[..1000]);
    fs::create_dir(folder.path("empty")).expect("a directory");
    for name in ["cut.safetensors", "empty", "missing"] {
        let output = folder.lmc(&["analyze", "--json", name]);
        assert_eq!(code(&output), 1, "{name}");
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains(name), "{}", stderr(&output));
    }
    assert_eq!(code(&folder.lmc(&["analyze"])), 2);
    // A file without tensors is a checkpoint without figures.
    folder.write("notes.txt", b"text");
    let found = report(&folder, &["notes.txt"]);
    assert_eq!(found["checkpoints"][0]["other_bytes"], 4);
    assert_eq!(found["checkpoints"][0]["total"]["planes"], Value::Null);
}

/// Tensors that appear, vanish or change their type or shape are listed with the pair.
#[test]
fn tensors_that_change_their_form() {
    let folder = Folder::new();
    let (full, half) = pair(1);
    let bytes = weights(64, 2);
    folder.write("1.safetensors", &full);
    folder.write("2.safetensors", &half);
    folder.write("3.safetensors", &safetensors(&[("v", "BF16", &[8, 8], &bytes)]));
    folder.write("4.safetensors", &safetensors(&[("v", "BF16", &[64], &bytes)]));
    let found = report(&folder, &["."]);
    let reshaped = column(&found, "pairs", "reshaped");
    let first = json!([{"name": "w", "old": "F32 [300, 512]", "new": "BF16 [300, 512]"}]);
    assert_eq!(reshaped[0], first);
    assert_eq!(found["pairs"][1]["only_new"], json!(["v"]));
    assert_eq!(found["pairs"][1]["only_base"], json!(["w"]));
    let last = json!([{"name": "v", "old": "BF16 [8, 8]", "new": "BF16 [64]"}]);
    assert_eq!(found["pairs"][3]["reshaped"], last);
    assert_eq!(found["pairs"][3]["total"]["values"], 0);
    assert_eq!(found["tensors"][0]["dtype"], "F32");
    assert!(found["tensors"][0]["alone"][1].is_object());
    let shown = text(folder.ok(&["analyze", "."]));
    assert!(shown.contains("w was F32 [300, 512], is BF16 [300, 512]"), "{shown}");
    assert!(shown.contains("only in 3: v"), "{shown}");
}

/// Names that try to control a terminal or a page are printed harmlessly.
#[test]
fn hostile_names() {
    let folder = Folder::new();
    let name = "\\u001b[2J</script>\\n,\\\"=1";
    let tensor = |name: &str, step| safetensors(&[(name, "BF16", &[64, 512], &changed(step))]);
    folder.write("\u{1b}[1m 1.safetensors", &tensor(name, 1));
    folder.write("\u{1b}[1m 2.safetensors", &tensor(name, 2));
    for options in [&["analyze", "."][..], &["analyze", "--json", "."]] {
        let shown = text(folder.ok(options));
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
    let found = report(&folder, &["."]);
    assert_eq!(found["tensors"][0]["name"], "\u{1b}[2J</script>\n,\"=1");
}

/// Archives give the same figures as the files they were made from, also if they are deltas.
#[test]
fn archives_are_read_like_their_originals() {
    let folder = Folder::new();
    for step in [1, 2] {
        folder.write(&format!("raw/{step}.safetensors"), &state(step));
    }
    fs::create_dir(folder.path("lmc")).expect("a directory");
    folder.ok(&["compress", "raw/1.safetensors", "-o", "lmc/1.safetensors.lmc"]);
    let second = ["compress", "raw/2.safetensors", "-o", "lmc/2.safetensors.lmc"];
    folder.ok(&[&second[..], &["--base", "lmc/1.safetensors.lmc"]].concat());
    let (raw, archives) = (report(&folder, &["raw"]), report(&folder, &["lmc"]));
    assert_eq!(raw["tensors"], archives["tensors"]);
    assert_eq!(raw["pairs"], archives["pairs"]);
    assert_eq!(raw["checkpoints"][0]["bytes"], archives["checkpoints"][0]["bytes"]);
    // A base elsewhere can be given.
    fs::rename(folder.path("lmc/1.safetensors.lmc"), folder.path("moved.lmc")).expect("moved");
    assert_eq!(code(&folder.lmc(&["analyze", "lmc/2.safetensors.lmc"])), 1);
    let found = report(&folder, &["lmc/2.safetensors.lmc", "--base", "moved.lmc"]);
    assert_eq!(found["tensors"][0]["alone"][0], raw["tensors"][0]["alone"][1]);
}

/// All snapshots of a run are a series, single ones can be named, and a damaged one is left out.
#[test]
fn snapshots_of_a_store() {
    let folder = Folder::new();
    folder.ok(&["init", "--store", "store"]);
    for step in [100, 200, 300] {
        folder.write("checkpoint/model.safetensors", &state(step));
        folder.write("checkpoint/config.json", b"{}");
        let step = step.to_string();
        folder.ok(&["save", "--store", "store", "--run", "r", "--step", &step, "checkpoint"]);
        folder.write(
            &format!("raw/{step}/model.safetensors"),
            &folder.read("checkpoint/model.safetensors"),
        );
    }
    let found = report(&folder, &["--store", "store", "r"]);
    assert_eq!(column(&found, "checkpoints", "name"), ["r@100", "r@200", "r@300"]);
    assert_eq!(column(&found, "checkpoints", "step"), [100, 200, 300]);
    assert_eq!(column(&found, "checkpoints", "files"), [2, 2, 2]);
    assert_eq!(found["title"], "r");
    assert_eq!(found["tensors"], report(&folder, &["raw"])["tensors"]);
    let two = report(&folder, &["--store", "store", "r@300", "r@100"]);
    assert_eq!(column(&two, "pairs", "steps"), [-200]);
    let unknown = folder.lmc(&["analyze", "--store", "store", "nobody"]);
    assert_eq!(code(&unknown), 1);
    assert!(stderr(&unknown).contains("nobody"), "{}", stderr(&unknown));
    assert_eq!(code(&folder.lmc(&["analyze", "--store", "nowhere", "r"])), 10);

    // The pack of the last snapshot.
    let packs = walk(&folder, "store/packs");
    let newest = packs.iter().max_by_key(|path| {
        fs::metadata(folder.path(path)).and_then(|data| data.modified()).expect("a time")
    });
    let newest = newest.expect("a pack");
    let mut bytes = folder.read(newest);
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::remove_file(folder.path(newest)).expect("removed");
    folder.write(newest, &bytes);
    let (found, messages) = partial(&folder, &["--store", "store", "r"]);
    assert_eq!(column(&found, "checkpoints", "step")[..2], [100, 200]);
    assert!(messages.contains("r@300/model.safetensors: "), "{messages}");
}

/// All files below a folder.
fn walk(folder: &Folder, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.path(name)).expect("a directory") {
        let below = format!("{name}/{}", entry.expect("an entry").file_name().to_string_lossy());
        match folder.path(&below).is_dir() {
            true => found.extend(walk(folder, &below)),
            false if below.contains("/.") => {}
            false => found.push(below),
        }
    }
    found
}

/// Tables are written whole, and replaced only if that is asked for.
#[test]
fn tables() {
    let folder = Folder::new();
    folder.write("1.safetensors", &checkpoint());
    folder.write("2.safetensors", &checkpoint());
    folder.ok(&["analyze", ".", "--csv", "tables"]);
    let mut names: Vec<_> = walk(&folder, "tables");
    names.sort();
    let all = ["changes", "checkpoints", "pairs", "tensors"];
    assert_eq!(names, all.map(|name| format!("tables/{name}.csv")));
    for name in &names {
        let table = text(folder.read(name));
        let cells: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
        assert!(cells.len() > 2 && cells.iter().all(|count| *count == cells[0]), "{name}: {table}");
    }
    let tensors = text(folder.read("tables/tensors.csv"));
    assert!(tensors.contains("1,step,step,I64,,1,8,"), "{tensors}");
    folder.write("tables/pairs.csv", b"mine");
    let output = folder.lmc(&["analyze", ".", "--csv", "tables"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("already exists; -f overwrites it"));
    assert_eq!(folder.read("tables/pairs.csv"), b"mine");
    folder.write("tables/pairs.csv", b"checkpoint,and others\n");
    folder.ok(&["analyze", ".", "--csv", "tables", "-f"]);
    assert!(text(folder.read("tables/pairs.csv")).starts_with("checkpoint,base,"));
    let output = folder.lmc(&["analyze", ".", "--csv", "no/such"]);
    assert_eq!(code(&output), 1);
}

/// With -f, a page or a table replaces an older one and nothing else: not an input, and not each
/// other.
#[test]
fn only_pages_and_tables_are_overwritten() {
    let folder = Folder::new();
    folder.write("1.safetensors", &state(1));
    let refused = |args: &[&str], reason: &str| {
        let output = folder.lmc(&[&["analyze", "1.safetensors", "-f"], args].concat());
        assert!(code(&output) != 0 && output.stdout.is_empty(), "{args:?}");
        assert!(stderr(&output).contains(reason), "{args:?}: {}", stderr(&output));
    };
    refused(&["--html", "1.safetensors"], "is not a page that lmc wrote");
    assert_eq!(folder.read("1.safetensors"), state(1));
    folder.write("tables/pairs.csv", b"mine");
    refused(&["--csv", "tables"], "is not a table that lmc wrote");
    assert_eq!(folder.read("tables/pairs.csv"), b"mine");
    fs::remove_file(folder.path("tables/pairs.csv")).unwrap();
    refused(&["--csv", "tables", "--html", "tables/pairs.csv"], "both the page and a table");
    refused(&["--csv", "1.safetensors"], "is not a directory");
    refused(&["--csv", "missing/tables"], "is not a directory");
    refused(&["--html", "missing/page.html"], "make it, or give another name");
    refused(&["--html", "tables"], "is not a regular file; give another name");
    for _ in 0..2 {
        let both = ["--csv", "tables", "--html", "page.html", "-f"];
        folder.ok(&[&["analyze", "1.safetensors"], &both[..]].concat());
    }
    assert!(text(folder.read("page.html")).contains("layers.0.w"));
    assert!(text(folder.read("tables/pairs.csv")).starts_with("checkpoint,"));
}

/// A file that is called an archive and is not one is damaged, not a file of other bytes.
#[test]
fn archives_that_are_none() {
    let folder = Folder::new();
    folder.write("run/1.safetensors", &state(1));
    folder.write("run/2.safetensors.lmc", b"x");
    let (found, messages) = partial(&folder, &["run"]);
    assert_eq!(column(&found, "checkpoints", "files"), [1]);
    assert_eq!(found["skipped"].as_array().unwrap().len(), 1, "{messages}");
    folder.write("empty.lmc", b"");
    let output = folder.lmc(&["analyze", "empty.lmc"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("is not a .lmc archive"), "{}", stderr(&output));
}

/// A name may be longer than any terminal is wide.
#[test]
fn a_very_long_name() {
    let folder = Folder::new();
    let name = "n".repeat(70_000);
    let bytes = weights(64, 1);
    folder.write("1.safetensors", &safetensors(&[(&name, "BF16", &[64], &bytes)]));
    assert!(text(folder.ok(&["analyze", "1.safetensors"])).contains(&name));
}

/// A counter beside the weights has no exponent, and a pair says which share of the values it
/// covers.
#[test]
fn tensors_without_some_figures() {
    let folder = Folder::new();
    let counter = 7_u64.to_le_bytes();
    for step in [1, 2] {
        let own = [("w", "BF16", &[64, 512][..], &changed(step)[..]), ("n", "I64", &[1], &counter)];
        folder.write(&format!("run/{step}.safetensors"), &safetensors(&own));
    }
    let more = weights(32_769, 3);
    let all = [
        ("n", "I64", &[1][..], &counter[..]),
        ("v", "BF16", &[32_769], &more),
        ("w", "BF16", &[64, 512], &changed(3)),
    ];
    folder.write("run/3.safetensors", &safetensors(&all));
    let found = report(&folder, &["run"]);
    let total = &found["checkpoints"][0]["total"];
    let floats = &found["checkpoints"][0]["dtypes"]["BF16"];
    assert!(floats["exponent"].as_f64().is_some_and(|bits| bits > 1.0), "{floats}");
    for figure in ["sign", "exponent", "mantissa", "exponents"] {
        assert_eq!(total[figure], floats[figure], "{figure}");
    }
    let pair = &found["pairs"][0];
    let change = &pair["total"]["exponent_changed"];
    assert_eq!(change, &pair["dtypes"]["BF16"]["exponent_changed"]);
    let shown = text(folder.ok(&["analyze", "run"]));
    let covered: Vec<bool> = ["  100 %", "   50 %"].map(|share| shown.contains(share)).into();
    assert_eq!(covered, [true, true], "{shown}");
}

/// What engines or a plan cannot do is a line, and the figures are printed all the same.
#[test]
fn nothing_to_plan() {
    let folder = Folder::new();
    folder.write("none.safetensors", &safetensors(&[]));
    let plan = ["none.safetensors", "--plan", "--bandwidth", "1G", "--step-time", "1"];
    let (found, messages) = partial(&folder, &plan);
    assert_eq!(column(&found, "checkpoints", "files"), [1]);
    assert!(messages.contains("--plan: there are no bytes"), "{messages}");
    assert!(found["plan"].is_null());
}
