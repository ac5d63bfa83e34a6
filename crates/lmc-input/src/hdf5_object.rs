//! The header of an object of HDF5: messages that say what it is, in one block or several.

use crate::hdf5::File;
use crate::hdf5_datatype;
use crate::little_endian::{u16_at, u32_at, u64_at, uint_at};
use lmc_format::Dtype;
use std::ops::Range;

/// The address of what is not there.
pub(crate) const UNDEFINED: u64 = u64::MAX;
/// The most blocks of a header, and the most bytes of a block.
const BLOCKS_MAX: usize = 256;
const BLOCK_LEN_MAX: u64 = 1 << 24;
/// The most dimensions. HDF5 has at most 32.
const RANK_MAX: u8 = 32;

/// Kinds of messages.
const DATASPACE: u16 = 1;
const DATATYPE: u16 = 3;
const EXTERNAL_FILES: u16 = 7;
const LAYOUT: u16 = 8;
const FILTERS: u16 = 11;
const CONTINUATION: u16 = 16;
/// The flag of a message that only refers to one elsewhere.
const SHARED: u8 = 2;

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    kind: u16,
    flags: u8,
    /// Where its bytes are in the file.
    at: u64,
    pub bytes: Vec<u8>,
}

/// All messages of an object.
#[derive(Debug)]
pub(crate) struct Header {
    messages: Vec<Message>,
}

/// A dataset, as it says itself.
pub(crate) struct Dataset {
    /// None if it is a type that we do not have.
    pub dtype: Option<Dtype>,
    /// Bytes of an element.
    pub size: u64,
    pub shape: Vec<u64>,
    pub layout: Layout,
}

/// Where the elements are.
pub(crate) enum Layout {
    /// In one piece, which begins at [`UNDEFINED`] if there is none.
    Whole(Range<u64>),
    Chunks {
        is_packed: bool,
    },
    /// In other files.
    Elsewhere,
}

impl Header {
    pub(crate) fn read(file: &mut File, address: u64) -> Option<Self> {
        let start = file.bytes(address, 16)?;
        let mut header = Self { messages: Vec::new() };
        let is_new = start.starts_with(b"OHDR");
        let (first, order_len) = if is_new {
            // Times, limits, and then the length of the first block, all but the last optional.
            let flags = start[5];
            let skipped =
                if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
            let len_at = address.checked_add(6 + skipped)?;
            let len_len = 1_u64 << (flags & 3);
            let len = uint_at(&file.bytes(len_at, len_len)?, 0, len_len as usize)?;
            let block_at = len_at + len_len;
            let is_sound = start[4] == 2;
            let order_len = if flags & 4 != 0 { 2 } else { 0 };
            (block_at..block_at.checked_add(len).filter(|_| is_sound)?, order_len)
        } else {
            let block_at = address + 16;
            let len = u64::from(u32_at(&start, 8)?);
            (block_at..block_at.checked_add(len).filter(|_| start[0] == 1)?, 0)
        };
        let mut blocks = vec![first];
        let mut done = 0;
        while let Some(block) = blocks.get(done).cloned() {
            if done == BLOCKS_MAX || block.end - block.start > BLOCK_LEN_MAX {
                return None;
            }
            done += 1;
            let bytes = file.bytes(block.start, block.end - block.start)?;
            let new = header.read_block(&bytes, block.start, is_new.then_some(order_len))?;
            for Range { start, end } in new {
                // Later blocks of the new kind have a signature and a checksum around them.
                let around = if is_new { 4 } else { 0 };
                let (start, end) = (start.checked_add(around)?, end.checked_sub(around)?);
                blocks.push((start <= end).then_some(start..end)?);
            }
        }
        Some(header)
    }

