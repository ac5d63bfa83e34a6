//! What a user can do about an error, in terms of this command: its options and subcommands.

use std::fmt::Display;

use lmc::{Advice, Error};
use lmc_store::Warning;

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

fn words(advice: Advice) -> &'static str {
    match advice {
        Advice::Upgrade => "use a newer lmc",
        Advice::Overwrite => "-f overwrites it",
        Advice::ChooseOutput => "give another -o",
        Advice::ChooseFileOrStream => "give another -o, or -c for stdout",
        Advice::ChooseName => "give another name",
        Advice::CreateFolder => "make it, or give another name",
        Advice::RaiseMaxSize => "--max-size allows more",
        Advice::GiveBase => "give it with --base",
        Advice::GiveOlderBase => "give an older one with --base",
        Advice::GiveOtherBase => "give another --base",
        Advice::ShortenChain => {
            "compress with an older --base, or decompress one of the files first"
        }
        Advice::RestoreBasesFirst => {
            "if you trust it, decompress its bases first and give those with --base"
        }
        Advice::CreateStore => "lmc init creates one",
        Advice::RecreateStore => {
            "move it away and run lmc init at the same place: the snapshots stay"
        }
        Advice::ChooseOwnFolder => {
            "name a folder of your own or a new one, or share the store: lmc init --shared"
        }
        Advice::ListSnapshots => "lmc log lists the snapshots",
        Advice::ListPaths => "lmc ls lists the paths",
        Advice::RestoreIntoDirectory => "-f restores into it",
        Advice::FollowLinks => "--dereference saves their targets",
        Advice::CheckStore => "run lmc check",
        Advice::RepairStore => "lmc repair moves it away",
        Advice::CheckAndRepair => "run lmc check and lmc repair",
        Advice::AllowEmpty => "if the store is meant to be empty, --allow-empty removes them",
    }
}

#[cfg(test)]
mod tests;
