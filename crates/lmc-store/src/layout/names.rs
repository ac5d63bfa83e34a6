//! The names of objects. Runs and tags are escaped so that any text is safe. The names of snapshots
//! describe them, so a list of names is enough and no manifest has to be opened.

use lmc_format::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::fmt::Write;

/// Longest name of a run or a tag in bytes: even escaped, it fits in a file name.
pub(crate) const LABEL_LEN_MAX: usize = 80;
/// Folder of manifests.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// Folder of the marks of forgotten snapshots.
pub(crate) const FORGOTTEN: &str = "forgotten";
/// Folder of tags.
pub(crate) const TAGS: &str = "tags";
/// Folder of packs.
pub(crate) const PACKS: &str = "packs";
/// Folder of the leases of saves.
pub(crate) const PENDING: &str = "pending";
/// Folder of the leases of prunes.
pub(crate) const PRUNING: &str = "pruning";
/// Folder of manifests that a repair moved away.
pub(crate) const DAMAGED: &str = "damaged";
/// The folders of a store, which exist from the start.
pub(crate) const FOLDERS: [&str; 7] =
    [PACKS, SNAPSHOTS, FORGOTTEN, TAGS, PENDING, PRUNING, DAMAGED];
/// The empty object in each folder that shows that the folder exists. No run, tag or id has this
/// name.
pub(crate) const MARKER: &str = ".folder";

/// The most parts that the name of an object has; those of tags have the most. Anything deeper is
/// not ours.
pub(crate) const NAME_PARTS_MAX: usize = 5;
/// The last page of a run.
pub(crate) const PAGE_MAX: u64 = 99_999_999;
/// Hex digits of a snapshot's id.
const ID_LEN: usize = 32;
/// Hex digits of the hash of a pack.
const PACK_HASH_LEN: usize = 64;

/// Whether a listed name is that of a file whose name is not UTF-8. No object of ours has such a
/// name, and such a file cannot be reached.
pub(crate) fn is_unreachable(object: &str) -> bool {
    object.contains(char::REPLACEMENT_CHARACTER)
}

/// 128 random bits in hex.
pub(crate) fn random_id() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| no_random(&e))?;
    Ok(hex(&bytes))
}

/// A random number for a copy of a pack, far from the numbers that are counted up. It is almost
/// certain that no other copy ever had it.
pub(crate) fn random_copy_number() -> Result<u32> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|e| no_random(&e))?;
    Ok(u32::from_le_bytes(bytes) | 1 << 31)
}

fn no_random(error: &getrandom::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot get random numbers: {error}"))
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of hex digits; none if the text is not hex digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| is_hex(pair))?;
        u8::from_str_radix(pair, 16).ok()
    };
    digits.remainder().is_empty().then(|| digits.map(byte).collect())?
}

/// Whether these are lower-case hex digits.
pub(crate) fn is_hex(text: &str) -> bool {
    text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether this is an id, of a snapshot or a random one.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && is_hex(text)
}

/// A run or a tag as part of the name of an object. Upper-case letters, separators, a leading dot
/// and the names of devices are escaped: a byte becomes `=` and two hex digits.
pub(crate) fn escape(label: &str) -> Result<String> {
    check_label(label)?;
    let mut text = String::new();
    for (i, byte) in label.bytes().enumerate() {
        let is_plain = matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')
            || byte == b'.' && i > 0 && i + 1 < label.len();
        if is_plain && !(i == 0 && is_device(label)) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "={byte:02x}");
        }
    }
    Ok(text)
}

/// The label that was escaped; none if [`escape`] could not have written this text.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'=' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.extend(unhex(digits)?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    let label = String::from_utf8(bytes).ok()?;
    (escape(&label).ok()? == text).then_some(label)
}

/// Fails unless `label` can name a run or a tag.
pub(crate) fn check_label(label: &str) -> Result<()> {
    if label.is_empty() || label.len() > LABEL_LEN_MAX {
        let message = format!("the name of a run or a tag must have 1 to {LABEL_LEN_MAX} bytes");
        return Err(Error::invalid(message));
    }
    if label.chars().any(char::is_control) {
        return Err(Error::invalid(
            "the name of a run or a tag must not contain control characters",
        ));
    }
    Ok(())
}

/// Whether some systems reserve this name for a device, with any ending.
fn is_device(label: &str) -> bool {
    let stem = label.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = |name: &str| {
        let rest = stem.strip_prefix(name);
        rest.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|c| c.is_ascii_digit()))
    };
    matches!(&stem[..], "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// A snapshot, as its name describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotName {
    /// The run it belongs to.
    pub run: String,
    /// The page of its run that it is on. A page is a folder with a limited number of names, so the
    /// newest snapshots are found without listing all of them.
    pub page: u64,
    /// The step of training.
    pub step: u64,
    /// When it was saved, in milliseconds since 1970.
    pub time_ms: u64,
    /// Bytes of its files.
    pub size: u64,
    /// Bytes that it added to the store.
    pub added: u64,
    /// The start of the BLAKE3 hash of its manifest, in hex.
    pub id: String,
}