    /// Reads the messages of a block at `start`. Gives the blocks that it refers to. `order_len` is
    /// the length of a field that only headers of the new kind have.
    fn read_block(
        &mut self,
        bytes: &[u8],
        start: u64,
        order_len: Option<usize>,
    ) -> Option<Vec<Range<u64>>> {
        let head_len = order_len.map_or(8, |order_len| 4 + order_len);
        let mut more = Vec::new();
        let mut at = 0;
        while bytes.len() - at >= head_len {
            let (kind, len, flags) = match order_len {
                Some(_) => (u16::from(bytes[at]), u16_at(bytes, at + 1)?, bytes[at + 3]),
                None => (u16_at(bytes, at)?, u16_at(bytes, at + 2)?, bytes[at + 4]),
            };
            at += head_len;
            let content = bytes.get(at..)?.get(..usize::from(len))?;
            if kind == CONTINUATION {
                let (address, len) = (u64_at(content, 0)?, u64_at(content, 8)?);
                more.push(address..address.checked_add(len)?);
            } else {
                let bytes = content.to_vec();
                self.messages.push(Message { kind, flags, at: start + at as u64, bytes });
            }
            at += usize::from(len);
        }
        Some(more)
    }

    /// The messages of a kind.
    pub(crate) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    pub(crate) fn first(&self, kind: u16) -> Option<&Message> {
        self.all(kind).next()
    }

    pub(crate) fn is_dataset(&self) -> bool {
        self.first(LAYOUT).is_some() && self.first(DATATYPE).is_some()
    }

    /// What it says of itself as a dataset; None if it is not understood.
    pub(crate) fn dataset(&self) -> Option<Dataset> {
        let datatype = self.first(DATATYPE)?;
        let is_shared = datatype.flags & SHARED != 0;
        // A type with a name of its own is elsewhere; without it, nothing is known.
        let (dtype, size) =
            if is_shared { (None, None) } else { hdf5_datatype::read(&datatype.bytes)? };
        let shape = shape(&self.first(DATASPACE)?.bytes)?;
        let layout = self.layout(self.first(LAYOUT)?)?;
        let (size, layout) = match (size, layout) {
            (Some(size), layout) => (size, layout),
            (None, Layout::Whole(_)) => return None,
            (None, layout) => (1, layout),
        };
        Some(Dataset { dtype, size, shape, layout })
    }

    fn layout(&self, message: &Message) -> Option<Layout> {
        let bytes = &message.bytes;
        let is_packed = self.first(FILTERS).is_some();
        if self.first(EXTERNAL_FILES).is_some() {
            return Some(Layout::Elsewhere);
        }
        let version = *bytes.first()?;
        let (class, at) = match version {
            1 | 2 => (*bytes.get(2)?, 8),
            3..=5 => (*bytes.get(1)?, 2),
            _ => return None,
        };
        let is_old = version < 3;
        Some(match class {
            // In the message itself, behind the length, and in old ones behind the dimensions too.
            0 => {
                let at = if is_old { at + 4 * usize::from(*bytes.get(1)?) } else { at };
                let len_len = if is_old { 4 } else { 2 };
                let len = uint_at(bytes, at, len_len)?;
                let start = message.at + (at + len_len) as u64;
                let end = message.at + bytes.len() as u64;
                Layout::Whole(start..start.checked_add(len).filter(|&sum| sum <= end)?)
            }
            1 => {
                let start = u64_at(bytes, at)?;
                // Old ones do not say how long it is.
                let len = if is_old { u64::MAX } else { u64_at(bytes, at + 8)? };
                Layout::Whole(start..start.saturating_add(len))
            }
            2 => Layout::Chunks { is_packed },
            3 => Layout::Elsewhere,
            _ => return None,
        })
    }
}

/// The dimensions in a message.
fn shape(bytes: &[u8]) -> Option<Vec<u64>> {
    let (version, rank) = (*bytes.first()?, *bytes.get(1)?);
    let at = match (version, bytes.get(3)?) {
        (1, _) => 8,
        // A kind of its own for nothing at all.
        (2, 2) => return Some(vec![0]),
        (2, _) => 4,
        _ => return None,
    };
    if rank > RANK_MAX {
        return None;
    }
    (0..usize::from(rank)).map(|i| u64_at(bytes, at + 8 * i)).collect()
}
