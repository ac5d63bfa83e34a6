//! What a user can do about an error, in terms of the Python package: arguments and methods.
//!
//! It uses nothing of Python, so that `tests/advice.rs` can include it without an interpreter.

use lmc::{Advice, Error};
use lmc_store::Warning;
use std::fmt::Display;

/// An error in one line, with advice.
pub fn of_error(error: &Error) -> String {
    advised(error, error.advice())
}

/// The same for a problem that was worked around.
pub fn of_warning(warning: &Warning) -> String {
    advised(warning, warning.advice)
}

fn advised(text: impl Display, advice: Option<Advice>) -> String {
    match advice {
        Some(advice) => format!("{text}; {}", words(advice)),
        None => text.to_string(),
    }
}

/// The text for a piece of advice.
pub fn words(advice: Advice) -> &'static str {
    match advice {
        Advice::Upgrade => "use a newer lmckpt",
        Advice::Overwrite => "overwrite=True replaces it",
        Advice::ChooseOutput | Advice::ChooseFileOrStream | Advice::ChooseName => {
            "give another path"
        }
        Advice::CreateFolder => "make it, or give another path",
        Advice::RaiseMaxSize => "max_size allows more",
        Advice::GiveBase => "put it next to the file, or give it to decompress in bases=",
        Advice::GiveOlderBase => "give an older one",
        Advice::GiveOtherBase => "give another base",
        Advice::ShortenChain => "compress with an older base, or decompress one of the files first",
        Advice::RestoreBasesFirst => {
            "if you trust it, decompress its bases first and give those as bases"
        }
        Advice::CreateStore => "Store(url, create=True) creates one",
        Advice::RecreateStore => {
            "move it away and call Store.init with the same URL: the snapshots stay"
        }
        // Sharing a store is also possible, but only with the command.
        Advice::ChooseOwnFolder => {
            "name a folder of your own or a new one, or share the store with the command lmc init"
        }
        Advice::ListSnapshots => "Store.snapshots() lists the snapshots",
        Advice::ListPaths => "Store.files(snapshot) lists the paths",
        Advice::RestoreIntoDirectory => "overwrite=True restores into it",
        Advice::FollowLinks => "save their targets instead",
        Advice::CheckStore => "run Store.check()",
        // The package has no repair, but the command that comes with it has.
        Advice::RepairStore => "the command lmc repair moves it away",
        Advice::CheckAndRepair => "run Store.check() and the command lmc repair",
        Advice::AllowEmpty => "if the store is meant to be empty, allow_empty=True removes them",
    }
}
