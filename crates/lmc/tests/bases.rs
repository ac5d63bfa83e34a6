//! Whatever bases are offered, what is compressed can be restored, or it is an error.

use crate::common::{Part, bases, compress, safetensors};
use lmc::{
    Advice, Archive, BaseSet, Context, Input, Level, Options, Origin, Output, Publish,
    decompress_to_vec,
};
use lmc_testkit::data::{self, Kind};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Bytes in memory on bases, as they are compressed to a stream and to memory.
fn compress_both(original: &[u8], bases: &BaseSet) -> [lmc::Result<Vec<u8>>; 2] {
    let options = Options { bases: bases.clone(), ..Options::default() };
    let mut out = Vec::new();
    let streamed = lmc::compress(Input::Bytes(original), Output::Stream(&mut out), &options);
    let parts = lmc::compress_parts(Input::Bytes(original), &options, Vec::new());
    [streamed.map(|_| out), parts.map(|parts| parts.concat())]
}

/// More bases than a file can name: those are used that help most, and the others are not needed.
#[test]
fn more_bases_than_a_file_can_name() {
    let part = |i: usize| -> Part {
        let count = if i == 1059 { 900 } else { 300 };
        let bytes = data::words(Kind::Weights, 4, true, count, i as u64);
        (format!("t{i}"), "F32", vec![count as u64], bytes)
    };
    let tensors: Vec<Part> = (0..1060).map(part).collect();
    let files: Vec<Vec<u8>> =
        tensors.iter().map(|one| safetensors(std::slice::from_ref(one), "")).collect();
    let names: Vec<String> = (0..files.len()).map(|i| format!("b{i}")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice)).collect();
    let new = safetensors(&tensors, "");
    for coded in compress_both(&new, &bases(&files)) {
        let archive = Archive::from_bytes_on(coded.expect("compressed"), &bases(&files));
        let archive = archive.expect("a file that can be read");
        assert_eq!(archive.bases().len(), 1024);
        assert!(archive.bases().iter().any(|base| base.name == "b1059"), "it helps most");
        assert!(decompress_to_vec(&archive, &Context::with_threads(1)).expect("restored") == new);
    }
    for coded in compress_both(&new, &bases(&files).named()) {
        let error = coded.expect_err("all of them cannot be named");
        assert!(error.to_string().contains("1060 bases"), "{error}");
    }
}

/// A tensor of 3000 values from a seed.
fn tensor(name: &str, seed: u64) -> Part {
    let bytes = data::words(Kind::Weights, 4, true, 3000, seed);
    (name.to_string(), "F32", vec![3000], bytes)
}

/// Each file takes over a tensor of the one before and has a new one. No tensor is far down, but
/// the files are a chain, and the one that would be too long for a restore is refused.
#[test]
fn no_chain_of_files_is_made_that_no_restore_takes() {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for i in 0..80_u64 {
        let (old, new) = (format!("t{i}"), format!("t{}", i + 1));
        let original = safetensors(&[tensor(&old, i), tensor(&new, i + 1)], "");
        let mut bases = Vec::new();
        if let Some(last) = files.last() {
            bases = vec![last.clone()];
            bases.extend(files[..files.len() - 1].iter().cloned());
        }
        let bases = BaseSet::from_bytes(bases, &Context::with_threads(1)).expect("bases");
        let [streamed, coded] = compress_both(&original, &bases);
        match (streamed, coded) {
            (Ok(_), Ok(coded)) => {
                let archive = Archive::from_bytes_on(coded.clone(), &bases).expect("a valid file");
                assert!(i == 0 || archive.bases().len() == 1, "{i}: it is on the one before");
                archive.test(&Context::with_threads(1)).expect("restored");
                files.push((format!("f{i}.lmc"), coded));
            }
            (streamed, coded) => {
                assert_eq!(i, 65);
                for error in [streamed.expect_err("refused"), coded.expect_err("refused")] {
                    assert_eq!(error.advice(), Some(Advice::ShortenChain), "{error}");
                }
                return;
            }
        }
    }
    panic!("a chain of 80 files was made");
}

/// Compresses bytes to a file on a base, in place of what is there.
fn to_file(original: &[u8], target: &Path, base: &Path) -> lmc::Result<()> {
    let bases = BaseSet::open(&[base], &Context::with_threads(1))?;
    let mut publish = Publish::create(target, true, &Origin::nothing())?;
    let options = Options { bases, ..Options::default() };
    lmc::compress(Input::Bytes(original), Output::File(&mut publish), &options)?;
    publish.commit()
}

/// Restores a file in place of what is there.
fn restore(source: &Path, target: &Path) -> lmc::Result<()> {
    let archive = Archive::open(source)?;
    let mut publish = Publish::create(target, true, &Origin::nothing())?;
    lmc::decompress(&archive, Output::File(&mut publish), &Context::with_threads(1))?;
    publish.commit()
}

/// No result takes the place of its base, of what that is on, or of what it is restored from, under
/// whatever names; and nothing is lost by the try.
#[test]
fn a_result_never_replaces_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let one = |seed| safetensors(&[tensor("x", seed)], "");
    let two = safetensors(&[tensor("x", 1), tensor("y", 2)], "");
    std::fs::write(path("a.lmc"), compress(&one(1), Level::Default, 1)).expect("ours");
    to_file(&two, &path("b.lmc"), &path("a.lmc")).expect("b is on a");
    symlink("a.lmc", path("link.lmc")).expect("a link");
    std::fs::hard_link(path("a.lmc"), path("twin.lmc")).expect("a second name");
    let before = std::fs::read(path("a.lmc")).expect("ours");
    let y = safetensors(&[tensor("y", 2)], "");
    for (original, target, base) in [
        (&one(1), "a.lmc", "a.lmc"),
        (&one(1), "a.lmc", "link.lmc"),
        (&one(1), "link.lmc", "a.lmc"),
        (&one(1), "twin.lmc", "a.lmc"),
        (&one(1), "a.lmc", "b.lmc"),
        // Nothing of a is needed for it, but b cannot be opened without.
        (&y, "a.lmc", "b.lmc"),
    ] {
        let error = to_file(original, &path(target), &path(base)).expect_err("it needs that");
        assert!(error.to_string().contains("would replace"), "{target} on {base}: {error}");
    }
    for (source, target) in
        [("b.lmc", "a.lmc"), ("b.lmc", "link.lmc"), ("b.lmc", "b.lmc"), ("a.lmc", "twin.lmc")]
    {
        restore(&path(source), &path(target)).expect_err("it needs that");
    }
    assert_eq!(std::fs::read(path("a.lmc")).expect("ours"), before);
    restore(&path("b.lmc"), &path("b")).expect("all is there");
    assert!(std::fs::read(path("b")).expect("ours") == two);
}

/// A file is not compressed on itself: it could never be restored once it is gone.
#[test]
fn a_file_is_not_its_own_base() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x");
    std::fs::write(&path, safetensors(&[tensor("x", 1)], "")).expect("ours");
    let options = Options {
        bases: BaseSet::open(&[&path], &Context::with_threads(1)).expect("a base"),
        ..Options::default()
    };
    let file = File::open(&path).expect("ours");
    let error = lmc::compress_parts(Input::File(&file), &options, Vec::new()).expect_err("its own");
    assert!(error.to_string().contains("its own base"), "{error}");
    assert_eq!(error.advice(), Some(Advice::GiveOlderBase), "{error}");
}
