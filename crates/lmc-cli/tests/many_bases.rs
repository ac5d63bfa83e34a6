//! However many bases a file names, and whatever is beside it, it takes the memory, the time and
//! the open files of a few.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::common::{Folder, code, noise, safetensors, stderr};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{
    BaseId, Conversion, Footer, Hash, Index, Item, Piece, Reference, SourceKind, Span, file, hash,
};

/// A `.lmc` file that is put together by hand.
#[derive(Default)]
struct Made {
    body: Vec<u8>,
    spans: Vec<Span>,
    hashes: Vec<Hash>,
}

impl Made {
    /// Adds a span of one block, whose original has this hash.
    fn add(&mut self, raw_len: u64, block: &[u8], reference: Option<Reference>, raw: Hash) {
        self.body.extend_from_slice(block);
        let blocks = vec![Piece { len: block.len() as u64, hash: hash(block) }];
        let recipe = None;
        self.spans.push(Span {
            raw_len,
            dtype: lmc_format::Dtype::Bytes.id(),
            block_log2: 24,
            reference,
            recipe,
            blocks,
        });
        self.hashes.push(raw);
    }

    /// Adds a few bytes as they are.
    fn add_stored(&mut self, bytes: &[u8]) {
        let block = [&[0, bytes.len() as u8], bytes].concat();
        self.add(bytes.len() as u64, &block, None, hash(bytes));
    }

    /// The file, how it is named as a base, and the length of its index.
    fn finish(self, name: &str, bases: Vec<BaseId>) -> (Vec<u8>, BaseId, u64) {
        let original_len = self.spans.iter().map(|span| span.raw_len).sum();
        let item = match &self.hashes[..] {
            [one] => *one,
            several => hash_of_hashes(several),
        };
        let items = vec![Item { len: original_len, hash: item }];
        let index =
            Index { kind: SourceKind::Bytes, bases, spans: self.spans, items, ..Index::default() }
                .write();
        let index_len = index.len() as u64;
        let footer = Footer {
            body_len: self.body.len() as u64,
            index_len,
            index_hash: hash(&index),
            original_len,
        };
        let named =
            BaseId { hash: hash_of_hashes(&[item]), len: original_len, name: name.to_string() };
        ([&file::header()[..], &self.body, &index, &footer.write()].concat(), named, index_len)
    }
}

/// Runs `lmc` with no more memory than 64 MiB and four times an index; none where that cannot be
/// arranged.
fn with_little_memory(folder: &Folder, index_len: u64, args: &[&str]) -> Option<Output> {
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={}", (64 << 20) + 4 * index_len));
    command.arg(env!("CARGO_BIN_EXE_lmc")).args(args).current_dir(folder.path("."));
    let output = command.stdout(Stdio::null()).output();
    if output.is_err() {
        lmc_testkit::skip(lmc_testkit::Missing::Tool, "prlimit is needed");
    }
    output.ok()
}

/// All files of a chain share one allowance for decoded parts that are kept, however many of them
/// are read in small pieces.
#[test]
fn many_bases_share_what_is_kept() {
    const LEN: u64 = 1 << 24;
    const STEP: u64 = 1 << 16;
    let folder = Folder::new();
    let zeros = hash(&vec![0; LEN as usize - 4]);
    let (mut bases, mut indexes) = (Vec::new(), 0);
    for i in 0..20_u32 {
        let name = format!("b{i}");
        let mut made = Made::default();
        made.add_stored(&i.to_le_bytes());
        // Constant: the kind, the length, one byte.
        let len = LEN as u32 - 4;
        let varint = [0, 7, 14, 21].map(|shift| (len >> shift) as u8 & 127);
        let [a, b, c, d] = varint;
        made.add(LEN - 4, &[1, a | 128, b | 128, c | 128, d, 1, 0], None, zeros);
        let (bytes, base, index_len) = made.finish(&name, Vec::new());
        folder.write(&format!("{name}.lmc"), &bytes);
        bases.push(base);
        indexes += index_len;
    }
    let mut made = Made::default();
    for start in (STEP / 2..LEN).step_by(STEP as usize) {
        for source in 1..=bases.len() as u64 {
            let reference = Reference { source, start, conversion: Conversion::None };
            made.add(1, &[4, 1], Some(reference), hash(&[0]));
        }
    }
    let count = bases.len();
    let (bytes, _, index_len) = made.finish("x", bases);
    folder.write("x.lmc", &bytes);
    folder.write("new", &[0; 5000]);
    let mut on_all = vec!["compress", "-q", "-T", "1", "new"];
    let given: Vec<String> = (0..count).map(|i| format!("b{i}.lmc")).collect();
    given.iter().for_each(|base| on_all.extend(["--base", base]));
    for args in [
        &["test", "-q", "-T", "1", "x.lmc"][..],
        &["decompress", "-q", "-T", "1", "x.lmc", "-o", "out"],
        &on_all,
    ] {
        let Some(output) = with_little_memory(&folder, indexes + index_len, args) else { return };
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    }
}

