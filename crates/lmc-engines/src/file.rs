//! Our levels as a user gets them: the whole file format with its checksums, from memory to memory.
//!
//! The coded bytes are not decoded for comparison during compression, because no other engine does
//! that.

use lmc::{Archive, Context, Input, Options};

use crate::{Coded, Engine, Label, LevelName, Pace, Result, Sample};

/// One of our levels on a file, with its own threads.
pub struct WholeFile {
    level: LevelName,
    options: Options,
    parts: Vec<Vec<u8>>,
    archive: Option<Archive>,
}

impl WholeFile {
    /// An engine with nothing coded yet.
    pub fn new(level: LevelName, threads: usize) -> Self {
        let options = Options {
            level: level.level(),
            context: Context::with_threads(threads),
            verify: false,
            ..Options::default()
        };
        Self { level, options, parts: Vec::new(), archive: None }
    }
}

impl Engine for WholeFile {
    fn label(&self) -> Label {
        Label { engine: "lmc", level: self.level.to_string(), grouped: false, base: false }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    /// Its coded bytes are in its own memory, which the next round reuses.
    fn room_len(&self, _len: usize) -> usize {
        0
    }

    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()> {
        let reuse = std::mem::take(&mut self.parts);
        self.parts = lmc::compress_parts(Input::Bytes(sample.bytes), &self.options, reuse)?;
        coded.len = self.parts.iter().map(Vec::len).sum();
        Ok(())
    }

    /// Opening an archive takes its bytes, and the next round needs the memory again.
    fn prepare(&mut self) -> Result<()> {
        self.archive = Some(Archive::from_bytes(self.parts.concat())?);
        Ok(())
    }

    fn decompress(&mut self, _coded: &Coded, _base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        let archive = self.archive.as_ref().ok_or("nothing has been compressed")?;
        Ok(lmc::decompress_into(archive, out, &self.options.context)?)
    }
}
