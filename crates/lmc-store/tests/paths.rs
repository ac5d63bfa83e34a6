//! A restore never writes outside of its target, whatever a manifest says and whatever is in the
//! target already. A tree of sentinels around the target must stay as it is.

use crate::common::*;
use lmc_store::{RestoreOptions, SaveOptions, SnapshotName, Store};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A store with one snapshot of a file `name`, and a folder with sentinels and a place for targets.
struct Scene {
    store: Store,
    good: serde_json::Value,
    _folder: tempfile::TempDir,
    outside: PathBuf,
    target: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let (store, _, _) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        write(&source.join("name"), b"hostile bytes");
        let saved = save(&store, &source, SaveOptions::default());
        let good = manifest_json(&store, &saved.name);
        let outside = folder.path().join("outside");
        write(&outside.join("sentinel"), b"untouched");
        write(&outside.join("deep/name"), b"untouched too");
        fs::create_dir(outside.join("targets")).unwrap();
        let target = outside.join("targets/target");
        Self { store, good, _folder: folder, outside, target }
    }

    /// A snapshot with these entries; `null` nodes become the file.
    fn plant(&self, entries: serde_json::Value) -> SnapshotName {
        let mut manifest = self.good.clone();
        manifest["entries"] = entries;
        plant(&self.store, &manifest)
    }

    fn file(&self, path: serde_json::Value) -> serde_json::Value {
        let mut entry = self.good["entries"][0].clone();
        entry["path"] = path;
        entry
    }

    fn sentinels(&self) -> impl PartialEq + std::fmt::Debug {
        let mut tree = tree(&self.outside);
        tree.retain(|path, _| !path.starts_with(b"targets/target"));
        tree
    }

    fn restore(&self, name: &SnapshotName) -> lmc_store::Result<lmc_store::Restored> {
        let options = RestoreOptions { overwrite: true, ..RestoreOptions::default() };
        self.store.restore(name, &self.target, &options)
    }
}

/// Paths that lead out, or nowhere: refused before anything is written.
#[test]
fn hostile_paths_are_refused() {
    let long_name = "x".repeat(256);
    let long_path = "x/".repeat(2100) + "y";
    let paths = [
        "../name",
        "..",
        ".",
        "",
        "/",
        "/name",
        "//name",
        "/etc/passwd",
        "a/../../name",
        "a/..",
        "../../../../../../etc/passwd",
        "a/./b",
        "./name",
        "a//b",
        "a/",
        "a/../b",
        "..//name",
        "../",
        "./..",
        "a/b/../../..",
        "/../name",
        "/./name",
        "a/../../sentinel",
        "\u{0}",
        "a\u{0}b",
        "../\u{0}",
        "a/\u{0}",
        "..\u{0}/name",
        "name/",
        "name//",
        "./",
        "/.",
        "/..",
        "../outside/sentinel",
        "../../sentinel",
        "../../deep/name",
        "a/b/c/../../../../x",
        &long_name,
        &long_path,
    ];
    let scene = Scene::new();
    let before = scene.sentinels();
    for path in paths {
        let name = scene.plant(json!([scene.file(json!(path))]));
        let error = scene.restore(&name).unwrap_err();
        assert!(error.to_string().contains("manifest"), "{path:?}: {error}");
        assert!(!scene.target.exists(), "{path:?}");
    }
    for hex in ["2e2e2f78", "2f78", "", "6100", "2e2e", "zz", "612f2e2e2f2e2e2f78", "2F"] {
        let name = scene.plant(json!([scene.file(json!({"hex": hex}))]));
        assert!(scene.restore(&name).is_err(), "{hex}");
    }
    for path in [json!(1), json!(null), json!(["a"]), json!({"other": "a"})] {
        let name = scene.plant(json!([scene.file(path)]));
        assert!(scene.restore(&name).is_err());
    }
    assert_eq!(scene.sentinels(), before);
}

/// Names that are odd and lead nowhere else: restored as they are, inside.
#[test]
fn odd_names_stay_inside() {
    let names = [
        "...",
        "..x",
        "x..",
        "....//".trim_end_matches('/'),
        "..\\name",
        "\\",
        "C:",
        "C:\\x",
        "con",
        "NUL",
        "aux.txt",
        "COM1",
        "-rf",
        "--",
        "~",
        "~root",
        "$HOME",
        "`id`",
        "a b",
        " ",
        "\t",
        "\n",
        "a\nb",
        "*",
        "?",
        "|",
        ";",
        "&",
        "'",
        "\"",
        "%2e%2e",
        "%2F",
        "..%2f",
        "\u{202e}txt",
        "\u{2024}\u{2024}",
        "\u{ff0e}\u{ff0e}",
        "\u{2215}etc",
        "e\u{301}",
        "\u{e9}",
        "\u{feff}",
        "\u{1f600}",
        "name.part",
        ".lmc-x.part",
        "..\u{200b}",
    ];
    let scene = Scene::new();
    let before = scene.sentinels();
    for name in names {
        let planted = scene.plant(json!([scene.file(json!(name))]));
        scene.restore(&planted).unwrap();
        let path = scene.target.join(Path::new(name));
        assert_eq!(fs::read(&path).unwrap(), b"hostile bytes", "{name:?}");
        assert_eq!(fs::read_dir(&scene.target).unwrap().count(), 1, "{name:?}");
        fs::remove_dir_all(&scene.target).unwrap();
    }
    assert_eq!(scene.sentinels(), before);
}

