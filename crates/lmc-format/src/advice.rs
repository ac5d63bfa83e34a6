//! What a caller can do about an error, independent of any user interface.
//!
//! A library cannot know whether it is called by the command or from Python. So it gives its advice
//! as a value, and each user interface has its own words for it.

/// Defines the enum and the list of its variants together, so that the list is complete.
macro_rules! advice {
    ($($(#[doc = $doc:literal])* $variant:ident,)*) => {
        /// What would help.
        ///
        /// A user interface should match it without a wildcard, so that a new variant does not
        /// compile until there are words for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Advice {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Advice {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name of the variant, for text that another process reads.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }
        }
    };
}

advice! {
    /// Use a newer version of lmc: the data was written by one.
    Upgrade,
    /// Allow what already exists to be replaced.
    Overwrite,
    /// Choose another path for the result.
    ChooseOutput,
    /// Choose another name for a file that is not the only result.
    ChooseName,
    /// Choose another path for the result, or have it as a stream.
    ChooseFileOrStream,
    /// Create the folder that the result should be in, or choose another path for it.
    CreateFolder,
    /// Allow a larger result.
    RaiseMaxSize,
    /// Give the base that is needed.
    GiveBase,
    /// Give an older base instead.
    GiveOlderBase,
    /// Give another base instead.
    GiveOtherBase,
    /// Compress against an older base, or restore one in the middle of the chain first.
    ShortenChain,
    /// If the file can be trusted, restore its bases first and give the originals as bases.
    RestoreBasesFirst,
    /// Create a store.
    CreateStore,
    /// Move the damaged configuration away and create the store again. The snapshots are kept.
    RecreateStore,
    /// Create the store in a folder of one's own or in a new one, or let others read it.
    ChooseOwnFolder,
    /// List the snapshots.
    ListSnapshots,
    /// List the paths of a snapshot.
    ListPaths,
    /// Allow files to be restored into a directory that is not empty.
    RestoreIntoDirectory,
    /// Save what links lead to instead of the links.
    FollowLinks,
    /// Have the store checked for damage.
    CheckStore,
    /// Have the store repaired, which moves away anything that does not belong there.
    RepairStore,
    /// Have the store checked, and repaired if something is missing.
    CheckAndRepair,
    /// Allow a prune to leave nothing.
    AllowEmpty,
}

impl Advice {
    /// The variant with this [`Advice::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|advice| advice.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name gives back its variant, and no other name does.
    #[test]
    fn names_there_and_back() {
        for &advice in Advice::ALL {
            assert_eq!(Advice::from_name(advice.name()), Some(advice));
        }
        assert_eq!(Advice::from_name("overwrite"), None);
    }
}
