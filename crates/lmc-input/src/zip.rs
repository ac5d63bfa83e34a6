//! The entries of a zip file, by its directory at the end.
//!
//! The input is any file, read in parts. The result is None unless all numbers agree: entries lie
//! one after the other before the directory, and each begins with a header of the same name.
//! Data is never read or unpacked.

use crate::little_endian::{u16_at, u32_at, u64_at};
use crate::source::Source;
use std::ops::Range;

/// The most entries of a file. Checkpoints have one for each tensor, and a few more.
const ENTRIES_MAX: u64 = 1 << 20;
/// The longest directory, which is held in memory.
const DIRECTORY_LEN_MAX: u64 = 1 << 26;

const LOCAL_LEN: usize = 30;
const CENTRAL_LEN: usize = 46;
const END_LEN: usize = 22;
const LOCATOR_LEN: u64 = 20;
const END64_LEN: usize = 56;
/// The longest comment behind the end record.
const COMMENT_LEN_MAX: u64 = 0xffff;

/// Flag bits of entries that are encrypted in one of three ways.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// Flag bit of entries whose lengths follow their data instead of being in front.
const LENGTHS_FOLLOW: u16 = 1 << 3;

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its name in the directory.
    name: Range<u32>,
    /// Where its header begins.
    pub header: u64,
    /// Its data in the file, packed or not.
    pub data: Range<u64>,
    /// Whether the data is stored as it is.
    pub is_stored: bool,
    /// Whether the data is encrypted.
    pub is_encrypted: bool,
}

impl Entry {
    /// Whether its bytes are those that were put in.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_stored && !self.is_encrypted
    }
}

/// The entries of a zip file.
#[derive(Debug)]
pub(crate) struct Zip {
    directory: Vec<u8>,
    /// In the order of the directory.
    entries: Vec<Entry>,
}

impl Zip {
    /// Reads the directory and the header of each entry.
    pub(crate) fn read(source: &Source) -> Option<Self> {
        // Files that begin with anything else, such as programs that unpack themselves, are of no
        // interest; most files that are no zip files end here.
        let mut start = [0; 4];
        source.fill(0, &mut start)?;
        if start != *b"PK\x03\x04" {
            return None;
        }
        let place = Place::find(source)?;
        let directory = source.bytes(place.range.clone())?;
        let mut entries = Vec::with_capacity(usize::try_from(place.count).ok()?);
        let mut at = 0;
        for _ in 0..place.count {
            let central = Central::read(&directory, at)?;
            at = central.end;
            entries.push(central.entry(source, &directory, place.range.start)?);
        }
        if at != directory.len() {
            return None;
        }
        let zip = Self { directory, entries };
        let order = zip.order();
        let follows = |pair: &[usize]| {
            let (a, b) = (&zip.entries[pair[0]], &zip.entries[pair[1]]);
            a.data.end <= b.header
        };
        order.windows(2).all(follows).then_some(zip)
    }

    /// Where a zip file begins that ends at `end`, with other bytes in front of it; None if no zip
    /// file without a comment ends there. Only the records of its end are looked at.
    pub(crate) fn start_before(source: &Source, end: u64) -> Option<u64> {
        let end_at = end.checked_sub(END_LEN as u64)?;
        let mut record = [0; END_LEN];
        source.fill(end_at, &mut record)?;
        if !record.starts_with(b"PK\x05\x06") || u16_at(&record, 20) != Some(0) {
            return None;
        }
        // Positions count from the start. Where the record of the end is, and what it says of that:
        let mut locator = [0; LOCATOR_LEN as usize];
        let locator_at = end_at.checked_sub(LOCATOR_LEN)?;
        source.fill(locator_at, &mut locator)?;
        let (at, said) = if locator.starts_with(b"PK\x06\x07") {
            (locator_at.checked_sub(END64_LEN as u64)?, u64_at(&locator, 8)?)
        } else {
            (end_at, u64::from(u32_at(&record, 12)?) + u64::from(u32_at(&record, 16)?))
        };
        at.checked_sub(said)
    }

