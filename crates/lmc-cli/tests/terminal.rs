//! Names that others chose never steer the terminal: nothing but visible text and line ends is
//! printed, whatever the names of files, tensors, runs, tags and servers' words hold.

#[cfg(feature = "s3")]
use crate::common::answers;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Folder, checkpoint, code, command, noise, safetensors, stderr, text, weights};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Sets the title of a terminal, clears it, turns text around, leaves no trace and forges a line.
const EVIL: &str = "~\u{1b}]0;owned\u{7}\u{1b}[2J\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200f}\u{200e}\
                    \u{61c}\u{feff}\u{2028}\u{3164}\u{2800}\u{115f}\u{fe0f}\u{e0100}\r\t\nforged";

/// Runs and tags have no control characters, but all that turns text around or is not seen.
const MARKS: &str = "~\u{202e}\u{2066}\u{200f}\u{200e}\u{61c}\u{feff}\u{2028}\u{3164}\u{2800}\
                     \u{115f}\u{fe0f}\u{e0100}owned";

/// The same as an item of JSON.
fn evil_json() -> String {
    let quoted = serde_json::Value::from(EVIL).to_string();
    quoted.trim_matches('"').to_string()
}

/// A safetensors file with a tensor of a name that is not nice.
fn evil_tensors(seed: u64) -> Vec<u8> {
    safetensors(&[(&evil_json(), "BF16", &[8, 512], &weights(8 * 512, seed))])
}

fn is_tame(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}');
    let is_unseen = matches!(c, '\u{3164}' | '\u{2800}' | '\u{115f}' | '\u{fe0f}' | '\u{e0100}');
    c == '\n' || !(c.is_control() || turns || is_unseen)
}

/// Fails if anything in what was printed steers a terminal or begins a line that nobody wrote.
fn check_tame(what: &str, printed: &[u8]) {
    let printed = std::str::from_utf8(printed).unwrap_or_else(|_| panic!("{what}: not UTF-8"));
    if let Some(c) = printed.chars().find(|&c| !is_tame(c)) {
        panic!("{what}: printed {c:?} as it is: {printed:?}");
    }
    assert!(!printed.lines().any(|line| line.starts_with("forged")), "{what}: {printed:?}");
}

/// Runs `lmc` and looks at all that it prints.
fn tame(folder: &Folder, args: &[impl AsRef<str>]) -> Output {
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    let output = folder.lmc(&args);
    check_tame(&format!("stdout of {args:?}"), &output.stdout);
    check_tame(&format!("stderr of {args:?}"), &output.stderr);
    output
}

/// The same for a command that must do its work, on stdout as text.
fn tame_ok(folder: &Folder, args: &[impl AsRef<str>]) -> String {
    let output = tame(folder, args);
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    text(output.stdout)
}

/// The same for one that must fail, and says why with a visible form of the name.
fn tame_failure(folder: &Folder, args: &[&str]) {
    let output = tame(folder, args);
    assert_ne!(code(&output), 0, "{args:?}");
    let said = stderr(&output);
    assert!(said.contains("\\x1b]0;owned"), "{args:?} does not name it: {said}");
    assert!(said.contains("\\u{3164}\\u{2800}"), "{args:?} does not name all of it: {said}");
}

