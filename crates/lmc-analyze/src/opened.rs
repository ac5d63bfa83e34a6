//! A checkpoint whose files are open: its tensors, wherever they are.

use crate::figures::Exponents;
use crate::report::Skipped;
use crate::series::{Checkpoint, Part, names};
use lmc::{Base, BaseSet, Context, ErrorKind, Result, TensorInfo};
use lmc_format::SourceKind;
use std::collections::HashMap;
use std::sync::Arc;

/// A checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// Its files that have tensors. The others are not kept open.
    pub files: Vec<OpenFile>,
    /// The number of the others, and their bytes.
    others: (u64, u64),
    pub tensors: Vec<OpenTensor>,
    by_name: HashMap<String, usize>,
    /// How often each exponent occurs in each tensor, once all of it was counted.
    pub exponents: Vec<Exponents>,
}

/// A file of it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Its number in the checkpoint when it was opened.
    pub part: usize,
    /// How messages name it.
    pub path: String,
    pub base: Arc<Base>,
    /// Keeps what the file needs, if it is an archive.
    _set: BaseSet,
}

/// A tensor in one of its files.
#[derive(Debug)]
pub(crate) struct OpenTensor {
    /// The place of its file in the list.
    pub file: usize,
    /// Its name in the series.
    pub name: String,
    pub info: TensorInfo,
    /// Bytes of a row; 0 if there are none.
    pub row_bytes: u64,
}

impl OpenTensor {
    /// Its bytes.
    pub(crate) fn len(&self) -> u64 {
        self.info.range.end - self.info.range.start
    }
}

impl Opened {
    /// Opens all files of a checkpoint. Those that cannot be read are left out, of the checkpoint
    /// too. If `has_prefixes`, the names of tensors begin with those of their files.
    pub(crate) fn open(
        checkpoint: &mut Checkpoint,
        has_prefixes: bool,
        context: &Context,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Self> {
        let mut opened = Self::default();
        let mut i = 0;
        while let Some(part) = checkpoint.parts.get(i) {
            context.interrupt.check()?;
            match opened.add(part, i, has_prefixes, context) {
                Ok(repeated) => {
                    repeated
                        .into_iter()
                        .for_each(|why| Skipped::note(skipped, Skipped::new(&part.path, why)));
                    i += 1;
                }
                Err(error) if error.kind == ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    Skipped::note(skipped, Skipped::of_error(&part.path, &error));
                    checkpoint.parts.remove(i);
                }
            }
        }
        Ok(opened)
    }

    /// Adds a file. Says so if it has tensors whose names another one has too.
    fn add(
        &mut self,
        part: &Part,
        number: usize,
        has_prefixes: bool,
        context: &Context,
    ) -> Result<Option<String>> {
        let set = part.open(context)?;
        let Some(base) = set.list().last().cloned() else {
            return Err(lmc::Error::invalid("could not be opened; please report it"));
        };
        if part.version.get_or_init(|| base.version()) != &base.version() {
            return Err(changed());
        }
        if names::is_archive(&part.path) && !base.is_archive() {
            let message = "is not a .lmc archive: it is cut off, damaged or another file";
            return Err(lmc::Error::corrupt(message));
        }
        let layout = base.layout()?;
        let is_safetensors = layout.kind == SourceKind::Safetensors;
        if !is_safetensors && part.is_safetensors() {
            let message = "is not a whole safetensors file: it is cut off, damaged or another file";
            return Err(lmc::Error::corrupt(message));
        }
        let infos = base.tensors()?;
        if !is_safetensors && infos.is_empty() {
            self.others.0 += 1;
            self.others.1 += base.original_len();
            return Ok(None);
        }
        let file = self.files.len();
        let mut repeated = 0;
        for (info, item) in infos.iter().zip(layout.items.iter().skip(1)) {
            let name = match has_prefixes && !part.key.is_empty() {
                true => format!("{}/{}", part.key, info.name),
                false => info.name.clone(),
            };
            if self.by_name.contains_key(&name) {
                repeated += 1;
                continue;
            }
            self.by_name.insert(name.clone(), self.tensors.len());
            let row_bytes = item.row_len.saturating_mul(info.dtype.width() as u64);
            self.tensors.push(OpenTensor { file, name, info: info.clone(), row_bytes });
        }
        self.files.push(OpenFile { part: number, path: part.path.clone(), base, _set: set });
        Ok((repeated > 0)
            .then(|| format!("{repeated} of its tensors have names that another file has too")))
    }

    /// The files that were written to since they were opened.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (usize, lmc::Error)> + '_ {
        let files = self.files.iter().enumerate();
        files.filter(|(_, file)| file.base.check_unchanged().is_err()).map(|(i, _)| (i, changed()))
    }

    /// The place of the tensor with this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Forgets files that turned out to be unreadable, with their tensors: those of which this says
    /// so.
    pub(crate) fn leave_out(&mut self, is_bad: &[bool]) {
        let tensors = std::mem::take(&mut self.tensors);
        let exponents = std::mem::take(&mut self.exponents);
        self.by_name.clear();
        for (tensor, exponents) in tensors.into_iter().zip(exponents) {
            if !is_bad[tensor.file] {
                self.by_name.insert(tensor.name.clone(), self.tensors.len());
                self.tensors.push(tensor);
                self.exponents.push(exponents);
            }
        }
    }

    /// Files, bytes of them, and those of tensors, without unreadable files.
    pub(crate) fn sizes(&self, is_bad: &[bool]) -> (u64, u64, u64) {
        let good = self.files.iter().zip(is_bad).filter(|(_, is_bad)| !**is_bad);
        let (files, bytes) =
            good.fold(self.others, |(n, sum), (file, _)| (n + 1, sum + file.base.original_len()));
        let own = self.tensors.iter().filter(|tensor| !is_bad[tensor.file]);
        (files, bytes, own.map(OpenTensor::len).sum())
    }
}

/// What is said of a file that is not the one that was measured before.
fn changed() -> lmc::Error {
    lmc::Error::invalid("was changed or replaced while it was analyzed")
}