    /// The entries, in the order of the directory.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries by position in the file.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&i| self.entries[i].header);
        order
    }

    /// The name of an entry, in whatever encoding it has.
    pub(crate) fn name(&self, entry: &Entry) -> &[u8] {
        &self.directory[entry.name.start as usize..entry.name.end as usize]
    }
}

/// Where the directory is.
struct Place {
    range: Range<u64>,
    count: u64,
}

impl Place {
    fn find(source: &Source) -> Option<Self> {
        // Most files have no comment.
        Self::find_in_tail(source, END_LEN as u64)
            .or_else(|| Self::find_in_tail(source, END_LEN as u64 + COMMENT_LEN_MAX))
    }

    /// Looks for the last record in so many bytes at the end.
    fn find_in_tail(source: &Source, len_max: u64) -> Option<Self> {
        let tail_len = source.len().min(len_max);
        let tail_start = source.len() - tail_len;
        let tail = source.bytes(tail_start..source.len())?;
        // The comment behind the record ends with the file.
        let at = (0..=tail.len().checked_sub(END_LEN)?).rev().find(|&at| {
            tail[at..].starts_with(b"PK\x05\x06")
                && u16_at(&tail, at + 20).map(usize::from) == Some(tail.len() - at - END_LEN)
        })?;
        let end = &tail[at..];
        let short = [
            u16_at(end, 4)?.into(),
            u16_at(end, 6)?.into(),
            u16_at(end, 8)?.into(),
            u16_at(end, 10)?.into(),
            u32_at(end, 12)?.into(),
            u32_at(end, 16)?.into(),
        ];
        let end_at = tail_start + at as u64;
        let ([disk, first_disk, count, total, len, start], limit) =
            Self::find_long(source, end_at, short)?;
        let directory_end = start.checked_add(len)?;
        let is_sound = disk == 0
            && first_disk == 0
            && count == total
            && count <= ENTRIES_MAX
            && len <= DIRECTORY_LEN_MAX
            && count * CENTRAL_LEN as u64 <= len
            && directory_end == limit;
        is_sound.then_some(Self { range: start..directory_end, count })
    }

    /// The fields of the end record with 64 bits, if there is one, and where the records of the end
    /// begin. `short` are the same fields of the other record, at `end_at`; they must agree unless
    /// they have the value that refers to the long ones.
    fn find_long(source: &Source, end_at: u64, short: [u64; 6]) -> Option<([u64; 6], u64)> {
        let mut locator = [0; LOCATOR_LEN as usize];
        let locator_at = end_at.checked_sub(LOCATOR_LEN);
        let has_locator = match locator_at {
            Some(at) => {
                source.fill(at, &mut locator)?;
                locator.starts_with(b"PK\x06\x07")
            }
            None => false,
        };
        let most = [0xffff, 0xffff, 0xffff, 0xffff, 0xffff_ffff, 0xffff_ffff];
        let (true, Some(locator_at)) = (has_locator, locator_at) else {
            let is_whole = short.iter().zip(most).all(|(&value, most)| value != most);
            return is_whole.then_some((short, end_at));
        };
        let record_at = u64_at(&locator, 8)?;
        let mut record = [0; END64_LEN];
        source.fill(record_at, &mut record)?;
        let record_end = u64_at(&record, 4)?.checked_add(12)?.checked_add(record_at)?;
        let long = [
            u32_at(&record, 16)?.into(),
            u32_at(&record, 20)?.into(),
            u64_at(&record, 24)?,
            u64_at(&record, 32)?,
            u64_at(&record, 40)?,
            u64_at(&record, 48)?,
        ];
        let agrees = |i: usize| short[i] == most[i] || short[i] == long[i];
        let is_sound = record.starts_with(b"PK\x06\x06")
            && record_end == locator_at
            && record_at + END64_LEN as u64 <= record_end
            && u32_at(&locator, 4)? == 0
            && u32_at(&locator, 16)? <= 1
            && (0..6).all(agrees);
        is_sound.then_some((long, record_at))
    }
}

