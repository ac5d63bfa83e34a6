//! Whether a file is the same as the original of an archive. The content hash only says which
//! archive may hold it: anyone can make different files with the same hash. The bytes decide, or a
//! cryptographic hash that the store computed from bytes that it had compared.

use crate::layout::manifest::{Manifest, Pack};
use crate::layout::names::PackName;
use crate::read::library::SnapshotLibrary;
use crate::save::packs::bytes_at_start;
use crate::save::source::Opened;
use crate::storage::Storage;
use crate::upkeep::check::is_damage;
use lmc::{Archive, Context, Input, Output};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Originals of up to this many bytes are decoded in one piece, without threads.
const SMALL_LEN: u64 = 1 << 20;
/// Bytes of a file that are read in one go.
const READ_LEN: usize = 1 << 20;

/// The result of comparing a file with an archive.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The archive holds exactly these bytes; with their BLAKE3 hash, if that was asked for.
    Same(Option<[u8; 32]>),
    /// The archive holds other bytes.
    Different,
    /// The archive cannot be read.
    Damaged(Error),
}

/// Decodes an archive and compares it with a file, up to the first difference.
pub(crate) fn compare(
    archive: &Archive,
    file: &Opened,
    context: &Context,
    with_hash: bool,
) -> Result<Verdict> {
    let hasher = with_hash.then(blake3::Hasher::new);
    let mut comparer = Comparer { rest: Rest::of(file.input()), hasher, end: None };
    match comparer.take(archive, context) {
        Err(error) if is_unreadable(&error) => Ok(Verdict::Damaged(error)),
        Err(error) => Err(error),
        Ok(false) => Ok(Verdict::Different),
        Ok(true) => Ok(Verdict::Same(comparer.hasher.map(|hash| *hash.finalize().as_bytes()))),
    }
}

/// Whether two archives hold the same bytes.
pub(crate) fn have_same_original(
    one: &Archive,
    other: &Archive,
    context: &Context,
) -> Result<bool> {
    if one.original_len() != other.original_len() {
        return Ok(false);
    }
    let rest = Rest::Archive { archive: other, at: 0, context };
    Comparer { rest, hasher: None, end: None }.take(one, context)
}

/// Whether an error says that stored data cannot be decoded, now or later.
pub(crate) fn is_unreadable(error: &Error) -> bool {
    use ErrorKind::{Corrupt, LimitExceeded, NotFound, Truncated, Unsupported};
    matches!(error.kind, Corrupt | Truncated | NotFound | LimitExceeded | Unsupported)
}

/// Whether a file of `len` bytes has this BLAKE3 hash.
pub(crate) fn has_blake3(file: &Opened, len: u64, wanted: &[u8; 32]) -> Result<bool> {
    let mut rest = Rest::of(file.input());
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_LEN];
    let mut left = len;
    while left > 0 {
        let count = left.min(READ_LEN as u64) as usize;
        match rest.read(&mut buffer[..count]) {
            Err(e) if rest.was_cut(&e) => return Ok(false),
            read => read?,
        }
        hasher.update(&buffer[..count]);
        left -= count as u64;
    }
    Ok(hasher.finalize().as_bytes() == wanted)
}

fn unread(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::truncated("the file ends early"),
        _ => Error::io("cannot read it", error),
    }
}

/// Which packs of a parent exist with their sizes. Each pack is looked at once. So is each archive,
/// however many others are coded against it.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    packs: HashMap<usize, bool>,
    archives: HashMap<usize, Option<usize>>,
    /// Packs that were too long and have been repaired.
    pub healed: Vec<PackName>,
}

impl Presence {
    /// A pack that an archive of the parent needs and that is missing or has another size. None for
    /// new archives.
    pub(crate) fn lacks(
        &mut self,
        parent: &SnapshotLibrary,
        storage: &dyn Storage,
        archive: usize,
    ) -> Result<Option<PackName>> {
        let manifest = parent.manifest();
        let pack = match archive < manifest.archives.len() {
            true => self.missing_pack(manifest, storage, archive)?,
            false => None,
        };
        Ok(pack.map(|pack| manifest.packs[pack].name.clone()))
    }

    /// A pack that an archive, or one of its bases, needs and that is missing. This recursion ends
    /// because base chains have a largest depth.
    fn missing_pack(
        &mut self,
        manifest: &Manifest,
        storage: &dyn Storage,
        number: usize,
    ) -> Result<Option<usize>> {
        if let Some(known) = self.archives.get(&number) {
            return Ok(*known);
        }
        let archive = &manifest.archives[number];
        let mut lacking = None;
        for pack in archive.extents.iter().map(|extent| extent.pack) {
            let is_there = match self.packs.get(&pack) {
                Some(is_there) => *is_there,
                None => self.is_whole(&manifest.packs[pack], storage)?,
            };
            self.packs.insert(pack, is_there);
            if !is_there {
                lacking = Some(pack);
            }
        }
        for &base in &archive.bases {
            if lacking.is_none() {
                lacking = self.missing_pack(manifest, storage, base)?;
            }
        }
        self.archives.insert(number, lacking);
        Ok(lacking)
    }

