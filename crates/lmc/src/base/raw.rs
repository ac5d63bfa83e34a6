//! A base that is not a `.lmc`: its content hash, and reads that are checked to match that hash.

use crate::base::effort::Cost;
use crate::base::witness::Witness;
use crate::compress::uncoded;
use crate::context::Context;
use crate::io::{Input, Source};
use crate::items::{ItemHashes, Looked, hasher};
use crate::once::Once;
use crate::pipeline::{Buffer, each};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Hash, Result};
use lmc_input::Cut;
use std::ops::Range;

/// Bytes that are hashed twice in one go, while they are in the cache.
const HASHED_AT_ONCE: usize = 1 << 16;

/// A file that is not a `.lmc`.
#[derive(Debug)]
pub(crate) struct Raw<'a> {
    pub source: Source<'a>,
    pub len: u64,
    known: Once<Known>,
}

/// What a look at the file has found.
#[derive(Debug)]
pub(crate) struct Known {
    pub looked: Looked,
    cuts: Vec<Cut>,
    /// Checks that all bytes read from it are the ones that its hash was computed from.
    witness: Witness,
}

impl<'a> Raw<'a> {
    pub(crate) fn new(source: Source<'a>) -> Result<Self> {
        Ok(Self { len: source.len()?, source, known: Once::default() })
    }

    pub(crate) fn known(&self) -> Result<&Known> {
        self.known.get(|| {
            let looked = Looked::new(&self.source, self.len)?;
            let cuts = lmc_input::cut(&looked.layout);
            let witness = Witness::new(cuts.iter().map(|cut| cut.range.clone()));
            witness.saw_start(&looked.start, |at, out| self.source.read(at, out))?;
            Ok(Known { looked, cuts, witness })
        })
    }

    /// Fills `out` with the bytes from `start` on; fails if they are not those that were read
    /// before.
    pub(crate) fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.known()?.witness.read(start, out, |at, out| self.source.read(at, out))
    }

    /// The `len` bytes from `start` on, if they are contiguous in memory; fails if they are not
    /// those that were read before. They are not copied: if somebody writes to them later, the next
    /// read notices.
    pub(crate) fn bytes(&self, start: u64, len: u64) -> Result<Option<&[u8]>> {
        let slice = |at, len| self.source.slice(at, len);
        let Some(bytes) = slice(start, len) else { return Ok(None) };
        Ok(self.known()?.witness.saw_around(start..start + len, slice)?.then_some(bytes))
    }

    /// Adds up what decoders would write to read the bytes `range` of it if it were compressed: it
    /// may be by the time it is read, and deltas against it should still be restorable.
    pub(crate) fn cost(&self, range: Range<u64>, depth: usize, cost: &mut Cost) -> Result<()> {
        let (file, cuts) = (std::ptr::from_ref(self).addr(), &self.known()?.cuts);
        uncoded::add_cost(file, cuts, range, depth, cost, |_, _, _| Ok(()))
    }

    /// The content hash.
    pub(crate) fn hash(&self, context: &Context) -> Result<Hash> {
        let Known { looked, cuts, witness } = self.known()?;
        let hashes = each(cuts.len(), context, Buffer::default, |buffer, i| {
            let cut = &cuts[i];
            let raw =
                self.source.bytes(cut.range.start, cut.range.end - cut.range.start, buffer)?;
            let mut hashes = hasher(cut, &looked.layout.items);
            let mut pieces = witness.hasher(&cut.range);
            for part in raw.chunks(HASHED_AT_ONCE) {
                hashes.write(part);
                pieces.iter_mut().for_each(|pieces| pieces.write(part));
            }
            witness.saw_run(cut.range.start, pieces)?;
            Ok(hashes.finish())
        })?;
        let mut items = ItemHashes::new(looked.layout.items.len());
        for (cut, hashes) in cuts.iter().zip(hashes) {
            items.add(cut, hashes);
        }
        let items = items.finish(&looked.layout);
        Ok(hash_of_hashes(&items.iter().map(|item| item.hash).collect::<Vec<_>>()))
    }
}

/// The content hash of a file or of any bytes: the same as [`Archive::content_hash`] of an archive
/// of it. Everything is read.
pub fn content_hash(input: Input, context: &Context) -> Result<u128> {
    Raw::new(Source::new(input)?)?.hash(context)
}
