//! Work that is interrupted ends before it is done, leaves nothing, and can be done again.

use crate::common::{bases, compress_on, nudged};
use lmc::{
    Archive, Context, ErrorKind, Input, Level, Options, Origin, Output, Publish, Result, compress,
    compress_parts, content_hash, decompress, decompress_into, decompress_to_vec,
};
use lmc_testkit::data::{self, Kind};

/// More than a few spans.
const LEN: usize = 20 << 20;

/// Fails unless work that is interrupted before it starts ends, and the same work is done after it.
fn ends(mut work: impl FnMut(&Context) -> Result<()>) {
    let context = Context::with_threads(2);
    context.interrupt.send();
    assert_eq!(work(&context).unwrap_err().kind, ErrorKind::Interrupted);
    work(&Context::with_threads(2)).unwrap();
}

/// Both directions, from memory and to files: interrupted when the first part is done, they do not
/// come to the last one, and no file appears.
#[test]
fn files() {
    let original = vec![0; LEN];
    let folder = tempfile::tempdir().unwrap();
    let run = |is_interrupted: bool, back: Option<&Archive>| {
        let context = Context::with_threads(2);
        let interrupt = context.interrupt.clone();
        let context = context.watched(move |_| {
            if is_interrupted {
                interrupt.send();
            }
        });
        let target = folder.path().join("target");
        let mut publish = Publish::create(&target, true, &Origin::nothing()).unwrap();
        let output = Output::File(&mut publish);
        let done = match back {
            None => {
                let options = Options { context, ..Options::default() };
                compress(Input::Bytes(&original), output, &options).map(|done| done.summary)
            }
            Some(archive) => decompress(archive, output, &context),
        };
        if is_interrupted {
            assert_eq!(done.unwrap_err().kind, ErrorKind::Interrupted);
            drop(publish);
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        } else {
            done.unwrap();
            publish.commit().unwrap();
        }
        target
    };
    run(true, None);
    let packed = std::fs::read(run(false, None)).unwrap();
    std::fs::remove_file(folder.path().join("target")).unwrap();
    let archive = Archive::from_bytes(packed).unwrap();
    run(true, Some(&archive));
    assert_eq!(std::fs::metadata(run(false, Some(&archive))).unwrap().len(), LEN as u64);
}

/// Work in memory.
#[test]
fn memory() {
    let original = vec![0; LEN];
    let mut packed = Vec::new();
    ends(|context| {
        let options = Options { context: context.clone(), ..Options::default() };
        packed = compress_parts(Input::Bytes(&original), &options, Vec::new())?.concat();
        Ok(())
    });
    ends(|context| content_hash(Input::Bytes(&original), context).map(drop));
    let archive = Archive::from_bytes(packed).unwrap();
    ends(|context| archive.test(context));
    let mut out = vec![1; LEN];
    ends(|context| decompress_into(&archive, &mut out, context));
    ends(|context| archive.read_to(5, &mut out[5..], context));
    assert!(out == original);
}

/// A base that could not be looked at because of an interrupt is looked at again.
#[test]
fn bases_are_found_again() {
    let old = data::words(Kind::Weights, 2, true, 1 << 19, 1);
    let new = nudged(&old, 2, 50, 1);
    let packed = compress_on(&new, &bases(&[("old", &old)]), Level::Default, 1);
    let archive = Archive::from_bytes_on(packed.clone(), &bases(&[("old", &old)])).unwrap();
    ends(|context| decompress_to_vec(&archive, context).map(|found| assert!(found == new)));
    ends(|context| archive.test(context));
    let archive = Archive::from_bytes_on(packed, &bases(&[("old", &old)])).unwrap();
    let mut out = vec![0; 1000];
    ends(|context| archive.read_to(5, &mut out, context));
    assert!(out == new[5..1005]);
}