/// Links in the snapshot are made as they are and nothing is written through them.
#[test]
fn links_are_not_followed() {
    let scene = Scene::new();
    let before = scene.sentinels();
    let link = |path: &str, target: &str| json!({"path": path, "type": "link", "target": target});
    let folder = |path: &str| json!({"path": path, "type": "directory", "mode": 0o755});
    // A link in the place of a folder: its files have no folder.
    for target in ["../..", "/", "..", "../../deep", "."] {
        let entries = json!([link("a", target), scene.file(json!("a/name"))]);
        assert!(scene.restore(&scene.plant(entries)).is_err(), "{target}");
        assert!(!scene.target.exists());
    }
    // The same path twice, as a link and as a folder or a file.
    for entries in [
        json!([link("a", "../.."), folder("a"), scene.file(json!("a/name"))]),
        json!([link("name", "../../sentinel"), scene.file(json!("name"))]),
        json!([scene.file(json!("name")), link("name", "../../sentinel")]),
        json!([scene.file(json!("name")), scene.file(json!("name/name"))]),
    ] {
        assert!(scene.restore(&scene.plant(entries)).is_err());
    }
    for target in ["", "a\u{0}b", &"x".repeat(5000)] {
        assert!(scene.restore(&scene.plant(json!([link("a", target)]))).is_err());
    }
    // Links that lead out are restored, and a second restore goes over them, not through them.
    let links = json!([link("b", "../../deep"), link("name", "../../sentinel")]);
    let links = scene.plant(links);
    scene.restore(&links).unwrap();
    assert_eq!(fs::read_link(scene.target.join("b")).unwrap(), Path::new("../../deep"));
    let file = scene.plant(json!([scene.file(json!("name"))]));
    scene.restore(&file).unwrap();
    assert!(scene.target.join("name").symlink_metadata().unwrap().is_file());
    let through = scene.plant(json!([folder("b"), scene.file(json!("b/name"))]));
    let error = scene.restore(&through).unwrap_err();
    assert!(error.to_string().contains("nothing is written through it"), "{error}");
    scene.restore(&links).unwrap();
    assert_eq!(scene.sentinels(), before);
}

/// Links that are in the target already are not followed either, at any depth.
#[test]
fn links_in_the_target_are_not_followed() {
    let scene = Scene::new();
    let before = scene.sentinels();
    let folder = |path: &str| json!({"path": path, "type": "directory", "mode": 0o755});
    let deep = scene.plant(json!([
        folder("a"),
        folder("a/b"),
        folder("a/b/c"),
        scene.file(json!("a/b/c/name"))
    ]));
    let out = scene.outside.canonicalize().unwrap();
    for (made, link) in [("", "a"), ("a", "a/b"), ("a/b", "a/b/c")] {
        for to in [out.join("deep"), PathBuf::from("../.."), PathBuf::from("/tmp"), out.clone()] {
            fs::create_dir_all(scene.target.join(made)).unwrap();
            symlink(&to, scene.target.join(link)).unwrap();
            assert!(scene.restore(&deep).is_err(), "{link} -> {}", to.display());
            fs::remove_dir_all(&scene.target).unwrap();
        }
    }
    // A link in the place of the file is replaced, not written through.
    fs::create_dir_all(scene.target.join("a/b/c")).unwrap();
    symlink(out.join("sentinel"), scene.target.join("a/b/c/name")).unwrap();
    scene.restore(&deep).unwrap();
    assert!(scene.target.join("a/b/c/name").symlink_metadata().unwrap().is_file());
    // A folder in the place of the file is left alone.
    fs::remove_file(scene.target.join("a/b/c/name")).unwrap();
    fs::create_dir(scene.target.join("a/b/c/name")).unwrap();
    assert!(scene.restore(&deep).is_err());
    assert_eq!(scene.sentinels(), before);
}

/// Without -f nothing that is there is touched.
#[test]
fn nothing_is_overwritten_unasked() {
    let scene = Scene::new();
    let name = scene.plant(json!([scene.file(json!("name"))]));
    fs::create_dir(&scene.target).unwrap();
    fs::write(scene.target.join("mine"), b"mine").unwrap();
    let options = RestoreOptions::default();
    assert!(scene.store.restore(&name, &scene.target, &options).is_err());
    assert_eq!(fs::read_dir(&scene.target).unwrap().count(), 1);
    fs::remove_file(scene.target.join("mine")).unwrap();
    scene.store.restore(&name, &scene.target, &options).unwrap();
    // A target that is a file stays one.
    let file = scene.outside.join("sentinel");
    assert!(scene.store.restore(&name, &file, &options).is_err());
    assert_eq!(fs::read(file).unwrap(), b"untouched");
}
