//! What a result needs stays: it is neither what the result is made from, nor what it takes the
//! place of. Files are told by what they are, not by their names.

use crate::archive::Archive;
use crate::base::{Base, Bases};
use crate::context::Context;
use crate::files::folder::FileId;
use lmc_format::{Advice, Error, Result};
use std::collections::HashSet;

/// What goes, or may go, when there is a result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Going {
    /// What the result is made from.
    pub input: Option<FileId>,
    /// What it takes the place of.
    pub replaced: Option<FileId>,
}

impl Going {
    /// Fails if one of the bases that were given goes, whether or not it will be of use.
    pub(crate) fn check_given(self, bases: &Bases) -> Result<()> {
        self.check_input()?;
        bases.list().iter().try_for_each(|base| {
            if self.input.is_some() && base.id() == self.input {
                return Err(Error::invalid("is its own base").with_advice(Advice::GiveOlderBase));
            }
            self.check_replaced(base)
        })
    }

    /// Fails unless all that `bases` need is there, and if any of it goes.
    pub(crate) fn check_below(self, bases: &[&Base], context: &Context) -> Result<()> {
        bases.iter().try_for_each(|base| base.height(1, context).map(|_| ()))?;
        self.check_each(bases.to_vec())
    }

    /// Fails if what is to be restored goes, or anything that it needs.
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
