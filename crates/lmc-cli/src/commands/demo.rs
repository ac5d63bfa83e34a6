//! `lmc demo`: shows the main task without any data of the user.
//!
//! It makes a checkpoint in a temporary directory, compresses it to a file at every level, restores
//! it to another file, compares the two, and prints the sizes and times.

mod checkpoint;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lmc::{Archive, ArchiveTensor, Input, Leftover, Level, Options, Origin, Output, Publish};

use crate::args::files::DemoArgs;
use crate::exit::Failure;
use crate::printable::Printable;
use crate::signals;
use crate::stdio::print;
use crate::table::{Align, Table, gib_s, ratio};

/// The name prefixes of tensors of each kind.
const KINDS: [(&str, &str); 5] = [
    ("model.", "weights, bf16"),
    ("optimizer.master.", "master weights, f32"),
    ("optimizer.exp_avg.", "first moments, f32"),
    ("optimizer.exp_avg_sq.", "second moments, f32"),
    ("data.", "tokens, i32"),
];

/// Rounds of each level; the fastest counts.
const ROUNDS: usize = 3;

/// Runs the demo, and fails if any byte comes back changed.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let dir = tempfile::Builder::new().prefix("lmc-demo-").tempdir();
    let dir = dir.map_err(|error| Failure::io("make a temporary directory", &error))?;
    let leftover = Leftover::directory(dir.path());
    let leftover = leftover.map_err(|error| Failure::io("open a temporary directory", &error))?;
    let _guard = signals::guard(Arc::new(leftover));
    let original = checkpoint::make(usize::from(args.size_mib) << 20);
    let input = dir.path().join("checkpoint.safetensors");
    fs::write(&input, &original).map_err(|error| Failure::io("write the checkpoint", &error))?;
    let mut head = Printable::line(format_args!(
        "a made-up checkpoint of {} bytes, from file to file:",
        original.len()
    ));
    head.push_line("");
    print(head)?;

    let mut levels = Table::new(&[
        ("level", Align::Left),
        ("bytes", Align::Right),
        ("ratio", Align::Right),
        ("compress GiB/s", Align::Right),
        ("decompress GiB/s", Align::Right),
    ]);
    let mut kinds = None;
    for level in [Level::Fast, Level::Default, Level::Max, Level::Paper] {
        let options =
            Options { level, context: signals::context_on(&args.threads), ..Options::default() };
        levels.push(measure(&input, &original, &options)?);
        if level == Level::Default {
            kinds = Some(kind_table(&Archive::open(&input.with_extension("lmc"))?.tensors()?));
        }
    }
    let mut text = Printable::from(levels);
    text.push_line("");
    text.push(kinds.map(Printable::from).unwrap_or_default());
    text.push_line("");
    text.push_line("Every file came back byte for byte. Now your own: lmc compress FILE");
    print(text)
}

/// One row: compresses and restores through files beside `input`. Time of the disk is not counted.
fn measure(input: &Path, original: &[u8], options: &Options) -> Result<Vec<String>, Failure> {
    let (coded, restored) = (input.with_extension("lmc"), input.with_extension("restored"));
    let (mut compress_s, mut decompress_s) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        let file = File::open(input).map_err(|error| Failure::io("open the checkpoint", &error))?;
        let mut publish = Publish::create(&coded, true, &Origin::nothing())?;
        let start = Instant::now();
        lmc::compress(Input::File(&file), Output::File(&mut publish), options)?;
        compress_s = compress_s.min(start.elapsed().as_secs_f64());
        publish.commit()?;

        let archive = Archive::open(&coded)?;
        let mut publish = Publish::create(&restored, true, &Origin::nothing())?;
        let start = Instant::now();
        lmc::decompress(&archive, Output::File(&mut publish), &options.context)?;
        decompress_s = decompress_s.min(start.elapsed().as_secs_f64());
        publish.commit()?;
    }
    let back = fs::read(&restored).map_err(|error| Failure::io("read the copy", &error))?;
    if back != original {
        return Err(lmc::Error::corrupt("the checkpoint came back changed").into());
    }
    let (raw_len, coded_len) = (original.len() as u64, Archive::open(&coded)?.file_len());
    Ok(vec![
        format!("{:?}", options.level).to_lowercase(),
        coded_len.to_string(),
        ratio(raw_len, coded_len),
        format!("{:.2}", gib_s(raw_len, compress_s)),
        format!("{:.2}", gib_s(raw_len, decompress_s)),
    ])
}

/// The size of each kind of tensor at the default level.
fn kind_table(tensors: &[ArchiveTensor]) -> Table {
    let mut table = Table::new(&[
        ("default level", Align::Left),
        ("bytes", Align::Right),
        ("ratio", Align::Right),
        ("recipe", Align::Left),
    ]);
    for (prefix, name) in KINDS {
        let ours: Vec<&ArchiveTensor> =
            tensors.iter().filter(|t| t.name.starts_with(prefix)).collect();
        let raw: u64 = ours.iter().map(|t| t.range.end - t.range.start).sum();
        let coded: u64 = ours.iter().map(|t| t.coded_len).sum();
        let recipe = ours.first().map(|t| t.recipe.clone()).unwrap_or_default();
        table.push(vec![name.into(), raw.to_string(), ratio(raw, coded), recipe.to_string()]);
    }
    table
}
