//! A base that is not a `.lmc`: its content hash, and reads that are checked to match that hash.

use crate::base::budget::Cost;
use crate::base::witness::Witness;
use crate::compress::uncoded;
use crate::context::Context;
use crate::io::{ByteSource, Input};
use crate::item_hash::ItemHasher;
use crate::items::{InputLayout, ItemHashes, hasher};
use crate::leaves::{LeafJoin, Weaver};
use crate::once::Once;
use crate::pipeline::{Buffer, each};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Hash, Result, SourceKind, hash};
use lmc_input::{Cut, FileLayout};
use std::ops::Range;

/// Bytes that are hashed twice in one go, while they are in the cache.
const HASHED_AT_ONCE: usize = 1 << 18;

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
            let view = input.view(&self.source);
            witness.saw_start(&input.start, |at, out| view.read(at, out))?;
            Ok(Examined { input, cuts, witness })
        })
    }

    /// Fills `out` with the arranged bytes from `start` on; fails if they are not those that were
    /// read before.
    pub(crate) fn read(&self, start: u64, out: &mut [u8]) -> Result<()> {
        let Examined { input, witness, .. } = self.examined()?;
        witness.read(start, out, |at, out| input.view(&self.source).read(at, out))
    }

    /// The same for callers that only choose or show something: nothing is checked.
    pub(crate) fn sample(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.examined()?.input.view(&self.source).read(start, out)
    }

    /// The `len` arranged bytes from `start` on, if they are contiguous in memory; fails if they
    /// are not those that were read before. They are not copied: if somebody writes to them later,
    /// the next read notices.
    pub(crate) fn bytes(&self, start: u64, len: u64) -> Result<Option<&[u8]>> {
        let Examined { input, witness, .. } = self.examined()?;
        let slice = |at, len| input.view(&self.source).slice(at, len);
        let Some(bytes) = slice(start, len) else { return Ok(None) };
        Ok(witness.saw_around(start..start + len, slice)?.then_some(bytes))
    }

    /// Adds up what decoders would write to read the arranged bytes `range` of it if it were
    /// compressed: it may be by the time it is read, and deltas against it should still be
    /// restorable.
    pub(crate) fn cost(&self, range: Range<u64>, depth: usize, cost: &mut Cost) -> Result<()> {
        let (file, cuts) = (std::ptr::from_ref(self).addr(), &self.examined()?.cuts);
        uncoded::add_cost(file, cuts, range, depth, cost, |_, _, _| Ok(()))
    }

    /// The content hash.
    pub(crate) fn hash(&self, context: &Context) -> Result<Hash> {
        let Examined { input, cuts, witness } = self.examined()?;
        let view = input.view(&self.source);
        let hashes = each(cuts.len(), context, Buffer::default, |buffer, i| {
            let cut = &cuts[i];
            let raw = view.bytes(cut.range.start, cut.range.end - cut.range.start, buffer)?;
            let mut leaves = input.weaver(&cut.range);
            // The hash is that of the items or that of the leaves.
            let is_arranged = input.layout.kind == SourceKind::Arranged;
            let mut hashes = (!is_arranged).then(|| hasher(cut, &input.layout.items));
            let mut pieces = witness.hasher(&cut.range);
            for part in raw.chunks(HASHED_AT_ONCE) {
                hashes.iter_mut().for_each(|hashes| hashes.write(part));
                leaves.iter_mut().for_each(|leaves| leaves.write(part));
                pieces.iter_mut().for_each(|pieces| pieces.write(part));
            }
            witness.saw_run(cut.range.start, pieces)?;
            Ok((hashes.map(ItemHasher::finish), leaves.map(Weaver::finish)))
        })?;
        let (mut items, mut join) =
            (ItemHashes::new(input.layout.items.len()), LeafJoin::default());
        for (cut, (hashes, leaves)) in cuts.iter().zip(hashes) {
            hashes.into_iter().for_each(|hashes| items.add(cut, hashes));
            leaves.iter().for_each(|leaves| join.add(leaves));
        }
        if input.layout.kind == SourceKind::Arranged {
            return Ok(input.content_hash(join));
        }
        let items = items.finish(&input.layout);
        Ok(hash_of_hashes(&items.iter().map(|item| item.hash).collect::<Vec<_>>()))
    }

    /// The content hash that archives without an arrangement have for a file that is not
    /// safetensors.
    pub(crate) fn old_hash(&self, context: &Context) -> Result<Option<Hash>> {
        if self.examined()?.input.layout.kind != SourceKind::Arranged {
            return Ok(None);
        }
        let layout = FileLayout::bytes(self.len);
        let cuts = lmc_input::cut(&layout);
        let hashes = each(cuts.len(), context, Buffer::default, |buffer, i| {
            let Range { start, end } = cuts[i].range;
            Ok(vec![hash(self.source.bytes(start, end - start, buffer)?)])
        })?;
        let mut items = ItemHashes::new(1);
        cuts.iter().zip(hashes).for_each(|(cut, hashes)| items.add(cut, hashes));
        Ok(Some(hash_of_hashes(&[items.finish(&layout)[0].hash])))
    }
}

/// The content hash of a file or of any bytes: the same as [`crate::Archive::content_hash`] of an
/// archive of it. Everything is read.
pub fn content_hash(input: Input, context: &Context) -> Result<u128> {
    Raw::new(ByteSource::new(input)?)?.hash(context)
}