impl SnapshotName {
    /// Run, page and name: identifies the snapshot below any folder.
    pub fn key(&self) -> Result<String> {
        let Self { run, page, step, time_ms, size, added, id } = self;
        let run = escape(run)?;
        Ok(format!("{run}/{page:08}/{step:020}-{time_ms:014}-{size}-{added}-{id}"))
    }

    /// The object of its manifest.
    pub fn object(&self) -> Result<String> {
        Ok(format!("{SNAPSHOTS}/{}", self.key()?))
    }

    /// The mark that says that it is forgotten.
    pub fn forgotten(&self) -> String {
        format!("{FORGOTTEN}/{}", self.id)
    }

    /// The object that gives it a tag.
    pub fn tag(&self, tag: &str) -> Result<String> {
        Ok(format!("{TAGS}/{}/{}", escape(tag)?, self.key()?))
    }

    /// Parses the text that [`SnapshotName::key`] gives; none if it is not such a text.
    pub fn parse(key: &str) -> Option<Self> {
        let (run, rest) = key.split_once('/')?;
        Self::parse_in(&unescape(run)?, rest)
    }

    /// The same for the part of a key after the run, so that the run is parsed only once for many
    /// keys.
    pub(crate) fn parse_in(run: &str, rest: &str) -> Option<Self> {
        let (page, name) = rest.split_once('/')?;
        let page = parse_page(page)?;
        let mut fields = name.split('-');
        let mut next = || fields.next();
        let (step, time_ms) = (padded(next()?, 20)?, padded(next()?, 14)?);
        let (size, added, id) = (padded(next()?, 1)?, padded(next()?, 1)?, next()?);
        let is_id = id.len() == ID_LEN && is_hex(id) && next().is_none();
        let (run, id) = (run.to_string(), id.to_string());
        is_id.then_some(Self { run, page, step, time_ms, size, added, id })
    }

    /// The id of a manifest with these bytes.
    pub fn id_of(manifest: &[u8]) -> String {
        blake3::hash(manifest).to_hex()[..ID_LEN].to_string()
    }

    /// The id as people write it.
    pub fn short_id(&self) -> &str {
        &self.id[..8]
    }

    fn order(&self) -> (u64, u64, &str) {
        (self.time_ms, self.step, &self.id)
    }
}

/// The number of the page that a folder of a run holds.
pub(crate) fn parse_page(folder: &str) -> Option<u64> {
    padded(folder, 8).filter(|&page| page <= PAGE_MAX)
}

/// A number that was written with at least `width` digits and no unnecessary leading zeros.
fn padded(text: &str, width: usize) -> Option<u64> {
    let is_plain = text.bytes().all(|c| c.is_ascii_digit());
    let fits = text.len() == width || text.len() > width && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain && fits)
}

/// The order in which snapshots were saved; numbers are compared as numbers.
impl Ord for SnapshotName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order()).then_with(|| self.run.cmp(&other.run))
    }
}

impl PartialOrd for SnapshotName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A pack: the BLAKE3 hash of its bytes, and a number if several packs have the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackName(String);

impl PackName {
    /// The pack of these bytes; `number` is 0 except for copies.
    pub fn of(bytes: &[u8], number: u32) -> Self {
        Self::numbered(blake3::hash(bytes).to_hex().as_str(), number)
    }

    /// The pack of bytes in several pieces.
    pub(crate) fn of_pieces(pieces: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self::numbered(hasher.finalize().to_hex().as_str(), 0)
    }

    fn numbered(hash: &str, number: u32) -> Self {
        Self(if number == 0 { hash.to_string() } else { format!("{hash}-{number}") })
    }

    /// The next copy of the same bytes.
    pub fn next_copy(&self) -> Self {
        Self::numbered(self.hash(), self.number().saturating_add(1))
    }

    /// The copy of the same bytes with this number.
    pub fn numbered_copy(&self, number: u32) -> Self {
        Self::numbered(self.hash(), number)
    }

