//! The file `.metadata` of torch.distributed.checkpoint: a pickle that says what is where in the
//! other files of its directory.

use crate::pickle::{Node, Pickle, Value};
use std::collections::HashMap;

/// The longest name, the most dimensions, and the most bytes of all names and dimensions. A name
/// can be used many times in a pickle that has it once.
const NAME_LEN_MAX: usize = 1 << 12;
const RANK_MAX: usize = 64;
const LISTING_MAX: usize = 1 << 28;

/// A part of a file: a tensor, a shard of one, or an object, as torch.save wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DcpItem {
    /// The file that it is in, by its path in the directory.
    pub path: String,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// The name of the tensor or object in the state.
    pub fqn: String,
    /// Where in the tensor the shard begins; None for an object.
    pub place: Option<Vec<u64>>,
    /// Whether there are other shards of the tensor.
    pub is_shard: bool,
}

impl DcpItem {
    /// What it is called: its name, with the place in the tensor if there are other shards.
    pub fn name(&self) -> String {
        match &self.place {
            Some(place) if self.is_shard => format!("{} {place:?}", self.fqn),
            _ => self.fqn.clone(),
        }
    }
}

/// The parts that a file `.metadata` lists, by file and in the order of their bytes; None if it is
/// not understood. It may be wrong: nothing says that the other files are as it has them.
pub fn dcp_items(metadata: &[u8]) -> Option<Vec<DcpItem>> {
    let pickle = Pickle::read(metadata.to_vec())?;
    let root = attributes(&pickle, pickle.root, b"Metadata")?;
    let Node::Dict(storage_data) = pickle.node(get(&pickle, root, b"storage_data")?)? else {
        return None;
    };
    let mut items = Vec::new();
    let mut listing_left = LISTING_MAX;
    for &(index, info) in storage_data {
        let item = item(&pickle, index, info)?;
        let dims = item.place.as_ref().map_or(0, Vec::len);
        let cost = size_of::<DcpItem>() + item.path.len() + item.fqn.len() + 8 * dims;
        listing_left = listing_left.checked_sub(cost)?;
        items.push(item);
    }
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for item in &items {
        *counts.entry(&item.fqn).or_default() += 1;
    }
    let are_shards: Vec<bool> = items.iter().map(|item| counts[&item.fqn[..]] > 1).collect();
    for (item, is_shard) in items.iter_mut().zip(are_shards) {
        item.is_shard = is_shard;
    }
    items.sort_by(|a, b| (&a.path, a.offset, a.len).cmp(&(&b.path, b.offset, b.len)));
    Some(items)
}

/// A part, by what it is and where it is.
fn item(pickle: &Pickle, index: Value, info: Value) -> Option<DcpItem> {
    let index = attributes(pickle, index, b"MetadataIndex")?;
    let info = attributes(pickle, info, b"_StorageInfo")?;
    let number = |value: Value| match value {
        Value::Int(n) => u64::try_from(n).ok(),
        _ => None,
    };
    let place = match get(pickle, index, b"offset") {
        None | Some(Value::None) => None,
        Some(place) => {
            let dims = size(pickle, place)?;
            let place = dims.iter().map(|&dim| number(dim)).collect::<Option<Vec<u64>>>()?;
            (place.len() <= RANK_MAX).then_some(Some(place))?
        }
    };
    Some(DcpItem {
        path: text(pickle, get(pickle, info, b"relative_path")?)?,
        offset: number(get(pickle, info, b"offset")?)?,
        len: number(get(pickle, info, b"length")?)?,
        fqn: text(pickle, get(pickle, index, b"fqn")?)?,
        place,
        is_shard: false,
    })
}

/// The attributes of an object of a class with this name.
fn attributes<'p>(pickle: &'p Pickle, value: Value, class: &[u8]) -> Option<&'p [(Value, Value)]> {
    let Node::Object(object) = pickle.node(value)? else { return None };
    if pickle.global(object.function)?.1 != class {
        return None;
    }
    match pickle.node(object.state)? {
        Node::Dict(pairs) => Some(pairs),
        _ => None,
    }
}

/// The value of an attribute.
fn get(pickle: &Pickle, pairs: &[(Value, Value)], name: &[u8]) -> Option<Value> {
    let is_it = |key| matches!(key, Value::Text(text) if pickle.text(text) == name);
    // No class here has more than a few.
    pairs.iter().take(16).find(|&&(key, _)| is_it(key)).map(|&(_, value)| value)
}

/// The numbers in a `torch.Size`.
fn size(pickle: &Pickle, value: Value) -> Option<&[Value]> {
    let Node::Object(object) = pickle.node(value)? else { return pickle.tuple(value) };
    match pickle.global(object.function)? {
        (b"torch", b"Size") => pickle.tuple(*pickle.tuple(object.arguments)?.first()?),
        _ => None,
    }
}

fn text(pickle: &Pickle, value: Value) -> Option<String> {
    let Value::Text(text) = value else { return None };
    let bytes = pickle.text(text);
    (bytes.len() <= NAME_LEN_MAX).then(|| String::from_utf8_lossy(bytes).into_owned())
}
