//! `lmc cat`: one tensor, or some of its rows, as bytes or as .npy.

mod npy;

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use lmc::{Archive, ArchiveTensor, BaseSet, FileState, Origin, Publish};

use crate::args::files::{CatArgs, Rows};
use crate::args::shared::ThreadArgs;
use crate::exit::Failure;
use crate::names;
use crate::signals;
use crate::stdio::BytesOut;

/// Writes the tensor that `args` names.
pub fn run(args: &CatArgs) -> Result<(), Failure> {
    let bases = BaseSet::open(&args.bases.paths, &signals::context_on(&ThreadArgs::default()))?;
    let file = File::open(&args.file).map_err(|error| Failure::io("open it", &error))?;
    let state = FileState::of(&file).map_err(|error| Failure::io("access it", &error))?;
    let archive = Archive::from_file(file, args.file.parent(), &bases)?;
    archive.check_size(args.limit.max_size)?;
    let tensor = find(&archive, &args.tensor)?;
    let mut shape = tensor.shape.clone();
    let bytes = match args.rows {
        None => archive.read_tensor(&tensor)?,
        Some(rows) => {
            let rows = select(&tensor, rows)?;
            shape[0] = rows.end - rows.start;
            archive.read(row_bytes(&tensor, &rows)?)?
        }
    };
    let header = if args.npy { npy::header(tensor.dtype, &shape)? } else { Vec::new() };
    write(args, &Origin::part_of(&state), &[&header, &bytes])
}

fn find(archive: &Archive, name: &str) -> Result<ArchiveTensor, Failure> {
    let contents = archive.contents()?;
    if contents.tensors.is_empty() && contents.others.is_empty() {
        return Err(Failure::new("holds no tensors that are known by name"));
    }
    if let Some(tensor) = archive.tensors()?.into_iter().find(|tensor| tensor.name == name) {
        return Ok(tensor);
    }
    Err(Failure::new(match contents.others.iter().find(|other| other.name == name) {
        Some(other) => format!("`{name}` cannot be read by itself: {}", other.reason),
        None => format!("no tensor `{name}`; `lmc list` shows the names"),
    }))
}

/// The requested rows, if the tensor has them.
fn select(tensor: &ArchiveTensor, rows: Rows) -> Result<Range<u64>, Failure> {
    let Some(&count) = tensor.shape.first() else {
        return Err(Failure::new("a tensor without dimensions has no rows; leave out --rows"));
    };
    if rows.are_reversed() {
        let message = format!("--rows {rows} ends before it starts; give the smaller number first");
        return Err(Failure::usage(message));
    }
    rows.within(count).ok_or_else(|| {
        let name = &tensor.name;
        Failure::new(format!("no rows {rows} in `{name}`, which has {count}; give fewer"))
    })
}

/// Where rows are in the original; fails if a row does not end at a byte boundary.
fn row_bytes(tensor: &ArchiveTensor, rows: &Range<u64>) -> Result<Range<u64>, Failure> {
    let (count, start) = (tensor.shape[0].max(1), tensor.range.start);
    let len = tensor.range.end - start;
    if !len.is_multiple_of(count) {
        return Err(Failure::new(format!("rows of {} do not end at bytes", tensor.dtype.label())));
    }
    let row_len = len / count;
    Ok(start + rows.start * row_len..start + rows.end * row_len)
}

fn write(args: &CatArgs, origin: &Origin, parts: &[&[u8]]) -> Result<(), Failure> {
    match &args.output {
        Some(path) if !names::is_dash(path) => {
            let mut publish = Publish::create(path, args.force, origin)?;
            write_parts(&mut publish, parts)
                .map_err(|error| Failure::io(&format!("write {}", path.display()), &error))?;
            Ok(publish.commit()?)
        }
        _ => {
            let mut stdout = BytesOut::new(args.force)?;
            write_parts(&mut stdout, parts).map_err(|error| Failure::io("write to stdout", &error))
        }
    }
}

fn write_parts(to: &mut dyn Write, parts: &[&[u8]]) -> io::Result<()> {
    for part in parts {
        to.write_all(part)?;
    }
    to.flush()
}
