//! `lmc list`: the tensors in .lmc files, as a table or as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use lmc::{Archive, ArchiveTensor, BaseSet, DtypeId, Format};
use serde_json::{Map, Value, json};

use crate::args::files::ListArgs;
use crate::args::shared::ThreadArgs;
use crate::bases;
use crate::exit::{self, Exit, Failure};
use crate::json::{self, Array};
use crate::names::Archives;
use crate::printable::Printable;
use crate::signals;
use crate::stdio::Pages;
use crate::table::{Align, Table, ratio, shape};

/// Lists every file; JSON is one array. Long output is printed while it is made.
pub fn run(args: &ListArgs) -> Exit {
    let files = Archives::list(&args.files);
    let (mut pages, mut array) = (Pages::default(), Array::new(0));
    let exit = exit::for_each(&files.paths, |path| {
        let bases = bases::to_restore(&args.bases.paths, bases::location(path, &args.files));
        let archive = files
            .open(path, &BaseSet::open(&bases, &signals::context_on(&ThreadArgs::default()))?)?;
        let listed = Listed { path, tensors: archive.tensors()?, archive: &archive };
        if args.format.json {
            array.next(&mut pages)?;
            return listed.print_json(&mut pages);
        }
        let mut pages = Pages::default();
        listed.print(&mut pages)?;
        pages.finish()
    });
    if !args.format.json {
        return exit;
    }
    let end = array
        .end(&mut pages)
        .and_then(|()| pages.push(Printable::line("")))
        .and_then(|()| pages.finish());
    match end {
        Ok(()) => exit,
        Err(failure) => exit::report("stdout".as_ref(), Err(failure)),
    }
}

/// A file and its contents.
struct Listed<'a> {
    path: &'a Path,
    archive: &'a Archive,
    tensors: Vec<ArchiveTensor>,
}

impl Listed<'_> {
    fn print(&self, pages: &mut Pages) -> Result<(), Failure> {
        let table = Table::new(&[
            ("tensor", Align::Left),
            ("dtype", Align::Left),
            ("shape", Align::Left),
            ("bytes", Align::Right),
            ("ratio", Align::Right),
            ("recipe", Align::Left),
            ("on", Align::Left),
        ]);
        let notes = self.archive.base_notes();
        let row = |tensor: &ArchiveTensor| {
            let len = tensor.range.end - tensor.range.start;
            let on = || on(self.archive, tensor).unwrap_or_else(|| "-".into());
            Ok(vec![
                tensor.name.clone(),
                tensor.dtype.label().to_string(),
                shape(&tensor.shape),
                len.to_string(),
                ratio(len, tensor.coded_len),
                tensor.recipe.to_string(),
                notes.of(tensor).unwrap_or_else(on),
            ])
        };
        if !self.tensors.is_empty() {
            table.print_rows(pages, || self.tensors.iter().map(row))?;
        }
        let (original, coded) = (self.archive.original_len(), self.archive.file_len());
        pages.push(Printable::line(format_args!(
            "{}: {}, {original} bytes in {coded}, {}x",
            self.path.display(),
            kind(self.archive, &self.tensors)?,
            ratio(original, coded),
        )))?;
        match &self.archive.contents()?.note {
            Some(note) => pages.push(Printable::line(format_args!("note: the original {note}"))),
            None => Ok(()),
        }
    }

    fn print_json(&self, pages: &mut Pages) -> Result<(), Failure> {
        let archive = self.archive;
        let coded_as = coded_as(archive)?.into_iter();
        let coded_as = coded_as.map(|(dtype, bytes)| (dtype.to_string(), bytes.into()));
        let fields = json!({
            "file": self.path.to_string_lossy(),
            "safetensors": archive.is_safetensors(),
            "format": archive.contents()?.format.label(),
            "format_note": archive.contents()?.note,
            "original_bytes": archive.original_len(),
            "file_bytes": archive.file_len(),
            "coded_as": coded_as.collect::<Map<_, Value>>(),
            "content_hash": format!("{:032x}", archive.content_hash()),
            "bases": bases::json(archive),
        });
        let fields = fields.as_object().cloned().unwrap_or_default();
        let notes = archive.base_notes();
        let tensor = |tensor: &ArchiveTensor| Ok(tensor_json(archive, tensor, notes.of(tensor)));
        json::object(pages, 1, &fields, "tensors", self.tensors.iter().map(tensor))
    }
}

fn kind(archive: &Archive, tensors: &[ArchiveTensor]) -> Result<String, Failure> {
    let contents = archive.contents()?;
    if contents.format != Format::Unknown {
        let others = match contents.others.len() {
            0 => String::new(),
            count => format!(" and {count} that cannot be read by name"),
        };
        return Ok(format!("{}, {} tensors{others}", contents.format.label(), tensors.len()));
    }
    let dtypes: Vec<String> =
        coded_as(archive)?.into_iter().map(|(dtype, _)| dtype.to_string()).collect();
    Ok(match dtypes.is_empty() {
        true => "bytes".into(),
        false => format!("bytes, coded as {}", dtypes.join(", ")),
    })
}

/// Element types and the bytes that were coded as each of them, the largest first.
fn coded_as(archive: &Archive) -> Result<Vec<(DtypeId, u64)>, Failure> {
    let mut bytes = BTreeMap::new();
    for span in archive.spans() {
        let span = span?;
        *bytes.entry(span.dtype).or_insert(0) += span.raw_len;
    }
    let mut dtypes: Vec<(DtypeId, u64)> = bytes.into_iter().collect();
    dtypes.sort_by_key(|(_, bytes)| Reverse(*bytes));
    Ok(dtypes)
}

/// What a tensor is coded against.
fn on(archive: &Archive, tensor: &ArchiveTensor) -> Option<String> {
    tensor.reference.as_ref().map(|reference| archive.describe_reference(reference))
}

fn tensor_json(archive: &Archive, tensor: &ArchiveTensor, note: Option<String>) -> Value {
    json!({
        "name": tensor.name,
        "dtype": tensor.dtype.label(),
        "shape": tensor.shape,
        "offset": tensor.range.start,
        "bytes": tensor.range.end - tensor.range.start,
        "coded_bytes": tensor.coded_len,
        "recipe": &*tensor.recipe,
        "on": on(archive, tensor),
        "note": note,
        "hash": tensor.hash.map(|hash| format!("{hash:032x}")),
    })
}
