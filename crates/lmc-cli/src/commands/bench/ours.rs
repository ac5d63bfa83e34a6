//! Our levels: the whole file format with its checksums, from memory to memory.
//!
//! What was coded is not decoded for comparison while compressing, as no other engine does that.

use std::collections::BTreeMap;

use lmc::{Archive, Context, Dtype, Input, Level, Options, Output, SpanInfo};

use super::engine::{Engine, Label, Sizes};
use crate::exit::Failure;

/// One of our levels.
pub struct Ours<'a> {
    data: &'a [u8],
    options: Options,
    parts: Vec<Vec<u8>>,
    archive: Option<Archive>,
    restored: Vec<u8>,
}

impl<'a> Ours<'a> {
    /// An engine for `data`.
    pub fn new(data: &'a [u8], level: Level, threads: usize) -> Self {
        let options = Options {
            level,
            context: Context::with_threads(threads),
            verify: false,
            ..Options::default()
        };
        // Not 0: a zeroed allocation is mapped only when it is first written.
        let restored = vec![1; data.len()];
        Self { data, options, parts: Vec::new(), archive: None, restored }
    }
}

impl Engine for Ours<'_> {
    fn label(&self) -> Label {
        let level = format!("{:?}", self.options.level).to_lowercase();
        Label { engine: "lmc", level, grouped: false, base: false }
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn compress(&mut self) -> Result<Sizes, Failure> {
        let reuse = std::mem::take(&mut self.parts);
        self.parts = lmc::compress_parts(Input::Bytes(self.data), &self.options, reuse)?;
        let bytes_out = self.parts.iter().map(|part| part.len() as u64).sum();
        Ok(Sizes { bytes_in: self.data.len() as u64, bytes_out })
    }

    /// Opening an archive takes its bytes, and the next round needs the room again.
    fn prepare(&mut self) -> Result<(), Failure> {
        self.archive = Some(Archive::from_bytes(self.parts.concat())?);
        Ok(())
    }

    fn decompress(&mut self) -> Result<(), Failure> {
        let archive = self.archive.as_ref();
        let archive = archive.ok_or_else(|| Failure::new("nothing has been compressed"))?;
        Ok(lmc::decompress_into(archive, &mut self.restored, &self.options.context)?)
    }

    fn came_back(&self) -> bool {
        self.restored == self.data
    }
}

/// Bytes of the element type that most of a file is taken for.
pub fn main_width(spans: &[SpanInfo]) -> usize {
    let mut bytes_of: BTreeMap<usize, u64> = BTreeMap::new();
    for span in spans {
        *bytes_of.entry(width(span)).or_default() += span.raw_len;
    }
    let most = bytes_of.into_iter().max_by_key(|(_, bytes)| *bytes);
    most.map_or(1, |(width, _)| width)
}

/// How `data` is cut, and what each part is taken for.
pub fn spans(data: &[u8], threads: usize) -> Result<Vec<SpanInfo>, Failure> {
    let mut coded = Vec::new();
    let options = Options {
        level: Level::Fast,
        context: Context::with_threads(threads),
        verify: false,
        ..Options::default()
    };
    lmc::compress(Input::Bytes(data), Output::Stream(&mut coded), &options)?;
    Ok(Archive::from_bytes(coded)?.spans().collect::<lmc::Result<_>>()?)
}

/// Bytes of a word of a span.
fn width(span: &SpanInfo) -> usize {
    span.dtype.dtype().map_or(1, Dtype::width)
}
