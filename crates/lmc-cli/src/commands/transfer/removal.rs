//! Which inputs `--rm` removes, and when: none that another file still needs.

use std::collections::HashSet;
use std::path::Path;

use lmc::{Dependencies, FileId, FileState, Folder};

use super::Transfer;
use super::plan::Batch;
use super::task::{FileTask, Opened};
use super::tree::TreePlan;
use crate::exit::Failure;

/// An input that may be removed because its result exists.
pub(super) struct Read {
    pub(super) batch: usize,
    pub(super) task: usize,
    pub(super) state: FileState,
    /// Whether another input needs it.
    pub(super) is_needed: bool,
}

impl Transfer<'_> {
    /// For each file that is processed, the files that it needs, whatever their names are.
    pub(super) fn needs(&self, batches: &[(&Path, Batch)]) -> Dependencies {
        let tasks = batches.iter().flat_map(|(_, batch)| &batch.tasks);
        let mut needs = Dependencies::new(tasks.flat_map(|task| &task.bases));
        for batch in batches.iter().map(|(_, batch)| batch) {
            for task in batch.tasks.iter().filter(|task| task.is_file()) {
                // A file that cannot be opened fails later, when it is processed.
                let (Ok(Opened::File(file)), Some(id)) =
                    (task.open(batch.tree.as_ref()), task.id())
                else {
                    continue;
                };
                needs.add(id, task.rounding_sources.iter().filter_map(|&i| batch.tasks[i].id()));
                self.direction.add_needs(task, id, file, &mut needs);
            }
        }
        needs.finish();
        needs
    }

    /// Removes the inputs that were kept for others, unless one of those failed: a second try then
    /// needs the input and everything that the input needs itself.
    pub(super) fn remove_kept(
        &mut self,
        batches: &[(&Path, Batch)],
        kept: Vec<Read>,
        needs: &Dependencies,
        mut left: HashSet<FileId>,
    ) {
        let mut open: Vec<FileId> = left.iter().copied().collect();
        while let Some(id) = open.pop() {
            open.extend(needs.of(id).filter(|&needed| left.insert(needed)));
        }
        for read in kept {
            let batch = &batches[read.batch].1;
            let task = &batch.tasks[read.task];
            let name = task.source.as_deref().unwrap_or(Path::new("-"));
            if read.is_needed && task.id().is_some_and(|id| left.contains(&id)) {
                let name = name.display();
                self.progress
                    .note(format_args!("lmc: {name}: kept, because a file that remains needs it"));
            } else if let Err(failure) = self.remove_name(task, batch.tree.as_ref(), &read.state) {
                self.failed(name, &failure);
            }
        }
    }

    /// Removes an input if it is still the file that was read. Its other names may be inputs too:
    /// the removal of this name does not count as a change.
    fn remove_name(
        &mut self,
        task: &FileTask,
        tree: Option<&TreePlan>,
        read: &FileState,
    ) -> Result<(), Failure> {
        let seen = *self.renewed.get(&read.id).unwrap_or(read);
        let other_name = (seen.names > 1).then(|| task.open_renewed(tree, &self.renewed));
        remove(task, tree, &seen)?;
        if let Some(Opened::File(file)) = other_name.transpose()? {
            let now = FileState::of(&file).map_err(|error| Failure::io("access it", &error))?;
            self.renewed.insert(seen.id, seen.renewed(now));
        }
        Ok(())
    }
}

/// Removes an input if it is still the file that was seen.
pub(super) fn remove(
    task: &FileTask,
    tree: Option<&TreePlan>,
    seen: &FileState,
) -> Result<(), Failure> {
    match (tree, &task.in_tree, &task.source) {
        (Some(tree), Some(place), _) => tree.source.remove(&place.source, seen)?,
        (_, _, Some(path)) => {
            let (folder, name) = Folder::reach_parent(path)
                .map_err(|error| Failure::io("open its folder", &error))?;
            lmc::remove_seen(&folder, &name, seen)?;
        }
        _ => {}
    }
    Ok(())
}
