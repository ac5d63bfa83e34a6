//! The commands of a store from end to end: what is printed, exit codes, and the bytes.

use crate::common::{Folder, code, stderr, text};
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

/// Snapshots of one file each are compared whatever the file is called. A save names a parent only
/// if something is coded against it.
#[test]
fn single_files() {
    let folder = Folder::new();
    let state = |noise: u64| {
        let mut random = lmc_testkit::Random::new(noise);
        [&lmc_testkit::Random::new(1).bytes(300_000)[..], &random.bytes(300_000)].concat()
    };
    folder.write("step-1.bin", &state(2));
    folder.write("step-2.bin", &state(3));
    folder.write("step-3.bin", &lmc_testkit::Random::new(4).bytes(200_000));
    folder.ok(&["init", "--store", "store"]);
    let save = |step: &str| {
        let name = format!("step-{step}.bin");
        text(folder.ok(&["save", &name, "--store", "store", "--step", step]))
    };
    save("1");
    assert!(save("2").contains(" against "));
    assert!(!save("3").contains(" against "));
    let diff = json(&folder, &["diff", "main@1", "main@2"]);
    assert_eq!(diff["changed"][0]["path"], "step-2.bin");
    assert!(diff["only_old"].as_array().unwrap().is_empty());
    assert!(diff["only_new"].as_array().unwrap().is_empty());
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

/// A dry run of a repair says what it would do, and not that it was done; a prune says what keeps
/// all packs, and how to go on.
#[test]
fn what_repair_and_prune_say_of_damaged_manifests() {
    let folder = scene();
    let manifest = walk(&folder.path("store/snapshots")).remove(0);
    std::fs::write(&manifest, b"rot").unwrap();
    let tried = folder.lmc(&["repair", "-n", "--store", "store"]);
    assert_eq!(code(&tried), 4);
    assert!(stderr(&tried).contains("would be moved to damaged/"), "{}", stderr(&tried));
    assert!(!stderr(&tried).contains("are in damaged/") && manifest.is_file());
    let moved = folder.lmc(&["repair", "--store", "store"]);
    assert!(stderr(&moved).contains("are in damaged/"), "{}", stderr(&moved));
    let pruned = text(folder.ok(&["prune", "--grace", "0s", "--store", "store"]));
    assert!(pruned.contains("0 packs") && pruned.contains("repair --from"), "{pruned}");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !path.ends_with(".folder"));
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// A store is private and says so, or shared and says that; below a minute there is no grace, and
/// an error that names what can be done.
#[test]
fn what_init_promises() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let mode =
        |name: &str| std::fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    let said = text(folder.ok(&["init", "deep/private"]));
    assert!(said.contains("only you can read it"), "{said}");
    let modes = ["deep", "deep/private", "deep/private/packs"].map(mode);
    assert_eq!(modes, [0o700; 3]);
    assert_eq!(mode("deep/private/lmc-store.json"), 0o600);
    // An empty directory that is there is closed too.
    std::fs::create_dir(folder.path("there")).unwrap();
    folder.ok(&["init", "there"]);
    assert_eq!(mode("there"), 0o700);
    let under = |umask: &str, name: &str| {
        let lmc = env!("CARGO_BIN_EXE_lmc");
        let line = format!("umask {umask}; {lmc} init --shared {name}");
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", &line]).current_dir(folder.path("")).output().unwrap();
        text(output.stdout)
    };
    let said = under("022", "shared");
    assert!(said.contains("others can read it"), "{said}");
    assert_eq!(
        ["shared", "shared/packs", "shared/lmc-store.json"].map(mode),
        [0o755, 0o755, 0o644]
    );
    under("077", "closed");
    assert_eq!(
        ["closed", "closed/packs", "closed/lmc-store.json"].map(mode),
        [0o700, 0o700, 0o600]
    );
    for grace in ["1s", "0s", "59s"] {
        let output = folder.lmc(&["init", "short", "--grace", grace]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains("1m"), "{}", stderr(&output));
        assert!(!folder.exists("short"));
    }
    folder.ok(&["init", "short", "--grace", "1m"]);
}

/// A prune without snapshots says what it needs, and one that is only asked does not write.
#[test]
fn what_prune_refuses() {
    let folder = scene();
    let lost = folder.path("away");
    std::fs::rename(folder.path("store/snapshots"), &lost).unwrap();
    for command in [&["prune", "--grace", "0s"][..], &["prune", "-n"], &["log"], &["check"]] {
        let output = folder.lmc(&[command, &["--store", "store"]].concat());
        assert_eq!(code(&output), 4, "{command:?}");
        assert!(stderr(&output).contains("snapshots/ is missing"), "{}", stderr(&output));
    }
    std::fs::rename(&lost, folder.path("store/snapshots")).unwrap();
    assert_eq!(json(&folder, &["log"]).as_array().unwrap().len(), 2);
    std::fs::remove_dir_all(folder.path("store/snapshots/r")).unwrap();
    let prune = ["prune", "--grace", "0s", "--store", "store"];
    let output = folder.lmc(&prune);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("--allow-empty"), "{}", stderr(&output));
    assert!(!walk(&folder.path("store/packs")).is_empty());
    folder.ok(&[&prune[..], &["--allow-empty"]].concat());
    assert!(walk(&folder.path("store/packs")).is_empty());
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

/// A copy continues without a snapshot whose packs are damaged or missing, names it, and ends with
/// 4. It says what it repairs in the target.
#[test]
fn copies_say_what_they_left_out() {
    let folder = scene();
    for other in ["one", "two", "three"] {
        assert_eq!(code(&folder.lmc(&["init", "--store", other])), 0);
    }
    let copy = |target: &str| folder.lmc(&["copy", "store", target]);
    assert_eq!(code(&copy("one")), 0);
    let pack = walk(&folder.path("one/packs")).remove(0);
    std::fs::write(&pack, b"rot").unwrap();
    let output = copy("one");
    assert_eq!(code(&output), 0);
    assert!(stderr(&output).contains("written again"), "{}", stderr(&output));
    assert_eq!(code(&folder.lmc(&["check", "--store", "one", "--read-data"])), 0);
    // The packs that only the newer one needs.
    let older = json(&folder, &["log"])[0]["id"].as_str().unwrap().to_string();
    assert_eq!(code(&folder.lmc(&["copy", "store", "two", "--snapshot", &older])), 0);
    let names = |store: &str| -> Vec<_> {
        let packs = walk(&folder.path(&format!("{store}/packs")));
        packs.iter().map(|path| path.file_name().unwrap().to_owned()).collect()
    };
    let shared = names("two");
    let own: Vec<_> = walk(&folder.path("store/packs"))
        .into_iter()
        .filter(|path| !shared.contains(&path.file_name().unwrap().to_owned()))
        .collect();
    assert!(!own.is_empty());
    for bytes in [Some(b"rot"), None] {
        for path in &own {
            match bytes {
                Some(bytes) => std::fs::write(path, bytes).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        let output = copy("three");
        assert_eq!(code(&output), 4, "{}", stderr(&output));
        assert!(stderr(&output).contains("r@10: was not copied"), "{}", stderr(&output));
        let output = folder.lmc(&["log", "--store", "three", "--json"]);
        let log: Value = serde_json::from_str(&text(output.stdout)).unwrap();
        assert_eq!((log.as_array().unwrap().len(), &log[0]["step"]), (1, &Value::from(9)));
    }
}
