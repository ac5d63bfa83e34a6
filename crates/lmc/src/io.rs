//! Where bytes are read from and written to.

use crate::base::witness::changed;
use crate::crew::waiting;
use crate::files::folder::FileId;
use crate::files::publish::Publish;
use crate::pipeline::Buffer;
use lmc_format::{Error, ErrorKind, Result};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex};

/// The input of a compression.
pub enum Input<'a> {
    /// A file, with the length that it has when it is opened.
    File(&'a File),
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// Bytes in memory, in several parts that follow each other.
    Parts(&'a [&'a [u8]]),
    /// A stream; it is copied to a temporary file first.
    Stream(&'a mut (dyn Read + Send)),
}

/// Where a result goes.
pub enum Output<'a> {
    /// A file that does not exist yet.
    File(&'a mut Publish),
    /// An open file; its contents are replaced.
    Open(&'a File),
    /// A stream.
    Stream(&'a mut (dyn Write + Send)),
    /// Somebody who keeps the bytes.
    Keeper(&'a mut (dyn KeepBytes + Send)),
}

/// Keeps bytes that come one part after the other, without a copy of them.
pub trait KeepBytes {
    /// Takes the next bytes.
    fn keep(&mut self, bytes: Vec<u8>) -> io::Result<()>;
}

impl Output<'_> {
    /// The file that the result replaces, if there is one.
    pub(crate) fn replaced(&self) -> Option<FileId> {
        match self {
            Self::File(publish) => publish.replaced(),
            Self::Open(_) | Self::Stream(_) | Self::Keeper(_) => None,
        }
    }
}

/// Bytes that are stored elsewhere, in any way, and that any thread can read at any position.
pub trait ReadAt: Send + Sync + fmt::Debug {
    /// The number of bytes.
    fn size(&self) -> u64;
    /// Fills `out` with the bytes from `at` on.
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()>;
    /// Whether a read waits for a network, so that many should wait concurrently.
    fn is_far(&self) -> bool {
        false
    }
    /// The `len` bytes from `at` on, if they are contiguous in memory.
    fn slice(&self, _at: u64, _len: u64) -> Option<&[u8]> {
        None
    }
}

/// Bytes that any thread can read at any position.
#[derive(Debug)]
pub(crate) enum ByteSource<'a> {
    File(SourceFile<'a>),
    Bytes(&'a [u8]),
    Parts(SourceParts<'a>),
    Owned(Vec<u8>),
    Elsewhere(Arc<dyn ReadAt>),
}

/// Bytes in several parts.
#[derive(Debug)]
pub(crate) struct SourceParts<'a> {
    parts: &'a [&'a [u8]],
    /// Where each part starts, and where the last one ends.
    starts: Vec<u64>,
}

impl<'a> SourceParts<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.len() as u64;
            end
        });
        Self { parts, starts: std::iter::once(0).chain(ends).collect() }
    }

    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The part that holds the byte at `at`, and the position in it.
    fn find(&self, at: u64) -> (usize, usize) {
        let i = self.starts.partition_point(|&start| start <= at) - 1;
        (i, (at - self.starts[i]) as usize)
    }

    /// The bytes from `at` on, if they are all in one part.
    fn slice(&self, at: u64, len: u64) -> Option<&'a [u8]> {
        let (i, start) = self.find(at);
        slice(self.parts.get(i)?, start as u64, len)
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        if at.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len()) {
            return Err(ends_early(at, buffer.len()));
        }
        let (first, mut start) = self.find(at);
        let mut rest = buffer;
        for part in self.parts.iter().skip(first) {
            if rest.is_empty() {
                break;
            }
            let count = rest.len().min(part.len() - start);
            let (own, after) = rest.split_at_mut(count);
            own.copy_from_slice(&part[start..start + count]);
            (rest, start) = (after, 0);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) enum SourceFile<'a> {
    Borrowed(&'a File),
    Owned(File),
}

impl SourceFile<'_> {
    fn get(&self) -> &File {
        match self {
            Self::Borrowed(file) => file,
            Self::Owned(file) => file,
        }
    }
}

