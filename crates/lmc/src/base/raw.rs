//! A base that is not a `.lmc`: its content hash, and reads that are checked to match that hash.

use crate::base::budget::Cost;
use crate::base::witness::Witness;
use crate::compress::uncoded;
use crate::context::Context;
use crate::io::{ByteSource, Input};
use crate::items::{InputLayout, ItemHashes, hasher};
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
    pub source: ByteSource<'a>,
    pub len: u64,
    examined: Once<Examined>,
}

/// The layout of the file, and the hashes of the pieces that were read.
#[derive(Debug)]
pub(crate) struct Examined {
    pub input: InputLayout,
    cuts: Vec<Cut>,
    /// Checks that all bytes read from it are the ones that its hash was computed from.
    witness: Witness,
}

impl<'a> Raw<'a> {
    pub(crate) fn new(source: ByteSource<'a>) -> Result<Self> {
        Ok(Self { len: source.len()?, source, examined: Once::default() })
    }

    pub(crate) fn examined(&self) -> Result<&Examined> {
        self.examined.get(|| {
            let input = InputLayout::read(&self.source, self.len)?;
            let cuts = lmc_input::cut(&input.layout);
            let witness = Witness::new(cuts.iter().map(|cut| cut.range.clone()));
            witness.saw_start(&input.start, |at, out| self.source.read(at, out))?;
            Ok(Examined { input, cuts, witness })
        })
    }

    /// Fills `out` with the bytes from `start` on; fails if they are not those that were read
    /// before.
    pub(crate) fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.examined()?.witness.read(start, out, |at, out| self.source.read(at, out))
    }

    /// The `len` bytes from `start` on, if they are contiguous in memory; fails if they are not
    /// those that were read before. They are not copied: if somebody writes to them later, the next
    /// read notices.
    pub(crate) fn bytes(&self, start: u64, len: u64) -> Result<Option<&[u8]>> {
        let slice = |at, len| self.source.slice(at, len);
        let Some(bytes) = slice(start, len) else { return Ok(None) };
        Ok(self.examined()?.witness.saw_around(start..start + len, slice)?.then_some(bytes))
    }

    /// Adds up what decoders would write to read the bytes `range` of it if it were compressed: it
    /// may be by the time it is read, and deltas against it should still be restorable.
    pub(crate) fn cost(&self, range: Range<u64>, depth: usize, cost: &mut Cost) -> Result<()> {
        let (file, cuts) = (std::ptr::from_ref(self).addr(), &self.examined()?.cuts);
        uncoded::add_cost(file, cuts, range, depth, cost, |_, _, _| Ok(()))
    }

    /// The content hash.
    pub(crate) fn hash(&self, context: &Context) -> Result<Hash> {
        let Examined { input, cuts, witness } = self.examined()?;
        let hashes = each(cuts.len(), context, Buffer::default, |buffer, i| {
            let cut = &cuts[i];
            let raw =
                self.source.bytes(cut.range.start, cut.range.end - cut.range.start, buffer)?;
            let mut hashes = hasher(cut, &input.layout.items);
            let mut pieces = witness.hasher(&cut.range);
            for part in raw.chunks(HASHED_AT_ONCE) {
                hashes.write(part);
                pieces.iter_mut().for_each(|pieces| pieces.write(part));
            }
            witness.saw_run(cut.range.start, pieces)?;
            Ok(hashes.finish())
        })?;
        let mut items = ItemHashes::new(input.layout.items.len());
        for (cut, hashes) in cuts.iter().zip(hashes) {
            items.add(cut, hashes);
        }
        let items = items.finish(&input.layout);
        Ok(hash_of_hashes(&items.iter().map(|item| item.hash).collect::<Vec<_>>()))
    }
}

/// The content hash of a file or of any bytes: the same as [`crate::Archive::content_hash`] of an
/// archive of it. Everything is read.
pub fn content_hash(input: Input, context: &Context) -> Result<u128> {
    Raw::new(ByteSource::new(input)?)?.hash(context)
}