/// A file with many bases beside many compressed directories takes no memory for each pair of them.
#[test]
fn many_bases_beside_many_directories() {
    let folder = Folder::new();
    for i in 0..400 {
        fs::create_dir_all(folder.path(&format!("c{i}.lmc"))).expect("ours");
    }
    let named = |i: u128| BaseId { hash: i, len: 16, name: format!("{i:0250}") };
    let mut made = Made::default();
    made.add_stored(&[b'x'; 16]);
    let (bytes, _, index_len) = made.finish("x", (0..1024).map(named).collect());
    folder.write("h.lmc/x.lmc", &bytes);
    for args in [
        &["list", "h.lmc/x.lmc"][..],
        &["test", "-q", "-T", "1", "h.lmc/x.lmc"],
        &["decompress", "-q", "-T", "1", "-f", "h.lmc/x.lmc", "-o", "out"],
        &["decompress", "-q", "-T", "1", "-f", "--rm", "h.lmc", "-o", "all"],
    ] {
        let Some(output) = with_little_memory(&folder, index_len, args) else { return };
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    }
}

/// Writes files of which each names all before it, in `dir`.
fn write_pyramid(folder: &Folder, dir: &str, count: u32) {
    let mut bases: Vec<BaseId> = Vec::new();
    for i in 0..count {
        let mut made = Made::default();
        made.add_stored(&i.to_le_bytes());
        let (bytes, base, _) = made.finish(&format!("f{i}"), bases.clone());
        folder.write(&format!("{dir}/f{i}.lmc"), &bytes);
        bases.insert(0, base);
    }
}

/// How often `lmc` opened a file; none where that cannot be told.
fn opens(folder: &Folder, args: &[&str], name: &str) -> Option<usize> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "trace=open,openat,openat2", "-o", "trace"]);
    command.arg(env!("CARGO_BIN_EXE_lmc")).args(args).current_dir(folder.path("."));
    let Some(output) = command.output().ok().filter(|output| output.status.success()) else {
        lmc_testkit::skip(lmc_testkit::Missing::Tool, "strace is needed");
        return None;
    };
    assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    let trace = String::from_utf8_lossy(&folder.read("trace")).into_owned();
    let name = format!("{name}\"");
    Some(trace.lines().filter(|line| line.contains(&name) && !line.contains("ENOENT")).count())
}

/// Whatever is looked for before `-f` replaces or `--rm` removes anything, each file that may be a
/// base is opened a few times, by one file or by a directory of them.
#[test]
fn a_file_that_may_be_a_base_is_opened_a_few_times() {
    let folder = Folder::new();
    write_pyramid(&folder, "d", 60);
    folder.write("new", &60_u32.to_le_bytes());
    folder.write("tree/new", &60_u32.to_le_bytes());
    // Once or twice each for what must stay, and for the work itself.
    for (args, most) in [
        (&["decompress", "-f", "d/f59.lmc", "-o", "o"][..], 4),
        (&["compress", "-f", "new", "--base", "d/f59.lmc", "--base", "d/f58.lmc"], 4),
        (&["compress", "-f", "tree", "--base", "d/f59.lmc"], 4),
        (&["decompress", "-f", "d", "-o", "all"], 6),
        (&["decompress", "--rm", "d", "-o", "again"], 6),
    ] {
        let Some(count) = opens(&folder, args, "f0.lmc") else { return };
        assert!(count <= most, "{args:?}: f0.lmc was opened {count} times");
    }
    assert_eq!(folder.read("again/f0"), 0_u32.to_le_bytes());
    assert!(!folder.exists("d"));
}

/// As many bases as a file can name are taken where the soft limit of open files is the usual one.
#[test]
fn a_thousand_bases_fit_the_usual_limit_of_open_files() {
    let folder = Folder::new();
    let tensors: Vec<(String, Vec<u8>)> =
        (0..1024).map(|i| (format!("t{i}"), noise(1200, i))).collect();
    let all: Vec<(&str, &str, &[usize], &[u8])> =
        tensors.iter().map(|(name, bytes)| (&name[..], "I32", &[300][..], &bytes[..])).collect();
    let new = safetensors(&all);
    folder.write("new", &new);
    let mut script = "ulimit -Sn 1024 && exec \"$0\" compress new".to_string();
    for (i, one) in all.iter().enumerate() {
        folder.write(&format!("f{i}"), &safetensors(std::slice::from_ref(one)));
        script += &format!(" --base f{i}");
    }
    let run = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_lmc")]).current_dir(folder.path("."));
        let output = command.output().expect("sh runs");
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    };
    let hard = Command::new("sh").args(["-c", "ulimit -Hn"]).output().expect("sh runs").stdout;
    let hard = String::from_utf8_lossy(&hard).trim().parse::<u64>().unwrap_or(u64::MAX);
    if hard < 2048 {
        lmc_testkit::skip(
            lmc_testkit::Missing::System,
            &format!("no more than {hard} files may be open"),
        );
        return;
    }
    run(&script);
    run("ulimit -Sn 1024 && exec \"$0\" decompress new.lmc -o back");
    assert!(folder.read("back") == new);
}