    /// Whether a pack exists with its size. A pack that grew is repaired if the right bytes are at
    /// its start.
    fn is_whole(&mut self, pack: &Pack, storage: &dyn Storage) -> Result<bool> {
        let object = pack.name.object();
        let found = match storage.stat(&object) {
            // Something that is not a file has its name.
            Err(e) if is_damage(&e) => return Ok(false),
            found => found?.map_or(0, |stat| stat.size),
        };
        if found <= pack.size {
            return Ok(found == pack.size);
        }
        let Some(bytes) = bytes_at_start(storage, &pack.name, pack.size)? else {
            return Ok(false);
        };
        storage.replace(&object, &bytes)?;
        self.healed.push(pack.name.clone());
        Ok(true)
    }
}

/// Takes decoded bytes and compares them with a file.
struct Comparer<'a> {
    rest: Rest<'a>,
    hasher: Option<blake3::Hasher>,
    /// Why there is nothing more to compare.
    end: Option<End>,
}

enum End {
    Different,
    Failed(Error),
}

impl Comparer<'_> {
    /// Decodes an archive; returns whether it is the same up to its end.
    fn take(&mut self, archive: &Archive, context: &Context) -> Result<bool> {
        let context = context.unwatched();
        let decoded = if archive.original_len() <= SMALL_LEN {
            lmc::decompress_to_vec(archive, &context.on_threads(1))
                .map(|bytes| drop(self.write_all(&bytes)))
        } else {
            let output = Output::Stream(self);
            lmc::decompress(archive, output, &context).map(drop)
        };
        match self.end.take() {
            Some(End::Different) => Ok(false),
            Some(End::Failed(error)) => Err(error),
            None => decoded.map(|()| true),
        }
    }
}

impl Write for Comparer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.rest.starts_with(bytes) {
            Ok(true) => {
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(bytes);
                }
                return Ok(bytes.len());
            }
            Ok(false) => self.end = Some(End::Different),
            Err(e) => self.end = Some(End::Failed(e)),
        }
        Err(io::Error::other("the file is not the same"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The rest of a file, from some position on.
enum Rest<'a> {
    File { file: &'a File, at: u64 },
    Parts { parts: &'a [&'a [u8]], skip: usize },
    Archive { archive: &'a Archive, at: u64, context: &'a Context },
}

impl<'a> Rest<'a> {
    fn of(input: Input<'a>) -> Self {
        match input {
            Input::File(file) => Self::File { file, at: 0 },
            Input::Parts(parts) => Self::Parts { parts, skip: 0 },
            // Files that are saved are on a disk, or in memory as parts.
            Input::Bytes(_) | Input::Stream(_) => Self::Parts { parts: &[], skip: 0 },
        }
    }

    /// Whether the next bytes are these; continues after them.
    fn starts_with(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut own = vec![0; bytes.len().min(READ_LEN)];
        for bytes in bytes.chunks(READ_LEN) {
            let own = &mut own[..bytes.len()];
            match self.read(own) {
                Ok(()) if own == bytes => {}
                Ok(()) => return Ok(false),
                Err(e) if self.was_cut(&e) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Whether an error says that a file was cut while it was read: the next check of the file
    /// finds that too.
    fn was_cut(&self, error: &Error) -> bool {
        error.kind == ErrorKind::Truncated && !matches!(self, Self::Archive { .. })
    }

    /// Fills `out` with the next bytes.
    fn read(&mut self, out: &mut [u8]) -> Result<()> {
        match self {
            Self::File { file, at } => {
                file.read_exact_at(out, *at).map_err(unread)?;
                *at += out.len() as u64;
            }
            Self::Archive { archive, at, context } => {
                archive.read_to(*at, out, context)?;
                *at += out.len() as u64;
            }
            Self::Parts { .. } => {
                let mut rest = out;
                while !rest.is_empty() {
                    let own = self.next_part(rest.len())?;
                    let (now, after) = rest.split_at_mut(own.len());
                    now.copy_from_slice(own);
                    rest = after;
                }
            }
        }
        Ok(())
    }

    /// Some of the next bytes in memory, at most `len`.
    fn next_part(&mut self, len: usize) -> Result<&'a [u8]> {
        let Self::Parts { parts, skip } = self else { return Ok(&[]) };
        while let Some((first, others)) = parts.split_first() {
            let own = &first[*skip..];
            if own.is_empty() {
                (*parts, *skip) = (others, 0);
                continue;
            }
            let own = &own[..own.len().min(len)];
            *skip += own.len();
            return Ok(own);
        }
        Err(Error::truncated("the file ends early"))
    }
}