    /// A name as written in a manifest; none if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (hash, number) = match text.split_once('-') {
            Some((hash, number)) => (hash, number.parse().ok().filter(|&number| number > 0)?),
            None => (text, 0_u32),
        };
        let is_name = hash.len() == PACK_HASH_LEN && is_hex(hash);
        (is_name && Self::numbered(hash, number).0 == text).then(|| Self(text.to_string()))
    }

    /// The pack of an object; none if the object is not a pack.
    pub fn from_object(object: &str) -> Option<Self> {
        let (_, name) = object.rsplit_once('/')?;
        Self::parse(name).filter(|name| name.object() == object)
    }

    /// Its object.
    pub fn object(&self) -> String {
        format!("{PACKS}/{}/{}", &self.0[..2], self.0)
    }

    /// The name as written in a manifest.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash of its bytes, in hex.
    pub fn hash(&self) -> &str {
        &self.0[..PACK_HASH_LEN]
    }

    fn number(&self) -> u32 {
        self.0.get(PACK_HASH_LEN + 1..).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Whether these are the bytes that its name promises.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        blake3::hash(bytes).to_hex().as_str() == self.hash()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every label can be recovered, and none becomes a path, a hidden file or a device.
    #[test]
    fn labels_are_safe_names() {
        let labels = [
            "run",
            "Run",
            "a/b",
            "..",
            ".",
            ".hidden",
            "con",
            "NUL.txt",
            "com1",
            "ü/é",
            "a b",
            "x=41",
            "%2e",
            "trailing.",
            "-",
            "\u{202e}rtl",
            "a\\b",
            "*",
            "\u{1f600}",
        ];
        let mut seen = std::collections::HashSet::new();
        for label in labels {
            let text = escape(label).unwrap();
            let is_safe =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.=".contains(c);
            assert!(text.chars().all(is_safe), "{text}");
            assert!(!text.starts_with('.') && !text.ends_with('.'), "{text}");
            assert!(!is_device(&text), "{text}");
            assert_eq!(unescape(&text).as_deref(), Some(label));
            assert!(seen.insert(text.to_lowercase()));
        }
        assert!(escape("").is_err() && escape("a\nb").is_err() && escape(&"x".repeat(81)).is_err());
        for text in ["=4", "=zz", "A", "=61", "/", ""] {
            assert_eq!(unescape(text), None, "{text}");
        }
    }

    /// Names of snapshots can be parsed again and are ordered by number.
    #[test]
    fn snapshot_names() {
        let name = |step, time_ms| SnapshotName {
            run: "My run".into(),
            page: 7,
            step,
            time_ms,
            size: 12,
            added: 3,
            id: "0123456789abcdef0123456789abcdef".into(),
        };
        let key = name(1000, 5).key().unwrap();
        assert_eq!(SnapshotName::parse(&key), Some(name(1000, 5)));
        assert!(name(999, 5) < name(1000, 5) && name(1000, 5) < name(3, 6));
        for bad in [
            "",
            "run/00000007/1-2-3-4-5",
            &key.replace("/00000007", ""),
            &key.replace("=4dy", "My"),
            &format!("{key}0"),
        ] {
            assert_eq!(SnapshotName::parse(bad), None, "{bad}");
        }
        // Each number has exactly one spelling.
        for (good, bad) in [("-12-3-", "-012-3-"), ("-12-3-", "-+12-3-"), ("-12-3-", "--12-3-")] {
            assert_eq!(SnapshotName::parse(&key.replace(good, bad)), None, "{bad}");
        }
        for (good, bad) in
            [("00001000-", "0001000-"), ("/0", "/00"), ("7/", "7/0"), ("-0000", "-00000")]
        {
            assert_eq!(SnapshotName::parse(&key.replacen(good, bad, 1)), None, "{bad}");
        }
        let large = name(u64::MAX, u64::MAX);
        assert_eq!(SnapshotName::parse(&large.key().unwrap()), Some(large));
    }

    /// No object name has more parts than a list looks at, whatever runs and tags are called.
    #[test]
    fn names_are_not_deep() {
        let (run, id) = ("a/b/../c/d".to_string(), "0".repeat(ID_LEN));
        let (page, step) = (PAGE_MAX, u64::MAX);
        let name = SnapshotName { run, page, step, time_ms: step, size: step, added: step, id };
        let damaged = format!("{DAMAGED}/{}.99", name.key().unwrap());
        let pack = PackName::of(b"bytes", u32::MAX).object();
        let tag = name.tag("x/y/z/../w").unwrap();
        let names = [name.object().unwrap(), name.forgotten(), damaged, pack, tag];
        let parts = names.map(|name| name.split('/').count());
        assert_eq!(parts.into_iter().max(), Some(NAME_PARTS_MAX), "{parts:?}");
    }

    /// Names of packs can be parsed again, copies are counted, and nothing else is accepted.
    #[test]
    fn pack_names() {
        let pack = PackName::of(b"bytes", 0);
        assert_eq!(PackName::from_object(&pack.object()), Some(pack.clone()));
        let copy = pack.next_copy().next_copy();
        assert!(copy.as_str().ends_with("-2") && copy.fits(b"bytes") && !copy.fits(b"other"));
        assert_eq!(PackName::parse(copy.as_str()), Some(copy.clone()));
        let hash = pack.hash();
        for bad in
            ["", &hash[1..], &format!("{hash}-0"), &format!("{hash}-01"), &format!("{hash}-")]
        {
            assert_eq!(PackName::parse(bad), None, "{bad}");
        }
        assert_eq!(PackName::from_object(&format!("packs/zz/{hash}")), None);
    }
}