/// Commands on files print names of files, directories, tensors, bases and links in a form that
/// only shows them, and JSON gives the names back as they are.
#[test]
fn names_in_files_steer_no_terminal() {
    let folder = Folder::new();
    let (file, base) = (format!("new{EVIL}"), format!("old{EVIL}"));
    let (dir, link) = (format!("dir{EVIL}"), format!("dir{EVIL}/link{EVIL}"));
    folder.write(&base, &evil_tensors(1));
    folder.write(&file, &evil_tensors(1));
    folder.write(&format!("{dir}/{file}"), &evil_tensors(2));
    std::os::unix::fs::symlink(EVIL, folder.path(&link)).expect("a link");
    let packed = format!("{file}.lmc");

    tame_ok(&folder, &["compress", "-v", &file, "--base", &base]);
    tame_failure(&folder, &["compress", &file, "--base", &base]);
    let with_link = tame(&folder, &["compress", &dir]);
    assert_eq!(code(&with_link), 3, "the link is left out");
    tame_failure(&folder, &["compress", "--rm", &dir, "-o", "elsewhere"]);
    let packed_dir = format!("{dir}.lmc");

    let listed = tame_ok(&folder, &["list", &packed]);
    assert!(listed.contains("\\x1b]0;owned") && listed.contains("\\u{202e}"), "{listed}");
    let unseen = "\\u{3164}\\u{2800}\\u{115f}\\u{fe0f}\\u{e0100}";
    assert!(listed.contains(unseen), "{listed}");
    tame_ok(&folder, &["list", &packed_dir]);
    let listed = tame_ok(&folder, &["list", "--json", &packed, &packed_dir]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed[0]["file"], packed.as_str());
    assert_eq!(listed[0]["tensors"][0]["name"], EVIL);
    assert!(listed[0]["bases"][0]["name"].as_str().is_some_and(|name| name.contains("owned")));
    tame_ok(&folder, &["inspect", &packed]);
    tame_ok(&folder, &["inspect", "--blocks", &packed]);
    tame_ok(&folder, &["inspect", "--blocks", "--json", &packed]);
    tame_ok(&folder, &["test", &packed, &packed_dir, "--base", &base]);
    tame_ok(&folder, &["diff", &base, &file]);
    tame_ok(&folder, &["diff", "--json", &base, &file]);
    folder.write("other", &checkpoint());
    tame_ok(&folder, &["diff", &base, "other"]);
    tame_ok(&folder, &["diff", "--json", "other", &base]);
    tame_failure(&folder, &["diff", &dir, &file]);

    // The bytes of `cat` and of `-c` are data and not looked at.
    assert!(folder.ok(&["cat", &packed, EVIL, "--base", &base]).len() == 8 * 512 * 2);
    let cat = folder.lmc(&["cat", "--npy", &packed, EVIL, "--base", &base]);
    check_tame("stderr of cat", &cat.stderr);
    tame_failure(&folder, &["cat", &packed, &format!("none{EVIL}")]);
    tame_failure(&folder, &["cat", &packed, EVIL, "--rows", "99..100"]);
    tame_failure(&folder, &["cat", &packed, EVIL, "-o", &format!("{EVIL}/x")]);

    tame_failure(&folder, &["decompress", &packed]);
    tame_ok(&folder, &["decompress", "-f", "-v", &packed, "--base", &base]);
    tame_failure(&folder, &["decompress", &packed, "-o", &format!("{EVIL}/x")]);
    tame_ok(&folder, &["decompress", &packed_dir, "-o", &format!("back{EVIL}")]);
    fs::remove_file(folder.path(&base)).expect("it goes");
    for command in ["decompress", "test", "list", "inspect"] {
        let output = tame(&folder, &[command, &packed]);
        let is_needed = !matches!(command, "list" | "inspect");
        assert!(code(&output) != 0 || !is_needed, "{command} without the base");
    }
    let broken = format!("broken{EVIL}.lmc");
    folder.write(&broken, &noise(300, 1));
    for command in ["decompress", "test", "list", "inspect"] {
        tame_failure(&folder, &[command, &broken]);
    }
    tame_failure(&folder, &["cat", &broken, "x"]);
    tame_failure(&folder, &["test", &format!("missing{EVIL}")]);
}

