//! The members of a group of HDF5: in the header of the group, or in a tree of symbols with their
//! names in a heap.

use crate::hdf5::{File, NAME_LEN_MAX};
use crate::hdf5_object::{Header, Message, UNDEFINED};
use crate::little_endian::{u16_at, u64_at, uint_at};

/// Kinds of messages.
const LINK_INFO: u16 = 2;
const LINK: u16 = 6;
const SYMBOL_TABLE: u16 = 17;

/// The deepest tree, the most members of a group, and the longest heap of names.
const DEPTH_MAX: usize = 16;
const LINKS_MAX: usize = 1 << 20;
const HEAP_LEN_MAX: u64 = 1 << 26;
/// Bytes of a node without its entries, of an entry of a tree, and of a symbol.
const NODE_LEN: u64 = 24;
const CHILD_LEN: u64 = 16;
const SYMBOLS_LEN: u64 = 8;
const SYMBOL_LEN: u64 = 40;
/// What is noted of a symbol that only refers to a path.
const SOFT_LINK: u64 = 2;

/// The members of a group: names and addresses.
pub(crate) struct Links {
    pub links: Vec<(String, u64)>,
    /// Whether these are all.
    pub is_complete: bool,
}

/// The members of the group with this header.
pub(crate) fn links(file: &mut File, header: &Header) -> Links {
    let mut links = Vec::new();
    let mut is_complete = true;
    for message in header.all(LINK) {
        match link(file, message) {
            Some(Some(link)) => links.push(link),
            Some(None) => {}
            None => is_complete = false,
        }
    }
    if let Some(message) = header.first(LINK_INFO) {
        // The address of a heap that many members are in.
        let at = if message.bytes.get(1).is_some_and(|flags| flags & 1 != 0) { 10 } else { 2 };
        is_complete &= u64_at(&message.bytes, at) == Some(UNDEFINED);
    }
    if let Some(message) = header.first(SYMBOL_TABLE) {
        is_complete &= symbols(file, message, &mut links).is_some();
    }
    Links { links, is_complete }
}

/// A member that is in a message; None inside if it only refers to a path or to another file.
fn link(file: &mut File, message: &Message) -> Option<Option<(String, u64)>> {
    let bytes = &message.bytes;
    let (&[version, flags], mut at) = (bytes.first_chunk()?, 2);
    if version != 1 {
        return None;
    }
    let mut kind = 0;
    if flags & 8 != 0 {
        kind = *bytes.get(at)?;
        at += 1;
    }
    at += if flags & 4 != 0 { 8 } else { 0 } + usize::from(flags & 16 != 0);
    let len_len = 1 << (flags & 3);
    let len = usize::try_from(uint_at(bytes, at, len_len)?).ok()?;
    let name = bytes.get(at + len_len..)?.get(..len)?;
    if kind != 0 {
        return Some(None);
    }
    let address = u64_at(bytes, at + len_len + len)?;
    Some(Some((file.name(name)?, address)))
}

/// Adds the members that are in a tree; None if it is not sound.
fn symbols(file: &mut File, message: &Message, links: &mut Vec<(String, u64)>) -> Option<()> {
    let (tree, heap) = (u64_at(&message.bytes, 0)?, u64_at(&message.bytes, 8)?);
    let head = file.bytes(heap, 32)?;
    let len = u64_at(&head, 8).filter(|&len| len <= HEAP_LEN_MAX && head.starts_with(b"HEAP"))?;
    let names = file.bytes(u64_at(&head, 24)?, len)?;
    let mut nodes = vec![(tree, 0)];
    while let Some((address, depth)) = nodes.pop() {
        let head = file.bytes(address, NODE_LEN)?;
        if head.starts_with(b"SNOD") {
            let count = u16_at(&head, 6)?;
            let len = u64::from(count) * SYMBOL_LEN;
            let entries = file.bytes(address + SYMBOLS_LEN, len)?;
            for entry in entries.chunks_exact(SYMBOL_LEN as usize) {
                let at = usize::try_from(u64_at(entry, 0)?).ok()?;
                let rest = names.get(at..)?;
                let rest = rest.get(..rest.len().min(NAME_LEN_MAX + 1))?;
                let name = rest.get(..rest.iter().position(|&b| b == 0)?)?;
                if uint_at(entry, 16, 4)? != SOFT_LINK {
                    links.push((file.name(name)?, u64_at(entry, 8)?));
                }
            }
        } else if head.starts_with(b"TREE\0") && depth < DEPTH_MAX {
            let count = u64::from(u16_at(&head, 6)?);
            // A key in front of each child.
            let children = file.bytes(address + NODE_LEN, count * CHILD_LEN)?;
            let children = children.chunks_exact(CHILD_LEN as usize).rev();
            nodes.extend(children.filter_map(|child| Some((u64_at(child, 8)?, depth + 1))));
        } else {
            return None;
        }
        if links.len() > LINKS_MAX || nodes.len() > LINKS_MAX {
            return None;
        }
    }
    Some(())
}
