//! Text that cannot control a terminal.
//!
//! Names of files, tensors, runs and tags, and messages of servers, are chosen by others. A
//! [`Printable`] can be made only here, and `stdio.rs` prints nothing else. So the compiler makes
//! sure that no such text reaches a terminal unescaped.

use std::fmt::Display;

use serde_json::Value;

use crate::table::Table;

/// Lines of visible characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printable(String);

impl Printable {
    /// A part of a line. Characters that cannot be shown become codes such as `\x1b` or `\u{202e}`,
    /// and a backslash becomes two. So the original text can be recovered from the printed one.
    pub fn word(text: impl Display) -> Self {
        Self(escaped(&text.to_string(), |c| c == '\\' || is_hidden(c), shown_code))
    }

    /// A line of its own, escaped in the same way.
    pub fn line(text: impl Display) -> Self {
        let mut line = Self::word(text);
        line.0.push('\n');
        line
    }

    /// JSON, followed by a line end. Inside strings, characters that cannot be shown use JSON's own
    /// escapes, and outside strings there are none.
    pub fn json(value: &Value) -> Self {
        Self::part_of_json(format_args!("{value:#}\n"))
    }

    /// Part of a JSON text that is printed piece by piece.
    pub fn part_of_json(text: impl Display) -> Self {
        let json_code = |c: char| {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
        };
        Self(escaped(&text.to_string(), |c| c != '\n' && is_hidden(c), json_code))
    }

    /// Text in lines of our own: a help text, a script, a table. Names in it must already be
    /// escaped, as by [`Printable::word`], or they could end a line.
    pub fn layout(text: impl Display) -> Self {
        Self(escaped(&text.to_string(), |c| c != '\n' && is_hidden(c), shown_code))
    }

    /// Adds a line.
    pub fn push_line(&mut self, text: impl Display) {
        self.push(Self::line(text));
    }

    /// Adds text that is already printable.
    pub fn push(&mut self, text: impl Into<Self>) {
        self.0.push_str(&text.into().0);
    }

    /// The text as it is printed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Table> for Printable {
    fn from(table: Table) -> Self {
        Self::layout(table)
    }
}

/// Text that others print, such as that of an exception: one line, with hidden characters as their
/// codes. A backslash is not doubled, so text that was already made printable does not change:
/// errors are quoted in other errors.
pub fn one_line(text: &str) -> String {
    escaped(text, is_hidden, shown_code)
}

/// The one function that makes text printable: each chosen character becomes its code.
fn escaped(text: &str, is_chosen: impl Fn(char) -> bool, code: impl Fn(char) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_chosen(c) {
            true => shown += &code(c),
            false => shown.push(c),
        }
    }
    shown
}

/// Whether a character controls a terminal, reverses the direction of text, ends a line, or is
/// invisible.
fn is_hidden(c: char) -> bool {
    // The characters that Unicode calls "default ignorable", except the two joiners, which scripts
    // and emoji need; line and paragraph ends, embeddings and overrides, annotations, and the empty
    // Braille pattern.
    let is_format = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    c.is_control() || is_format
}