/// An entry as the directory has it.
struct Central {
    flags: u16,
    method: u16,
    packed_len: u64,
    len: u64,
    header: u64,
    name: Range<usize>,
    /// Where the next one begins.
    end: usize,
}

impl Central {
    fn read(directory: &[u8], at: usize) -> Option<Self> {
        let fixed = directory.get(at..)?.get(..CENTRAL_LEN)?;
        let name_at = at + CENTRAL_LEN;
        let name = name_at..name_at + usize::from(u16_at(fixed, 28)?);
        let extra_end = name.end + usize::from(u16_at(fixed, 30)?);
        let end = extra_end + usize::from(u16_at(fixed, 32)?);
        if !fixed.starts_with(b"PK\x01\x02") || end > directory.len() {
            return None;
        }
        let mut long = Long::find(&directory[name.end..extra_end]);
        // The order is that of the long values.
        let len = long.value(u32_at(fixed, 24)?)?;
        let packed_len = long.value(u32_at(fixed, 20)?)?;
        let header = long.value(u32_at(fixed, 42)?)?;
        let disk = u16_at(fixed, 34)?;
        let (flags, method) = (u16_at(fixed, 8)?, u16_at(fixed, 10)?);
        let is_sound = (disk == 0 || disk == 0xffff) && (method != 0 || packed_len == len);
        is_sound.then_some(Self { flags, method, packed_len, len, header, name, end })
    }

    /// Reads the header in front of the data, which must say the same. Data ends at `limit` at the
    /// latest.
    fn entry(self, source: &Source, directory: &[u8], limit: u64) -> Option<Entry> {
        let name = &directory[self.name.clone()];
        let mut local = [0; LOCAL_LEN + 256];
        let mut long_local = Vec::new();
        let local = match local.get_mut(..LOCAL_LEN + name.len()) {
            Some(local) => local,
            None => {
                long_local.resize(LOCAL_LEN + name.len(), 0);
                &mut long_local[..]
            }
        };
        source.fill(self.header, local)?;
        let (fixed, local_name) = local.split_at(LOCAL_LEN);
        let flags = u16_at(fixed, 6)?;
        let lens = [(18, self.packed_len), (22, self.len)];
        let agrees = |&(at, len): &(usize, u64)| {
            u32_at(fixed, at).is_some_and(|short| short == u32::MAX || u64::from(short) == len)
        };
        let is_sound = fixed.starts_with(b"PK\x03\x04")
            && u16_at(fixed, 8)? == self.method
            && usize::from(u16_at(fixed, 26)?) == name.len()
            && local_name == name
            && (flags & LENGTHS_FOLLOW != 0 || lens.iter().all(agrees));
        let head_len = local.len() as u64 + u64::from(u16_at(local, 28)?);
        let start = self.header.checked_add(head_len)?;
        let end = start.checked_add(self.packed_len)?;
        (is_sound && end <= limit).then_some(Entry {
            // The directory is shorter than 4 GiB.
            name: self.name.start as u32..self.name.end as u32,
            header: self.header,
            data: start..end,
            is_stored: self.method == 0,
            is_encrypted: (self.flags | flags) & ENCRYPTED != 0,
        })
    }
}

/// The values of 64 bits in an extra field, in place of those that do not fit in 32.
struct Long<'a>(&'a [u8]);

impl<'a> Long<'a> {
    fn find(mut extra: &'a [u8]) -> Self {
        while let (Some(id), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
            let Some((field, rest)) = extra[4..].split_at_checked(usize::from(len)) else { break };
            if id == 1 {
                return Self(field);
            }
            extra = rest;
        }
        Self(&[])
    }

    /// The value itself, or the next long one if it refers to that.
    fn value(&mut self, short: u32) -> Option<u64> {
        if short != u32::MAX {
            return Some(short.into());
        }
        let long = u64_at(self.0, 0)?;
        self.0 = &self.0[8..];
        Some(long)
    }
}
