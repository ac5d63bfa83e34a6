//! Cutting base chains: the same snapshot again, with every archive coded without a base.

use crate::Store;
use crate::layout::lease::is_pruning;
use crate::layout::manifest::{Manifest, Node};
use crate::layout::names::SnapshotName;
use crate::read::library::SnapshotLibrary;
use crate::save::SaveOptions;
use crate::save::manifest_builder::Builder;
use crate::save::packs::{PackWriter, Packed, Reuse, write_packs};
use lmc::{Compressed, Context, Input, Options, Output};
use lmc_format::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::sync::Arc;

impl Store {
    /// Makes a snapshot that has the files, the step and the time of `name` and needs no base, and
    /// forgets `name`. Snapshots that are coded against `name` keep what they need.
    ///
    /// On an error, `name` is unchanged.
    pub fn rebase(&self, name: &SnapshotName, options: &SaveOptions) -> Result<SnapshotName> {
        let (save, lease, old) = self.lease_of(name)?;
        let old = Arc::new(old);
        let library = SnapshotLibrary::new(self, &old);
        let reuse = Reuse::new(old.packs.iter(), is_pruning(self, lease.storage_now_ms())?);
        let mut manifest = Manifest { save, copy: None, parent: None, ..(*old).clone() };
        let mut builder = Builder::new(Some(library.clone()));
        let (added, packed) = write_packs(self, lease, reuse, options.pack_len, |writer| {
            let mut moved: HashMap<usize, usize> = HashMap::new();
            for entry in &mut manifest.entries {
                let Node::File(file) = &mut entry.node else { continue };
                if old.archives[file.archive].bases.is_empty() {
                    self.context.progress.add(file.size);
                    continue;
                }
                file.archive = match moved.entry(file.archive) {
                    Entry::Occupied(number) => *number.get(),
                    Entry::Vacant(number) => {
                        *number.insert(builder.add(writer, &[], |writer| {
                            self.recode(&library, file.archive, writer, options)
                        })?)
                    }
                };
            }
            Ok(writer.position())
        })?;
        let Packed { packs, lease, .. } = packed;
        let manifest = builder.finish(Manifest { added, ..manifest }, packs)?;
        self.replace_with(name, &manifest, lease)
    }

    /// Codes the original of an archive again, without a base.
    fn recode(
        &self,
        library: &Arc<SnapshotLibrary>,
        archive: usize,
        writer: &mut PackWriter,
        options: &SaveOptions,
    ) -> Result<Compressed> {
        let file = original(library, archive, &self.context)?;
        let SaveOptions { level, verify, .. } = *options;
        let options =
            Options { context: self.context.clone(), level, verify, ..Options::default() };
        lmc::compress(Input::File(&file), Output::Keeper(writer), &options)
    }
}

/// The original of an archive in a temporary file without a name. This is only a first step,
/// without progress reports.
pub(crate) fn original(
    library: &Arc<SnapshotLibrary>,
    archive: usize,
    context: &Context,
) -> Result<File> {
    let file = tempfile::tempfile().map_err(|e| Error::io("cannot make a temporary file", e))?;
    let archive = library.open(archive)?;
    lmc::decompress(&archive, Output::Open(&file), &context.unwatched())?;
    Ok(file)
}
