//! Compresses any checkpoint file to `.lmc` and restores it, byte for byte.
//!
//! [`compress`] cuts a file into spans, codes them on all cores and writes them in order. An
//! [`Archive`] reads parts of a `.lmc` file, and [`decompress`] restores all of it. The output
//! depends only on the input, the level and the version. A file under its final name is always
//! complete: [`Publish`] makes sure of that.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod archive;
mod base;
mod compress;
mod context;
mod crew;
mod diff;
mod files;
mod io;
mod item_hash;
mod items;
mod leaves;
mod memory;
mod new_memory;
mod once;
mod pipeline;
mod several;
mod span;
mod view;

pub use archive::describe::{BlockInfo, SpanInfo};
pub use archive::restore::decompress;
pub use archive::tensors::{ArchiveTensor, BaseNotes};
pub use archive::update::{Site, Update};
pub use archive::{Archive, check_size};
pub use base::dependencies::Dependencies;
pub use base::raw::content_hash;
pub use base::{Base, BaseSet, Library};
pub use compress::rounding::rounding_sources;
pub use compress::{Compressed, compress};
pub use context::{Context, Interrupt, Progress};
pub use crew::{Crew, Shift, Urgency, in_turn, waiting};
pub use diff::{BytesDiff, Change, Diff, TensorDiff, diff};
pub use files::folder::{FileId, FileKind, FileState, Folder, Links, MODE_BITS};
pub use files::leftover::Leftover;
pub use files::names::{archive_path, has_room, is_findable, original_path};
pub use files::publish::{Origin, Publish};
pub use files::remove::remove_seen;
pub use files::sandbox::{NewDirectory, Sandbox};
pub use files::tree::{Tree, TreeEntry, check_place};
pub use io::{Input, KeepBytes, Output, ReadAt};
pub use lmc_codec::Level;
pub use lmc_format::{
    Advice, Conversion, Dtype, DtypeId, Error, ErrorKind, NumpyName, Reference, Result,
};
pub use lmc_input::{
    Contents, FileLayout, Format, JSON_LEN_MAX as HEADER_JSON_LEN_MAX, LayoutItem, OtherTensor,
    TensorInfo,
};
pub use memory::{
    compress_into, compress_parts, decompress_into, decompress_scattered, decompress_to_memory,
    decompress_to_vec,
};
pub use new_memory::NewMemory;
pub use pipeline::each;
pub use several::Several;
pub use span::SpanSizer;

/// How to compress.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the work can be stopped, who is told about its progress, and how many threads it uses.
    pub context: Context,
    /// How hard to try.
    pub level: Level,
    /// Whether every block is decoded and compared before it is written.
    pub verify: bool,
    /// Files to code against where that is smaller.
    pub bases: BaseSet,
}

impl Default for Options {
    fn default() -> Self {
        let (context, bases) = (Context::default(), BaseSet::default());
        Self { context, level: Level::Default, verify: true, bases }
    }
}

/// The result of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

/// The example in docs/rust.md, which runs as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
pub struct RustGuide;
