//! Patterns for paths, as in shells.

use crate::layout::path::RelPath;
use std::fmt;

/// A pattern: `*` is any text without `/`, `**` is any text, `?` is one character except `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    pattern: Vec<u8>,
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.pattern))
    }
}

impl Glob {
    /// A pattern. One without `/` matches names in any folder.
    pub fn new(pattern: &str) -> Self {
        Self::from_bytes(pattern.as_bytes())
    }

    /// The same for names that are not UTF-8.
    pub fn from_bytes(pattern: &[u8]) -> Self {
        let end = pattern.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        Self { pattern: pattern[..end].to_vec() }
    }

    /// Whether a path, or a folder that contains it, matches.
    pub fn fits_path(&self, path: &RelPath) -> bool {
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(i, _)| i);
        let mut ends = ends.chain([bytes.len()]);
        ends.any(|end| {
            let whole = &bytes[..end];
            let name = whole.rsplit(|&byte| byte == b'/').next().unwrap_or(whole);
            self.fits(if self.pattern.contains(&b'/') { whole } else { name })
        })
    }

    /// Whether all of `text` matches. The time is at most proportional to the product of the
    /// lengths.
    fn fits(&self, text: &[u8]) -> bool {
        let pattern = &self.pattern[..];
        // reached[j]: the pattern so far matches text[..j].
        let mut reached = vec![false; text.len() + 1];
        reached[0] = true;
        let mut i = 0;
        while i < pattern.len() {
            let is_deep = pattern[i..].starts_with(b"**");
            // `**/` also matches no folder at all.
            let before = pattern[i..].starts_with(b"**/").then(|| reached.clone());
            match pattern[i] {
                b'*' => {
                    for j in 0..text.len() {
                        reached[j + 1] |= reached[j] && (is_deep || text[j] != b'/');
                    }
                }
                byte => {
                    for j in (0..text.len()).rev() {
                        let fits = text[j] == byte || byte == b'?' && text[j] != b'/';
                        reached[j + 1] = reached[j] && fits;
                    }
                    reached[0] = false;
                }
            }
            i += if is_deep { 2 } else { 1 };
            if let Some(before) = before {
                for j in (0..text.len()).rev() {
                    reached[j + 1] = reached[j] && text[j] == b'/' || before[j + 1];
                }
                reached[0] = before[0];
                i += 1;
            }
        }
        reached[text.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stars stop at separators, double stars do not, and a matching folder includes its contents.
    #[test]
    fn patterns() {
        let fits = |glob: &str, path: &str| {
            Glob::new(glob).fits_path(&RelPath::new(path.as_bytes()).unwrap())
        };
        assert!(fits("*.json", "config.json") && fits("*.json", "a/b/config.json"));
        assert!(fits("a/*.json", "a/x.json") && !fits("a/*.json", "a/b/x.json"));
        assert!(fits("a/**.json", "a/b/x.json") && fits("a", "a/b/x.json") && fits("a/", "a/b"));
        assert!(fits("model-?.bin", "model-1.bin") && !fits("model-?.bin", "model-12.bin"));
        assert!(!fits("a", "ab") && !fits("", "a") && fits("**", "a/b/c"));
        assert!(fits("**/*.json", "x.json") && fits("**/*.json", "a/b/x.json"));
        assert!(fits("a/**/b", "a/b") && fits("a/**/b", "a/x/y/b") && !fits("a/**/b", "a/xb"));
        let long = "*a".repeat(100);
        assert!(!fits(&long, &"a".repeat(90)));
    }
}
