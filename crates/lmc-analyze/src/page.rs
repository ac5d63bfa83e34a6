//! Pages that show what was measured: a title and JSON go in, one HTML file comes out.
//!
//! A page loads nothing: style, scripts and data are in the file, and its policy lets only these
//! two texts style or run. Names in the data may be hostile. They are data to the HTML parser, and
//! the scripts put them into the page as text.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Checkpoints: the data of `lmc analyze --json`.
    Analyze,
    /// A store: the data of `lmc report --json`.
    Report,
}

/// What goes around the texts below. Names in double braces are replaced.
const SKELETON: &str = include_str!("../page/page.html");

const STYLE: &str = concat!(include_str!("../page/style.css"), include_str!("../page/charts.css"));

/// What both kinds use.
const SHARED: &[&str] = &[
    include_str!("../page/format.js"),
    include_str!("../page/dom.js"),
    include_str!("../page/table.js"),
    include_str!("../page/plot.js"),
    include_str!("../page/axes.js"),
    include_str!("../page/lines.js"),
    include_str!("../page/bars.js"),
];

const ANALYZE: &[&str] = &[
    include_str!("../page/heat.js"),
    include_str!("../page/data.js"),
    include_str!("../page/sizes.js"),
    include_str!("../page/maps.js"),
    include_str!("../page/exponents.js"),
    include_str!("../page/engines.js"),
    include_str!("../page/plan.js"),
    include_str!("../page/analyze.js"),
];

const REPORT: &[&str] = &[include_str!("../page/chains.js"), include_str!("../page/report.js")];

/// Starts the page, after everything is defined.
const START: &str = include_str!("../page/start.js");

/// The page of this kind with this data. Any part of the data may be missing.
#[must_use]
pub fn render(kind: Kind, title: &str, data: &Value) -> String {
    let script = script(kind);
    let data = embedded(&data.to_string());
    let title = escaped(title);
    let style_hash = hash(STYLE);
    let script_hash = hash(&script);
    let mut page = String::with_capacity(SKELETON.len() + STYLE.len() + script.len() + data.len());
    // One pass over the skeleton alone: data that contains such a name stays as it is.
    let mut rest = SKELETON;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, tail)| Some((before, tail.split_once("}}")?)))
    {
        page.push_str(before);
        page.push_str(match name {
            "title" => &title,
            "style" => STYLE,
            "script" => &script,
            "style-hash" => &style_hash,
            "script-hash" => &script_hash,
            "data" => &data,
            _ => unreachable!("a test renders every name of the skeleton"),
        });
        rest = after;
    }
    page + rest
}

/// The script of a page: all its files in one function, in strict mode.
fn script(kind: Kind) -> String {
    let own = match kind {
        Kind::Analyze => ANALYZE,
        Kind::Report => REPORT,
    };
    let mut script = String::from("(() => {\n\"use strict\";\n");
    script.extend(SHARED.iter().chain(own).chain(&[START]).copied());
    script + "})();\n"
}

/// The hash of a text as a policy names it: SHA-256 in base64.
fn hash(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut hash = String::from("'sha256-");
    for three in Sha256::digest(text).chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            hash.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    hash + "'"
}

/// JSON that can be in a `<script>`: no byte of it ends or nests one, and no line ends in it.
/// Outside of its strings, JSON has none of these characters.
fn embedded(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                write!(text, "\\u{:04x}", u32::from(c)).expect("a string takes what is written");
            }
            _ => text.push(c),
        }
    }
    text
}

/// Text of HTML. What cannot be seen or turns the direction of text is replaced.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                html.push('\u{fffd}');
            }
            _ if c.is_control() => html.push('\u{fffd}'),
            _ => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- \"'&\u{2028}\u{2029}\u{0}\u{1b}\
                           \u{7f}\u{9b}\u{202e}{{title}}{{data}}\\";

    /// The text between two others.
    fn between<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
        let from = page.find(start).expect("the start is there") + start.len();
        &page[from..from + page[from..].find(end).expect("the end is there")]
    }

    /// Data stays within its element whatever its names are, and is read back unchanged.
    #[test]
    fn data_cannot_leave_its_element() {
        let mut data = serde_json::json!({ "tensors": [{ "name": HOSTILE }] });
        data[HOSTILE] = Value::from(1);
        for kind in [Kind::Analyze, Kind::Report] {
            let page = render(kind, HOSTILE, &data);
            assert_eq!(page.matches("<script").count(), 2);
            assert_eq!(page.matches("</script").count(), 2);
            let json =
                between(&page, "<script type=\"application/json\" id=\"data\">", "</script>");
            for c in ['<', '>', '&', '\u{2028}', '\u{2029}', '\u{0}', '\u{1b}', '\u{7f}', '\u{9b}']
            {
                assert!(!json.contains(c), "{c:?}");
            }
            assert_eq!(serde_json::from_str::<Value>(json).expect("JSON"), data);
        }
    }

    /// A title is text, and holds nothing that cannot be seen.
    #[test]
    fn titles_are_text() {
        let page = render(Kind::Analyze, HOSTILE, &Value::Null);
        let title = between(&page, "<title>", "</title>");
        assert!(title.starts_with("&lt;/script&gt;&lt;script&gt;alert(1)"), "{title}");
        assert!(
            title.ends_with(
                "&lt;!-- &quot;&#39;&amp;\
            \u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}{{title}}{{data}}\\"
            ),
            "{title}"
        );
    }

    /// The policy names exactly the style and the script that are in the page, and allows nothing
    /// else but images in the page itself.
    #[test]
    fn the_policy_names_what_is_there() {
        for kind in [Kind::Analyze, Kind::Report] {
            let page = render(kind, "a title", &Value::Null);
            let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
            let script = between(&page, "<script>", "</script>");
            let style = between(&page, "<style>", "</style>");
            assert_eq!(
                policy,
                format!(
                    "default-src 'none'; script-src {}; style-src {}; img-src data:; \
                     base-uri 'none'; form-action 'none'",
                    hash(script),
                    hash(style)
                )
            );
        }
    }

    /// Hashes are those that a browser computes.
    #[test]
    fn hashes_are_sha_256_in_base_64() {
        assert_eq!(hash("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
    }

    /// No file of the page can end its element, and none makes elements from text or loads
    /// anything.
    #[test]
    fn scripts_are_plain() {
        for text in SHARED.iter().chain(ANALYZE).chain(REPORT).chain(&[START, STYLE]) {
            for word in [
                "</",
                "<!--",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "Function(",
                "fetch(",
                "XMLHttpRequest",
                "import(",
                "@import",
                "url(",
                "https:",
                "\r",
            ] {
                assert!(!text.contains(word), "{word}");
            }
        }
    }
}
