//! Protects files that a result needs: they must be neither the input of the result nor the file
//! that it replaces. Files are identified by device and number, not by name.

use crate::archive::Archive;
use crate::base::{Base, BaseSet};
use crate::context::Context;
use crate::files::folder::FileId;
use lmc_format::{Advice, Error, Result};
use std::collections::HashSet;

/// Files that are or may be removed when the result is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Going {
    /// The file that the result is made from.
    pub input: Option<FileId>,
    /// The file that the result replaces.
    pub replaced: Option<FileId>,
}

impl Going {
    /// Fails if one of the given bases would be removed, whether or not it turns out to be useful.
    pub(crate) fn check_given(self, bases: &BaseSet) -> Result<()> {
        self.check_input()?;
        bases.list().iter().try_for_each(|base| {
            if self.input.is_some() && base.id() == self.input {
                return Err(Error::invalid("is its own base").with_advice(Advice::GiveOlderBase));
            }
            self.check_replaced(base)
        })
    }

    /// Fails unless everything that `bases` need is there, and if any of it would be removed.
    pub(crate) fn check_below(self, bases: &[&Base], context: &Context) -> Result<()> {
        bases.iter().try_for_each(|base| base.height(1, context).map(|_| ()))?;
        self.check_each(bases.to_vec())
    }

    /// Fails if the file to restore, or anything that it needs, would be removed.
    pub(crate) fn check_restore(self, archive: &Archive, context: &Context) -> Result<()> {
        self.check_input()?;
        archive.height(0, context)?;
        self.check_each(archive.needed()?)
    }

    fn check_input(self) -> Result<()> {
        if self.input.is_some() && self.input == self.replaced {
            let error = Error::invalid("input and output are the same file");
            return Err(error.with_advice(Advice::ChooseOutput));
        }
        Ok(())
    }

    fn check_each(self, mut open: Vec<&Base>) -> Result<()> {
        let mut known = HashSet::new();
        while let Some(base) = open.pop() {
            if !known.insert(std::ptr::from_ref(base)) {
                continue;
            }
            if self.input.is_some() && base.id() == self.input {
                let error = Error::invalid("would become part of its own base chain");
                return Err(error.with_advice(Advice::GiveOtherBase));
            }
            self.check_replaced(base)?;
            open.extend(base.needed()?);
        }
        Ok(())
    }

    fn check_replaced(self, base: &Base) -> Result<()> {
        if self.replaced.is_some() && base.id() == self.replaced {
            let message = format!("would replace the base {}, which it needs", base.path);
            return Err(Error::invalid(message).with_advice(Advice::ChooseOutput));
        }
        Ok(())
    }
}
