//! `lmc inspect`: how an .lmc file is built.

use std::ops::Range;

use lmc::{Archive, BlockInfo, SpanInfo};
use lmc_format::file::{FOOTER_LEN, HEADER_LEN, VERSION};
use serde_json::{Value, json};

use crate::args::InspectArgs;
use crate::bases;
use crate::exit::Failure;
use crate::printable::Printable;
use crate::stdio::print;
use crate::table::{Align, Table, ratio};

/// Shows the file that `args` names; blocks are read only if asked for.
pub fn run(args: &InspectArgs) -> Result<(), Failure> {
    let archive = Archive::open(&args.file)?;
    let mut spans = archive.spans();
    if args.blocks {
        for (i, span) in spans.iter_mut().enumerate() {
            span.blocks = archive.describe(i)?;
        }
    }
    if args.json {
        return print(Printable::json(&file_json(&archive, &spans, args.blocks)));
    }
    let mut text = summary(&archive, &spans);
    text.push_line("");
    text.push(span_table(&archive, &spans));
    if args.blocks {
        text.push_line("");
        text.push(block_table(&spans));
    }
    print(text)
}

/// Where the parts of the file lie: header, body, index, footer.
fn parts(archive: &Archive, spans: &[SpanInfo]) -> [(&'static str, Range<u64>); 4] {
    let file = archive.file_len();
    let body = HEADER_LEN as u64;
    let index = body + spans.iter().map(|span| span.coded_len).sum::<u64>();
    let footer = file - FOOTER_LEN as u64;
    [("header", 0..body), ("body", body..index), ("index", index..footer), ("footer", footer..file)]
}

fn summary(archive: &Archive, spans: &[SpanInfo]) -> Printable {
    let (original, file) = (archive.original_len(), archive.file_len());
    let kind = if archive.is_safetensors() { "safetensors" } else { "bytes" };
    let blocks: usize = spans.iter().map(|span| span.blocks.len()).sum();
    let mut text = Printable::default();
    let mut line = |label: &str, value: String| text.push_line(format_args!("{label:<14}{value}"));
    line("original", format!("{kind}, {original} bytes"));
    line("content hash", format!("{:032x}", archive.content_hash()));
    line("file", format!("version {VERSION}, {file} bytes, {}x", ratio(original, file)));
    line("coded", format!("{} spans, {blocks} blocks", spans.len()));
    for (name, range) in parts(archive, spans) {
        line(name, format!("{} bytes at {}", range.end - range.start, range.start));
    }
    for base in archive.bases() {
        line("base", format!("{}, {} bytes, {:032x}", base.name, base.len, base.hash));
    }
    text
}

fn span_table(archive: &Archive, spans: &[SpanInfo]) -> Table {
    let mut table = Table::new(&[
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
    for (i, span) in spans.iter().enumerate() {
        let on = span.reference.as_ref().map_or("-".into(), |reference| {
            format!("{} at {}", archive.describe_reference(reference), reference.start)
        });
        table.push(vec![
            i.to_string(),
            span.start.to_string(),
            span.raw_len.to_string(),
            span.coded_len.to_string(),
            ratio(span.raw_len, span.coded_len),
            span.dtype.clone(),
            span.recipe_len.to_string(),
            span.blocks.len().to_string(),
            on,
        ]);
    }
    table
}

fn block_table(spans: &[SpanInfo]) -> Table {
    let mut table = Table::new(&[
        ("span", Align::Right),
        ("block", Align::Right),
        ("file at", Align::Right),
        ("bytes", Align::Right),
        ("coded", Align::Right),
        ("kind", Align::Left),
        ("recipe", Align::Left),
        ("hash", Align::Left),
    ]);
    for (i, span) in spans.iter().enumerate() {
        for (k, block) in span.blocks.iter().enumerate() {
            table.push(vec![
                i.to_string(),
                k.to_string(),
                block.offset.to_string(),
                block.raw_len.to_string(),
                block.coded_len.to_string(),
                block.kind.clone(),
                block.recipe.clone(),
                format!("{:032x}", block.hash),
            ]);
        }
    }
    table
}

fn file_json(archive: &Archive, spans: &[SpanInfo], with_blocks: bool) -> Value {
    let parts: serde_json::Map<String, Value> = parts(archive, spans)
        .into_iter()
        .map(|(name, range)| {
            (name.into(), json!({"offset": range.start, "bytes": range.end - range.start}))
        })
        .collect();
    let spans: Vec<Value> = spans.iter().map(|span| span_json(span, with_blocks)).collect();
    json!({
        "version": VERSION,
        "safetensors": archive.is_safetensors(),
        "original_bytes": archive.original_len(),
        "file_bytes": archive.file_len(),
        "content_hash": format!("{:032x}", archive.content_hash()),
        "bases": bases::json(archive),
        "parts": parts,
        "spans": spans,
    })
}

fn span_json(span: &SpanInfo, with_blocks: bool) -> Value {
    let mut value = json!({
        "start": span.start,
        "bytes": span.raw_len,
        "coded_bytes": span.coded_len,
        "dtype": span.dtype,
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