/// Properties of a file other than its bytes, which change when the bytes do.
///
/// Anyone who can write to a file can set back its modification time, but not its change time.
/// Times advance in steps of some milliseconds, or of seconds on some file systems. A write within
/// the step of the first look, or through a mapping, changes none of them. Even then the bytes are
/// stored as they were read, and can be restored: see `witness.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    pub id: FileId,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            id: FileId::of_metadata(metadata),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl<'a> ByteSource<'a> {
    pub(crate) fn new(input: Input<'a>) -> Result<Self> {
        match input {
            Input::File(file) => {
                let kind = file.metadata().map_err(|e| Error::io("cannot access it", e))?;
                if kind.is_dir() {
                    return Err(Error::invalid("is a directory; name a file in it"));
                }
                if kind.is_file() {
                    return Ok(Self::File(SourceFile::Borrowed(file)));
                }
                // A pipe or a device has no length.
                let mut stream = file;
                Ok(Self::File(SourceFile::Owned(spool(&mut stream)?)))
            }
            Input::Bytes(bytes) => Ok(Self::Bytes(bytes)),
            Input::Parts(parts) => Ok(Self::Parts(SourceParts::new(parts))),
            Input::Stream(stream) => Ok(Self::File(SourceFile::Owned(spool(stream)?))),
        }
    }

    /// The stamp that shows whether a file is written to while it is read; none for sources that
    /// cannot be written to.
    pub(crate) fn stamp(&self) -> Result<Option<Stamp>> {
        let Self::File(file) = self else { return Ok(None) };
        let metadata = file.get().metadata().map_err(|e| Error::io("cannot access it", e))?;
        Ok(Some(Stamp::of(&metadata)))
    }

    /// Fails if a file has been written to since it had this stamp.
    pub(crate) fn check_unchanged(&self, stamp: Option<Stamp>) -> Result<()> {
        if self.stamp()? == stamp { Ok(()) } else { Err(changed()) }
    }

    pub(crate) fn len(&self) -> Result<u64> {
        match self {
            Self::File(file) => {
                let metadata = file.get().metadata();
                Ok(metadata.map_err(|e| Error::io("cannot access it", e))?.len())
            }
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::Parts(parts) => Ok(parts.len()),
            Self::Owned(bytes) => Ok(bytes.len() as u64),
            Self::Elsewhere(bytes) => Ok(bytes.size()),
        }
    }

    /// Fills `buffer` with the bytes from `at` on.
    pub(crate) fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::File(file) => {
                let read = file.get().read_exact_at(buffer, at);
                read.map_err(|e| read_error(at, buffer.len(), e))
            }
            Self::Bytes(bytes) => copy(bytes, at, buffer),
            Self::Parts(parts) => parts.read(at, buffer),
            Self::Owned(bytes) => copy(bytes, at, buffer),
            Self::Elsewhere(bytes) => {
                let end = at.checked_add(buffer.len() as u64);
                if end.is_none_or(|end| end > bytes.size()) {
                    return Err(ends_early(at, buffer.len()));
                }
                bytes.read_at(at, buffer)
            }
        }
    }

    /// The `len` bytes from `at` on; they are read into `buffer` unless they are contiguous in
    /// memory.
    pub(crate) fn bytes<'b>(
        &'b self,
        at: u64,
        len: u64,
        buffer: &'b mut Buffer,
    ) -> Result<&'b [u8]> {
        if let Some(found) = self.slice(at, len) {
            return Ok(found);
        }
        self.read(at, buffer.sized(len)?)?;
        Ok(buffer.bytes())
    }

    /// The same, if they are contiguous in memory.
    pub(crate) fn slice(&self, at: u64, len: u64) -> Option<&[u8]> {
        match self {
            Self::File(_) => None,
            Self::Bytes(bytes) => slice(bytes, at, len),
            Self::Parts(parts) => parts.slice(at, len),
            Self::Owned(bytes) => slice(bytes, at, len),
            Self::Elsewhere(bytes) => bytes.slice(at, len),
        }
    }

    /// Whether a read waits for a network.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::Elsewhere(bytes) if bytes.is_far())
    }

    /// Asks the system to read the `len` bytes from `at` on ahead, if they are in a file.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
    pub(crate) fn read_ahead(&self, at: u64, len: u64) {
        #[cfg(target_os = "linux")]
        if let Self::File(file) = self {
            use rustix::fs::{Advice, fadvise};
            // This is only advice: if it fails, the read itself will report the cause.
            let _ = fadvise(file.get(), at, std::num::NonZeroU64::new(len), Advice::WillNeed);
        }
    }

    /// The `len` bytes from `at` on.
    pub(crate) fn read_vec(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = zeroed(len)?;
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }
}

/// `len` bytes of memory, or an error if there is not enough: a file can claim any length.
pub(crate) fn zeroed(len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let reserved = usize::try_from(len).ok().filter(|&len| bytes.try_reserve_exact(len).is_ok());
    bytes.resize(reserved.ok_or_else(|| too_long(len))?, 0);
    Ok(bytes)
}

/// There is not enough memory for `len` bytes.
pub(crate) fn too_long(len: u64) -> Error {
    let message = format!("{len} bytes are more than memory can hold");
    Error::new(ErrorKind::LimitExceeded, message)
}

fn slice(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(at).ok()?..)?.get(..usize::try_from(len).ok()?)
}

