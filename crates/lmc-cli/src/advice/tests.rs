//! Only this crate puts advice into words: the libraries name no option and no subcommand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use lmc::{Advice, Error};

use super::{of_error, words};
use crate::args::Cli;

/// The crates that the user interfaces are built on.
const LIBRARIES: [&str; 5] = ["lmc-format", "lmc-codec", "lmc-input", "lmc", "lmc-store"];

/// Every kind of advice has its own text, and the options and subcommands in it exist.
#[test]
fn all_advice_has_words() {
    let ours = Vocabulary::of_command();
    let mut seen = BTreeSet::new();
    for &advice in Advice::ALL {
        let text = words(advice);
        assert!(!text.is_empty() && seen.insert(text), "{advice:?}: {text}");
        for word in text.split([' ', ',', ';', ':']).filter(|word| word.starts_with('-')) {
            assert!(ours.options.contains(word), "{advice:?}: there is no {word}");
        }
        for (_, rest) in text.match_indices("lmc ").map(|(at, name)| text.split_at(at + name.len()))
        {
            let subcommand = rest.split(' ').next().unwrap_or_default();
            assert!(ours.subcommands.contains(subcommand), "{advice:?}: no lmc {subcommand}");
        }
    }
}

/// The advice comes last, in the same line.
#[test]
fn advice_is_part_of_the_line() {
    let error = Error::invalid("a already exists").at("b");
    assert_eq!(of_error(&error), "b: a already exists");
    let error = error.with_advice(Advice::Overwrite);
    assert_eq!(of_error(&error), "b: a already exists; -f overwrites it");
}

/// A library does not know who calls it, so its advice is a value. Otherwise Python users would
/// read about options that they do not have.
#[test]
fn libraries_do_not_speak_in_options() {
    let ours = Vocabulary::of_command();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    let mut read = 0;
    for library in LIBRARIES {
        for path in sources(&crates.join(library).join("src")) {
            for literal in literals(&fs::read_to_string(&path).expect("a source file")) {
                read += 1;
                if ours.is_in(&literal) {
                    found.push(format!("{}: {literal}", path.display()));
                }
            }
        }
    }
    assert!(read > 1000, "only {read} literals");
    assert!(found.is_empty(), "these want an Advice:\n{}", found.join("\n"));
}

/// The search finds options and subcommands, and ignores text that only resembles them.
#[test]
fn the_search_for_options_works() {
    let ours = Vocabulary::of_command();
    let source = r##"
        // say("run lmc check");
        let a = "is there; -f overwrites it"; let c = '"'; let b: &'static str = "run lmc \
            check";
        let d = r#"an "--older" one"#; /* "--base" */ let e = "a - b, --, ulimit -u, .lmc files";
        let f = "x\"y give another -o";
        #[cfg(test)]
        mod tests { let g = "--max-size"; }
    "##;
    let found: Vec<_> = literals(source).into_iter().filter(|text| ours.is_in(text)).collect();
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[1], "run lmc check");
    assert_eq!(literals(source).len(), 5);
}

/// The options and subcommands of the command.
struct Vocabulary {
    /// Options with their dashes.
    options: BTreeSet<String>,
    subcommands: BTreeSet<String>,
}

impl Vocabulary {
    fn of_command() -> Self {
        let mut cli = Cli::command();
        cli.build();
        let subcommands = cli.get_subcommands().map(|command| command.get_name().to_string());
        let arguments = cli.get_subcommands().flat_map(clap::Command::get_arguments);
        let options = arguments.flat_map(|argument| {
            let long = argument.get_long().map(|name| format!("--{name}"));
            long.into_iter().chain(argument.get_short().map(|name| format!("-{name}")))
        });
        Self { options: options.collect(), subcommands: subcommands.collect() }
    }

    /// Whether a text names any long option, or one of our short options or subcommands.
    fn is_in(&self, text: &str) -> bool {
        let is_edge = |c: char| c.is_whitespace() || "\"'`(),.:;!?{}=".contains(c);
        let words: Vec<&str> = text.split(is_edge).filter(|word| !word.is_empty()).collect();
        let is_option = |word: &&str| match word.strip_prefix("--") {
            Some(long) => long.starts_with(|c: char| c.is_ascii_lowercase()),
            None => word.len() == 2 && self.options.contains(*word),
        };
        let is_call = |pair: &[&str]| pair[0] == "lmc" && self.subcommands.contains(pair[1]);
        words.iter().any(is_option) || words.windows(2).any(is_call)
    }
}

/// The source files of a crate, except those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        match path.file_stem().and_then(|name| name.to_str()) {
            Some("tests") => {}
            _ if path.is_dir() => found.extend(sources(&path)),
            _ => found.push(path),
        }
    }
    found
}

/// The string literals of a source file up to the tests at its end, with escapes resolved.
fn literals(source: &str) -> Vec<String> {
    let mut ends = source.match_indices("#[cfg(test)]");
    let is_end = |at: usize| after(&source[at..], "]").trim_start().starts_with("mod tests {");
    let end = ends.find(|&(at, _)| is_end(at)).map_or(source.len(), |(at, _)| at);
    let mut rest = &source[..end];
    let mut found = Vec::new();
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '/' if rest.starts_with("//") => after(rest, "\n"),
            '/' if rest.starts_with("/*") => after(rest, "*/"),
            // Character literals that look like quotes.
            '\'' if rest.starts_with("'\"'") => &rest[3..],
            '\'' if rest.starts_with("'\\") => after(&rest[3..], "'"),
            'r' if rest.starts_with("r#\"") => raw(rest, "\"#", &mut found),
            '"' => quoted(&rest[1..], &mut found),
            _ => &rest[c.len_utf8()..],
        };
    }
    found
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

fn raw<'a>(text: &'a str, end: &str, found: &mut Vec<String>) -> &'a str {
    let (literal, rest) = text[3..].split_once(end).unwrap_or((text, ""));
    found.push(literal.to_string());
    rest
}

/// Reads a literal to its end. A backslash before the end of a line joins it with the next one.
fn quoted<'a>(text: &'a str, found: &mut Vec<String>) -> &'a str {
    let mut literal = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('\n') => chars = chars.as_str().trim_start().chars(),
                Some('n') => literal.push('\n'),
                other => literal.extend(other),
            },
            _ => literal.push(c),
        }
    }
    found.push(literal);
    chars.as_str()
}