/// How a hidden character is shown in text.
fn shown_code(c: char) -> String {
    match c {
        '\\' => "\\\\".into(),
        '\n' => "\\n".into(),
        '\r' => "\\r".into(),
        '\t' => "\\t".into(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{{{:x}}}", u32::from(c)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Align;

    /// All characters except the rarest scripts.
    fn characters() -> impl Iterator<Item = char> {
        ('\0'..'\u{1f700}').chain('\u{e0000}'..='\u{e1000}')
    }

    /// The original text of a printed word.
    fn read_back(word: &str) -> String {
        let mut text = String::new();
        let mut rest = word;
        while let Some(at) = rest.find('\\') {
            text += &rest[..at];
            let code = &rest[at + 1..];
            let (c, len) = match &code[..1] {
                "x" => (u32::from_str_radix(&code[1..3], 16).expect("digits"), 3),
                "u" => {
                    let end = code.find('}').expect("an end");
                    (u32::from_str_radix(&code[2..end], 16).expect("digits"), end + 1)
                }
                "n" => (10, 1),
                "r" => (13, 1),
                "t" => (9, 1),
                "\\" => (92, 1),
                other => panic!("no code {other}"),
            };
            text.push(char::from_u32(c).expect("a character"));
            rest = &code[len..];
        }
        text + rest
    }

    /// A word can be read back, so no two texts look the same, and it contains nothing hidden.
    #[test]
    fn words_can_be_read_back() {
        let all: String = characters().collect();
        for text in [&all[..], "\\x1b", "\u{1b}", "\\\\", "a\\nb", "a\nb", "C:\\new", ""] {
            let word = Printable::word(text);
            assert_eq!(read_back(word.as_str()), text);
            assert!(!word.as_str().contains(is_hidden), "{word:?}");
        }
        assert_eq!(Printable::word("\u{1b}[2J\u{202e}").as_str(), "\\x1b[2J\\u{202e}");
        assert_eq!(Printable::line("a\nb").as_str(), "a\\nb\n");
    }

    /// Text for others contains nothing hidden, and does not change when it is escaped again.
    #[test]
    fn one_line_is_one_line() {
        let all: String = characters().collect();
        let line = one_line(&all);
        assert!(!line.contains(is_hidden));
        assert_eq!(one_line(&line), line);
        assert_eq!(one_line("a\\b\n\u{1b}"), "a\\b\\n\\x1b");
    }

    /// Characters that Unicode calls "default ignorable" are shown by their codes, except the two
    /// joiners; so is the empty Braille pattern.
    #[test]
    fn what_leaves_no_trace_is_shown() {
        let ignorable = [
            '\u{ad}'..='\u{ad}',
            '\u{34f}'..='\u{34f}',
            '\u{61c}'..='\u{61c}',
            '\u{115f}'..='\u{1160}',
            '\u{17b4}'..='\u{17b5}',
            '\u{180b}'..='\u{180f}',
            '\u{200b}'..='\u{200b}',
            '\u{200e}'..='\u{200f}',
            '\u{202a}'..='\u{202e}',
            '\u{2060}'..='\u{206f}',
            '\u{2800}'..='\u{2800}',
            '\u{3164}'..='\u{3164}',
            '\u{fe00}'..='\u{fe0f}',
            '\u{feff}'..='\u{feff}',
            '\u{ffa0}'..='\u{ffa0}',
            '\u{fff0}'..='\u{fff8}',
            '\u{1bca0}'..='\u{1bca3}',
            '\u{1d173}'..='\u{1d17a}',
            '\u{e0000}'..='\u{e0fff}',
        ];
        for c in ignorable.into_iter().flatten() {
            let code = format!("a\\u{{{:x}}}b", u32::from(c));
            assert_eq!(Printable::word(format!("a{c}b")).as_str(), code);
        }
    }

    /// Names in other scripts, and emoji, are printed unchanged.
    #[test]
    fn ordinary_text_stays() {
        for text in ["model.safetensors", "größe", "模型", "نموذج", "नमूना", "👩\u{200d}🔬", "a b"]
        {
            assert_eq!(Printable::word(text).as_str(), text);
        }
    }

    /// JSON keeps its value and contains nothing hidden except its line ends.
    #[test]
    fn json_keeps_its_value() {
        let all: String = characters().collect();
        let value = serde_json::json!({ &all[..]: [&all[..], 1, null] });
        let json = Printable::json(&value);
        assert_eq!(serde_json::from_str::<Value>(json.as_str()).expect("JSON"), value);
        assert!(!json.as_str().contains(|c| c != '\n' && is_hidden(c)));
    }

    /// A cell of a table cannot end a line or control the terminal.
    #[test]
    fn cells_stay_in_their_lines() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.push(vec!["a\n\u{1b}\\".into(), "1".into()]);
        assert_eq!(Printable::from(table).as_str(), "name       n\na\\n\\x1b\\\\  1\n");
    }
}