fn copy(bytes: &[u8], at: u64, buffer: &mut [u8]) -> Result<()> {
    let part = slice(bytes, at, buffer.len() as u64);
    buffer.copy_from_slice(part.ok_or_else(|| ends_early(at, buffer.len()))?);
    Ok(())
}

fn ends_early(at: u64, len: usize) -> Error {
    Error::truncated(format!("the file ends before byte {}", at.saturating_add(len as u64)))
}

fn read_error(at: u64, len: usize, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ends_early(at, len),
        _ => Error::io(format_args!("cannot read {len} bytes at {at}"), error),
    }
}

/// Copies a stream to a file without a name.
pub(crate) fn spool(stream: &mut (impl Read + ?Sized)) -> Result<File> {
    let mut file =
        tempfile::tempfile().map_err(|e| Error::io("cannot make a temporary file", e))?;
    io::copy(stream, &mut file)
        .map_err(|e| Error::io("cannot copy the input to a temporary file", e))?;
    file.rewind().map_err(|e| Error::io("cannot rewind a temporary file", e))?;
    Ok(file)
}

/// Zeros of this length, at a multiple of it, are left out of a new file and become a hole.
const HOLE_LEN: usize = 1 << 16;

/// Where bytes are written: to a file in any order, to a stream one after the other.
pub(crate) enum Sink<'a> {
    File(&'a File),
    Stream(Mutex<&'a mut (dyn Write + Send)>),
    Keeper(Mutex<&'a mut (dyn KeepBytes + Send)>),
}

impl<'a> Sink<'a> {
    pub(crate) fn new(output: Output<'a>) -> Self {
        match output {
            Output::File(publish) => Self::File(publish.file()),
            Output::Open(file) => Self::File(file),
            Output::Stream(stream) => Self::Stream(Mutex::new(stream)),
            Output::Keeper(keeper) => Self::Keeper(Mutex::new(keeper)),
        }
    }

    /// Writes `bytes` at `at`. For a stream this must be right after everything written before.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let written = match self {
            Self::File(file) => file.write_all_at(bytes, at),
            Self::Stream(stream) => match stream.lock() {
                Ok(mut stream) => waiting(|| stream.write_all(bytes)),
                Err(_) => Err(io::Error::other("another thread failed")),
            },
            Self::Keeper(_) => return self.write_owned(at, bytes.to_vec()).map(drop),
        };
        written.map_err(|e| Error::io("cannot write", e))
    }

    /// The same with bytes that may be kept; returns their memory if they are not.
    pub(crate) fn write_owned(&self, at: u64, bytes: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let Self::Keeper(keeper) = self else {
            return self.write(at, &bytes).map(|()| Some(bytes));
        };
        let kept = match keeper.lock() {
            Ok(mut keeper) => waiting(|| keeper.keep(bytes)),
            Err(_) => Err(io::Error::other("another thread failed")),
        };
        kept.map(|()| None).map_err(|e| Error::io("cannot write", e))
    }

    /// Empties a file, so that the parts that are left out are zeros.
    pub(crate) fn clear(&self) -> Result<()> {
        match self {
            Self::File(file) => file.set_len(0).map_err(|e| Error::io("cannot write", e)),
            Self::Stream(_) | Self::Keeper(_) => Ok(()),
        }
    }

    /// The same as [`Sink::write`], but leaves long runs of zeros out of a file. The file must have
    /// been empty, and gets its length from [`Sink::finish`].
    pub(crate) fn write_sparse(&self, at: u64, bytes: &[u8]) -> Result<()> {
        if !matches!(self, Self::File(_)) {
            return self.write(at, bytes);
        }
        let first = at.next_multiple_of(HOLE_LEN as u64) - at;
        let first = bytes.len().min(usize::try_from(first).unwrap_or(usize::MAX));
        let mut start = 0;
        for hole in (first..bytes.len()).step_by(HOLE_LEN) {
            let end = hole + HOLE_LEN;
            if bytes.get(hole..end).is_some_and(is_zero) {
                self.write(at + start as u64, &bytes[start..hole])?;
                start = end;
            }
        }
        self.write(at + start as u64, &bytes[start..])
    }

    /// Sets the length of a file, which may end in a hole.
    pub(crate) fn finish(&self, len: u64) -> Result<()> {
        match self {
            Self::File(file) => file.set_len(len).map_err(|e| Error::io("cannot write", e)),
            Self::Stream(_) | Self::Keeper(_) => self.flush(),
        }
    }

    pub(crate) fn flush(&self) -> Result<()> {
        let Self::Stream(stream) = self else { return Ok(()) };
        let flushed = stream.lock().map_or_else(|_| Ok(()), |mut stream| stream.flush());
        flushed.map_err(|e| Error::io("cannot write", e))
    }
}

/// Whether all bytes are 0. Stops early where they are not, as in weights.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}
