//! Advice has words of Python, not of the command.

#[path = "../src/advice.rs"]
mod advice;

use lmc::{Advice, Error};
use lmc_store::Warning;

/// Each advice has words, and none of them are options of the command.
#[test]
fn all_advice_has_words() {
    for &advice in Advice::ALL {
        let text = advice::words(advice);
        let is_option = |word: &str| word.starts_with('-');
        assert!(!text.is_empty() && !text.split(' ').any(is_option), "{advice:?}: {text}");
        let is_command =
            text.match_indices("lmc ").any(|(at, _)| !text[..at].ends_with("command "));
        assert!(!is_command, "{advice:?}: {text}");
    }
}

/// The advice comes last, in the same line.
#[test]
fn advice_is_part_of_the_line() {
    let error = Error::invalid("a already exists").at("b").with_advice(Advice::Overwrite);
    assert_eq!(advice::of_error(&error), "b: a already exists; overwrite=True replaces it");
    let warning = Warning { message: "damaged".into(), advice: Some(Advice::CheckStore) };
    assert_eq!(advice::of_warning(&warning), "damaged; run Store.check()");
}