/// The general compressors are named beside a file whose name is shown and not obeyed.
#[test]
#[cfg(feature = "bench")]
fn names_in_benchmarks_steer_no_terminal() {
    let folder = Folder::new();
    let file = format!("new{EVIL}");
    folder.write(&file, &weights(500, 1));
    tame_ok(&folder, &["bench", "--repeats", "1", &file]);
    tame_ok(&folder, &["bench", "--repeats", "1", "--json", &file]);
    tame_failure(&folder, &["bench", &file, "--base", &format!("none{EVIL}")]);
}

/// A command line that is refused is quoted in a form that only shows it: a pattern of the shell
/// may have made options of files' names.
#[test]
fn refused_arguments_steer_no_terminal() {
    let folder = Folder::new();
    let option = format!("--{EVIL}");
    for args in [
        vec![&option[..]],
        vec!["list", &option],
        vec![EVIL],
        vec!["cat", "x", "y", "--rows", EVIL],
        vec!["man", EVIL],
        vec!["completions", EVIL],
        vec!["save", "x", "--meta", EVIL],
        vec!["prune", "--grace", EVIL],
        vec!["check", "--read-data-subset", EVIL],
        vec!["compress", "-T", EVIL, "x"],
    ] {
        let output = tame(&folder, &args);
        assert_ne!(code(&output), 0, "{args:?}");
    }
    for args in [&["--help"][..], &["help", "save"], &["man"], &["completions", "bash"]] {
        tame_ok(&folder, args);
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

/// Commands on stores print names of stores, files, links, runs, tags, metadata and objects in a
/// form that only shows them, and JSON gives them back as they are.
#[test]
fn names_in_stores_steer_no_terminal() {
    let folder = Folder::new();
    let (store, source) = (format!("store{EVIL}"), format!("source{EVIL}"));
    let file = format!("sub{EVIL}/model{EVIL}.safetensors");
    folder.write(&format!("{source}/{file}"), &evil_tensors(1));
    folder.write(&format!("{source}/optimizer{EVIL}.pt"), &noise(3000, 1));
    let link = folder.path(&format!("{source}/link{EVIL}"));
    std::os::unix::fs::symlink(format!("target{EVIL}"), link).expect("a link");
    let on = |args: &[&str]| {
        let args = args.iter().copied().chain(["--store", &store]);
        args.map(str::to_string).collect::<Vec<_>>()
    };
    let meta = format!("key{}=value{EVIL}", EVIL.replace('=', ""));
    let save = ["save", &source, "--run", MARKS, "--tag", MARKS, "--meta", &meta];

    let init = json(&tame_ok(&folder, &["init", "--json", &store]));
    assert_eq!(init["store"], store.as_str());
    tame_ok(&folder, &["init", &format!("second{EVIL}")]);
    tame_failure(&folder, &["init", &store]);
    tame_ok(&folder, &on(&save));
    folder.write(&format!("{source}/{file}"), &evil_tensors(2));
    let saved = json(&tame_ok(&folder, &on(&[&save[..], &["--json"]].concat())));
    assert_eq!(saved["run"], MARKS);
    folder.write(&format!("{source}/{file}"), &evil_tensors(3));
    tame_ok(&folder, &on(&["save", "--parent", "latest", &source]));
    fs::create_dir(folder.path(&format!("empty{EVIL}"))).expect("a directory");
    tame_ok(&folder, &on(&["save", "--run", "empty", &format!("empty{EVIL}")]));

    let newest = format!("{MARKS}@latest");
    let more = format!("more{MARKS}");
    for format in [&[][..], &["--json"]] {
        let run = |args: &[&str]| tame_ok(&folder, &on(&[args, format].concat()));
        run(&["log"]);
        run(&["log", "--run", MARKS]);
        run(&["log", "--tag", MARKS]);
        run(&["show", &newest]);
        run(&["ls", &newest]);
        run(&["ls", &newest, &file]);
        run(&["ls", &newest, &format!("optimizer{EVIL}.pt")]);
        run(&["stats"]);
        run(&["report", "--keep-tag", MARKS, "-f", "--html", &format!("page{EVIL}.html")]);
        run(&["check", "--read-data"]);
        run(&["repair", "-n"]);
        run(&["repair", "--from", &format!("second{EVIL}")]);
        run(&["diff", &newest, "main@latest"]);
        run(&["tag", &newest, &more]);
        run(&["tag", &newest, "--remove", &more]);
        run(&["forget", "--keep-last", "1", "--keep-tag", &format!("none{EVIL}"), "-n"]);
        run(&["forget", "--keep-optimizer-last", "1", "-n"]);
        run(&["prune", "-n"]);
        run(&["rebase", &newest]);
        run(&["restore", "main@latest", &format!("to{EVIL}{}", format.len())]);
        run(&["export", "main@latest", "-o", &format!("out{EVIL}{}", format.len())]);
        let copied = tame(&folder, &["copy", &store, &format!("second{EVIL}"), "--run", "main"]);
        assert_eq!(code(&copied), 0, "{}", stderr(&copied));
    }
    tame_ok(&folder, &on(&["forget", "--keep-last", "1", "--keep-tag", "none"]));

    for args in [
        vec!["tag", "latest", EVIL],
        vec!["save", &source, "--run", EVIL],
        vec!["save", &source, "--tag", EVIL],
        vec!["show", EVIL],
        vec!["show", MARKS],
        vec!["ls", "latest", EVIL],
        vec!["diff", EVIL, EVIL],
        vec!["log", "--run", EVIL],
        vec!["forget", "--keep-last", "1", "--run", EVIL],
        vec!["restore", "latest", &source],
        vec!["save", &format!("none{EVIL}")],
        vec!["repair", "--from", EVIL],
        vec!["save", &folder.path("").to_string_lossy()],
    ] {
        let output = tame(&folder, &on(&args));
        assert_ne!(code(&output), 0, "{args:?}");
    }
    tame_failure(&folder, &["copy", EVIL, &store]);
    tame_failure(&folder, &["copy", &store, EVIL]);
    check_objects(&folder, &store);
}

/// Objects of a store with names and bytes that nobody made with `lmc`.
fn check_objects(folder: &Folder, store: &str) {
    for place in ["snapshots", "packs", "tags", "pending"] {
        folder.write(&format!("{store}/{place}/{EVIL}"), b"no");
        folder.write(&format!("{store}/{place}/ab/{EVIL}"), b"no");
    }
    for entry in walk(&folder.path(&format!("{store}/packs"))) {
        let len = fs::metadata(&entry).expect("a pack").len() as usize;
        fs::write(&entry, noise(len, 9)).expect("it is damaged");
    }
    for args in [
        &["log"][..],
        &["log", "--json"],
        &["check", "--read-data"],
        &["check", "--read-data", "--json"],
        &["restore", "latest", "broken"],
        &["restore", "latest", "broken", "--keep-going"],
        &["restore", "latest", "broken-json", "--keep-going", "--json"],
        &["stats"],
        &["report", "--read-data"],
        &["report", "--read-data", "--json"],
        &["prune", "-n"],
        &["repair", "-n"],
        &["repair", "--json"],
        &["repair"],
    ] {
        tame(folder, &[args, &["--store", store]].concat());
    }
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// What a server says is shown and not obeyed.
#[test]
#[cfg(feature = "s3")]
fn words_of_servers_steer_no_terminal() {
    let folder = Folder::new();
    folder.write("x", b"x");
    let words = "no \u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{61c}\u{feff}\u{7f}\nforged";
    for status in ["400 Bad Request", "403 Forbidden", "404 Not Found", "409 Conflict"] {
        let body = format!("<Error><Code>Odd</Code><Message>{words}</Message></Error>\n{words}");
        let address = answers::serve(move |_| (status.to_string(), body.clone()));
        for args in [&["init"][..], &["log"], &["save", "x"], &["check", "--json"]] {
            let output = command(&folder.path(""), args)
                .env("LMC_STORE", "s3://bucket/prefix")
                .env("LMC_RETRIES", "0")
                .envs(lmc_testkit::s3::Server::environment(address))
                .output()
                .expect("lmc starts");
            assert_ne!(code(&output), 0, "{args:?}");
            check_tame(&format!("{args:?} {status}"), &output.stdout);
            check_tame(&format!("{args:?} {status}"), &output.stderr);
        }
    }
}

/// On a terminal, the bar shows the name of a file and does not obey it; neither does JSON.
#[test]
fn bars_and_json_on_a_terminal_obey_no_name() {
    let folder = Folder::new();
    let file = "n\u{1b}]0;owned\u{7}\u{9b}\u{202e}\r\nforged";
    folder.write(file, &checkpoint().repeat(40));
    folder.ok(&["init", "store"]);
    for args in [
        &["compress", file][..],
        &["list", "--json", &format!("{file}.lmc")],
        &["test", &format!("{file}.lmc")],
        &["save", file, "--store", "store", "--run", MARKS],
        &["restore", "latest", &format!("{file}.back"), "--store", "store"],
        &["log", "--store", "store"],
        &["log", "--json", "--store", "store"],
        &["decompress", "-f", &format!("{file}.lmc")],
    ] {
        let shown = on_terminal(command(&folder.path(""), args));
        assert!(shown.contains("owned"), "{args:?} shows no name: {shown:?}");
        let has_bar = matches!(args[0], "compress" | "test" | "restore" | "decompress");
        assert!(!has_bar || shown.contains("% of "), "{args:?} drew no bar: {shown:?}");
        for evil in ["\u{1b}]", "\u{7}", "\u{9b}", "\u{202e}", "\nforged", "\rforged"] {
            assert!(!shown.contains(evil), "{args:?} printed {evil:?}: {shown:?}");
        }
    }
}

/// What a command writes to a terminal that both of its outputs are.
fn on_terminal(mut command: Command) -> String {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it is open");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let theirs = File::options().read(true).write(true).open(name.to_str().expect("a path"));
    let theirs = theirs.expect("the other end");
    let mut child = command
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(theirs.try_clone().expect("a handle"))
        .stderr(theirs)
        .spawn()
        .expect("lmc starts");
    // What holds the other end must be closed here, or reading would never end.
    drop(command);
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    let mut ours = File::from(ours);
    // A terminal whose other end is closed gives an error at its end.
    while let Ok(len @ 1..) = ours.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..len]);
    }
    assert!(child.wait().expect("lmc ends").success(), "{}", String::from_utf8_lossy(&shown));
    String::from_utf8(shown).expect("UTF-8")
}

/// Only one module of the command writes to the terminal, and none of the libraries does: all
/// others hand it text that was made printable.
#[test]
fn one_module_writes_to_the_terminal() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let parts = ["lmc-cli", "lmc", "lmc-store", "lmc-input", "lmc-format", "lmc-codec", "lmc-py"];
    let mut found = Vec::new();
    for path in parts.iter().flat_map(|part| walk(&crates.join(part).join("src"))) {
        if path.ends_with("lmc-cli/src/stdio.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        for (i, line) in text.lines().enumerate() {
            if writes_itself(line.split("//").next().unwrap_or_default()) {
                found.push(format!("{}:{}: {line}", path.display(), i + 1));
            }
        }
    }
    assert!(found.is_empty(), "these write past stdio.rs:\n{}", found.join("\n"));
}

/// Whether a line of code names a way to write past that module.
fn writes_itself(code: &str) -> bool {
    let ways =
        ["print!", "println!", "eprint!", "eprintln!", "dbg!", "stdout()", "stderr()", ".print()"];
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    ways.iter().any(|way| {
        code.match_indices(way).any(|(at, _)| !code[..at].ends_with(is_part) || *way == ".print()")
    })
}
