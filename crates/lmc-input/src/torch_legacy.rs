//! The contents of a file that torch.save wrote before it wrote zip files, as it still does with
//! `_use_new_zipfile_serialization=False`: five pickles, and then each storage behind the number of
//! its elements.

use crate::contents::{Contents, Format, Reason};
use crate::pickle::{Node, PICKLE_LEN_MAX, Pickle, Value};
use crate::source::Source;
use crate::torch_state::{self, Extra};
use crate::torch_storages::{Part, Stored};
use std::collections::HashMap;

/// The number that the first pickle holds, as its bytes in there.
const MAGIC: [u8; 12] = [0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// The only version that there is.
const VERSION: Value = Value::Int(1001);
/// The longest pickle in front of the state. Those of torch have some hundred bytes.
const HEAD_LEN_MAX: u64 = 1 << 12;
/// The most storages.
const STORAGES_MAX: usize = 1 << 20;
/// Bytes of the number in front of each storage.
const COUNT_LEN: u64 = 8;

/// Whether a file that starts with these bytes is of this format. The magic number follows on the
/// version of the pickle and, in newer ones, on the length of a frame.
pub(crate) fn is_legacy(start: &[u8]) -> bool {
    let is_at = |at: usize| start.get(at..).is_some_and(|rest| rest.starts_with(&MAGIC));
    is_at(2) || is_at(11)
}

/// The contents of a file that starts as [`is_legacy`] wants it.
pub(crate) fn find(source: &Source) -> Contents {
    let damaged = "is of torch.save (legacy), but its pickles are damaged or not understood";
    read(source).unwrap_or_else(|| Contents::noted(damaged))
}

fn read(source: &Source) -> Option<Contents> {
    let (is_little_endian, at) = read_head(source)?;
    let mut found = Contents::new(Format::TorchLegacy);
    if !is_little_endian {
        found.miss("was written in the other order of bytes");
        return Some(found);
    }
    let (state, at) = Pickle::read_from(source, at, PICKLE_LEN_MAX)?;
    let (keys, at) = Pickle::read_from(source, at, PICKLE_LEN_MAX)?;
    let keys = Keys::read(&keys)?;
    let mut storages = places(source, &state, &keys, at, &mut found);
    let find = |key: &[u8]| keys.places.get(key).copied().ok_or(Reason::Missing);
    Part { pickle: &state, find: &find, extra: Extra::ALONE }.add_to(&mut found, "", &mut storages);
    for (i, storage) in storages.into_iter().enumerate() {
        if let Some(storage) = storage {
            // Keys are addresses in the memory of the writer, and mean nothing.
            found.data.push(storage.data(|| format!("storage {i}")));
        }
    }
    Some(found)
}

/// Reads what is in front of the state. Gives whether it says that the order of bytes is the one
/// that we have types for, and where the state begins.
fn read_head(source: &Source) -> Option<(bool, u64)> {
    let (_, at) = Pickle::read_from(source, 0, HEAD_LEN_MAX)?;
    let (version, at) = Pickle::read_from(source, at, HEAD_LEN_MAX)?;
    let (system, at) = Pickle::read_from(source, at, HEAD_LEN_MAX)?;
    (version.root == VERSION).then(|| (is_little_endian(&system), at))
}

/// Whether the system of the writer had the order of bytes that we have types for.
fn is_little_endian(system: &Pickle) -> bool {
    let Some(Node::Dict(pairs)) = system.node(system.root) else { return false };
    let is_key = |key| matches!(key, Value::Text(key) if system.text(key) == b"little_endian");
    pairs.iter().any(|&(key, value)| is_key(key) && value == Value::Bool(true))
}

/// The keys of the storages in the order of their bytes.
struct Keys {
    places: HashMap<Vec<u8>, usize>,
}

impl Keys {
    fn read(pickle: &Pickle) -> Option<Self> {
        let Node::List(keys) = pickle.node(pickle.root)? else { return None };
        if keys.len() > STORAGES_MAX {
            return None;
        }
        let mut places = HashMap::with_capacity(keys.len());
        for (i, &key) in keys.iter().enumerate() {
            let Value::Text(key) = key else { return None };
            if places.insert(pickle.text(key).to_vec(), i).is_some() {
                return None;
            }
        }
        Some(Self { places })
    }
}

/// The places of all storages, of which the first is at `at`. Only the pickle says how long their
/// elements are.
fn places(
    source: &Source,
    state: &Pickle,
    keys: &Keys,
    mut at: u64,
    found: &mut Contents,
) -> Vec<Option<Stored>> {
    let mut widths = vec![None; keys.places.len()];
    for node in state.nodes() {
        if let Some(storage) = torch_state::storage(state, node)
            && let Some(&i) = keys.places.get(state.text(storage.key))
        {
            widths[i] = widths[i].or(torch_state::width(storage.kind));
        }
    }
    let mut storages = vec![None; widths.len()];
    for (storage, width) in storages.iter_mut().zip(widths) {
        let Some(width) = width else {
            found.miss("has a storage of unknown type; it and those behind it are taken as bytes");
            return storages;
        };
        let Some(end) = end_of(source, at, width) else {
            found.note.get_or_insert_with(|| "is cut off: storages are missing".into());
            return storages;
        };
        *storage = Some(Stored::new(at + COUNT_LEN..end));
        at = end;
    }
    if at < source.len() {
        let more = source.len() - at;
        found.note.get_or_insert_with(|| format!("has {more} bytes behind its last storage"));
    }
    storages
}

/// Where a storage ends whose number of elements is at `at`; None if the file ends before.
fn end_of(source: &Source, at: u64, width: u64) -> Option<u64> {
    let mut count = [0; COUNT_LEN as usize];
    source.fill(at, &mut count)?;
    let len = u64::from_le_bytes(count).checked_mul(width)?;
    let end = at.checked_add(COUNT_LEN)?.checked_add(len)?;
    (end <= source.len()).then_some(end)
}
