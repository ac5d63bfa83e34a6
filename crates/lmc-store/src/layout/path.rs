//! The path of a file in a snapshot: relative, made of plain names, in bytes as on Unix.

use crate::layout::names::{hex, unhex};
use lmc_format::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest path in bytes.
pub(crate) const PATH_LEN_MAX: usize = 4096;
/// Longest name in it.
pub(crate) const NAME_LEN_MAX: usize = 255;

/// A path below the root of a snapshot. It cannot lead out of it: no part is empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Accepts a path if it can be restored anywhere.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let wrong = |why: &str| {
            let path = String::from_utf8_lossy(bytes).escape_debug().to_string();
            Err(Error::invalid(format!("path \"{path}\" {why}")))
        };
        if bytes.is_empty() || bytes.len() > PATH_LEN_MAX {
            return wrong("is empty or too long");
        }
        for name in bytes.split(|&byte| byte == b'/') {
            match name {
                b"" => return wrong("is absolute or has an empty part"),
                b"." | b".." => return wrong("has a part that is . or .."),
                _ if name.len() > NAME_LEN_MAX => return wrong("has a part that is too long"),
                _ if name.contains(&0) => return wrong("has a zero byte"),
                _ => {}
            }
        }
        Ok(Self(bytes.to_vec()))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path as the system takes it.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The names in it.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.0.split(|&byte| byte == b'/').map(OsStr::from_bytes)
    }

    /// The path of its folder; none at the root.
    pub fn folder(&self) -> Option<Self> {
        let end = self.0.iter().rposition(|&byte| byte == b'/')?;
        Some(Self(self.0[..end].to_vec()))
    }

    /// Its last name.
    pub fn name(&self) -> &OsStr {
        self.parts().next_back().unwrap_or_default()
    }

    /// The path of `name` in this folder.
    pub fn join(&self, name: &[u8]) -> Result<Self> {
        Self::new(&[&self.0[..], b"/", name].concat())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// A path in a manifest: text, or hex if it is not UTF-8.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Hex { hex: String },
}

impl TryFrom<Text> for RelPath {
    type Error = Error;

    fn try_from(text: Text) -> Result<Self> {
        match text {
            Text::Plain(text) => Self::new(text.as_bytes()),
            Text::Hex { hex } => {
                Self::new(&unhex(&hex).ok_or_else(|| Error::invalid("path is not hex"))?)
            }
        }
    }
}

impl From<RelPath> for Text {
    fn from(path: RelPath) -> Self {
        match String::from_utf8(path.0) {
            Ok(text) => Self::Plain(text),
            Err(e) => Self::Hex { hex: hex(e.as_bytes()) },
        }
    }
}
