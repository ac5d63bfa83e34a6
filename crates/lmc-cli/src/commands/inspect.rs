//! `lmc inspect`: the structure of an .lmc file.

use std::ops::Range;

use lmc::{Archive, BlockInfo, SpanInfo};
use lmc_format::file::{FOOTER_LEN, HEADER_LEN, VERSION};
use serde_json::{Map, Value, json};

use crate::args::files::InspectArgs;
use crate::bases;
use crate::exit::Failure;
use crate::json;
use crate::printable::Printable;
use crate::stdio::Pages;
use crate::table::{Align, Table, ratio};

/// Shows the file that `args` names; blocks are read only on request. There may be millions of
/// spans, so each is printed and then dropped.
pub fn run(args: &InspectArgs) -> Result<(), Failure> {
    let archive = Archive::open(&args.file)?;
    let mut pages = Pages::default();
    if args.format.json {
        print_json(&mut pages, &archive, args.blocks)?;
        pages.push(Printable::line(""))?;
        return pages.finish();
    }
    let mut text = summary(&archive)?;
    text.push_line("");
    pages.push(text)?;
    print_spans(&mut pages, &archive)?;
    if args.blocks {
        pages.push(Printable::line(""))?;
        print_blocks(&mut pages, &archive)?;
    }
    pages.finish()
}

/// Where the parts of the file are: header, body, index, footer.
fn parts(archive: &Archive) -> [(&'static str, Range<u64>); 4] {
    let file = archive.file_len();
    let body = HEADER_LEN as u64;
    let index = body + archive.body_len();
    let footer = file - FOOTER_LEN as u64;
    [("header", 0..body), ("body", body..index), ("index", index..footer), ("footer", footer..file)]
}

fn summary(archive: &Archive) -> Result<Printable, Failure> {
    let (original, file) = (archive.original_len(), archive.file_len());
    let kind = archive.contents()?.format.label();
    let mut blocks = 0;
    for span in archive.spans() {
        blocks += span?.blocks.len();
    }
    let mut text = Printable::default();
    let mut line = |label: &str, value: String| text.push_line(format_args!("{label:<14}{value}"));
    line("original", format!("{kind}, {original} bytes"));
    line("content hash", format!("{:032x}", archive.content_hash()));
    line("file", format!("version {VERSION}, {file} bytes, {}x", ratio(original, file)));
    line("coded", format!("{} spans, {blocks} blocks", archive.span_count()));
    for (name, range) in parts(archive) {
        line(name, format!("{} bytes at {}", range.end - range.start, range.start));
    }
    for base in archive.bases() {
        line("base", format!("{}, {} bytes, {:032x}", base.name, base.len, base.hash));
    }
    Ok(text)
}

fn print_spans(pages: &mut Pages, archive: &Archive) -> Result<(), Failure> {
    let table = Table::new(&[
        ("span", Align::Right),
        ("original at", Align::Right),
        ("bytes", Align::Right),
        ("coded", Align::Right),
        ("ratio", Align::Right),
        ("dtype", Align::Left),
        ("shared recipe", Align::Right),
        ("blocks", Align::Right),
        ("on", Align::Left),
    ]);
    let row = |(i, span): (usize, lmc::Result<SpanInfo>)| {
        let span = span?;
        let on = span.reference.as_ref().map_or("-".into(), |reference| {
            format!("{} at {}", archive.describe_reference(reference), reference.start)
        });
        Ok(vec![
            i.to_string(),
            span.start.to_string(),
            span.raw_len.to_string(),
            span.coded_len.to_string(),
            ratio(span.raw_len, span.coded_len),
            span.dtype.to_string(),
            span.recipe_len.to_string(),
            span.blocks.len().to_string(),
            on,
        ])
    };
    table.print_rows(pages, || archive.spans().enumerate().map(row))
}

fn print_blocks(pages: &mut Pages, archive: &Archive) -> Result<(), Failure> {
    let table = Table::new(&[
        ("span", Align::Right),
        ("block", Align::Right),
        ("file at", Align::Right),
        ("bytes", Align::Right),
        ("coded", Align::Right),
        ("kind", Align::Left),
        ("recipe", Align::Left),
        ("hash", Align::Left),
    ]);
    let row = |i: usize, k: usize, block: BlockInfo| {
        vec![
            i.to_string(),
            k.to_string(),
            block.offset.to_string(),
            block.raw_len.to_string(),
            block.coded_len.to_string(),
            block.kind.to_string(),
            block.recipe,
            format!("{:032x}", block.hash),
        ]
    };
    let rows = |(i, span): (usize, lmc::Result<SpanInfo>)| {
        let (blocks, failure) = match span {
            Ok(span) => (span.blocks, None),
            Err(error) => (Vec::new(), Some(Err(error.into()))),
        };
        let blocks = blocks.into_iter().enumerate();
        blocks.map(move |(k, block)| Ok(row(i, k, block))).chain(failure)
    };
    table.print_rows(pages, || archive.described_spans().enumerate().flat_map(rows))
}

fn print_json(pages: &mut Pages, archive: &Archive, with_blocks: bool) -> Result<(), Failure> {
    let parts: Map<String, Value> = parts(archive)
        .into_iter()
        .map(|(name, range)| {
            (name.into(), json!({"offset": range.start, "bytes": range.end - range.start}))
        })
        .collect();
    let fields = json!({
        "version": VERSION,
        "safetensors": archive.is_safetensors(),
        "original_bytes": archive.original_len(),
        "file_bytes": archive.file_len(),
        "content_hash": format!("{:032x}", archive.content_hash()),
        "bases": bases::json(archive),
        "parts": parts,
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    if !with_blocks {
        let spans = archive.spans().map(|span| Ok(span_json(&span?, false)));
        return json::object(pages, 0, &fields, "spans", spans);
    }
    // All blocks are read before anything is printed: half of a JSON document is useless.
    archive.described_spans().try_for_each(|span| span.map(drop))?;
    let spans = archive.described_spans().map(|span| Ok(span_json(&span?, true)));
    json::object(pages, 0, &fields, "spans", spans)
}

fn span_json(span: &SpanInfo, with_blocks: bool) -> Value {
    let mut value = json!({
        "start": span.start,
        "bytes": span.raw_len,
        "coded_bytes": span.coded_len,
        "dtype": span.dtype.to_string(),
        "shared_recipe_bytes": span.recipe_len,
        "block_count": span.blocks.len(),
    });
    if let Some(reference) = &span.reference {
        value["reference"] = json!({
            "source": reference.source,
            "start": reference.start,
            "conversion": reference.conversion.name(),
        });
    }
    if with_blocks {
        value["blocks"] = span.blocks.iter().map(block_json).collect();
    }
    value
}

fn block_json(block: &BlockInfo) -> Value {
    json!({
        "offset": block.offset,
        "bytes": block.raw_len,
        "coded_bytes": block.coded_len,
        "kind": block.kind,
        "recipe": block.recipe,
        "hash": format!("{:032x}", block.hash),
    })
}
