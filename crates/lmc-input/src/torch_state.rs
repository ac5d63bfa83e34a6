//! The tensors in a pickle of torch, with names built from their paths in it.
//!
//! What is understood is what torch itself writes; anything else is walked through as an object
//! with attributes. Calls are recognised by name and never made.

use crate::pickle::{Node, Object, Pickle, Text, Value};
use lmc_format::Dtype;

/// The most dimensions of a tensor. torch's own kernels take at most 64.
const RANK_MAX: usize = 64;
/// The longest key of a storage. torch uses numbers.
const KEY_LEN_MAX: usize = 256;
/// The deepest path.
const DEPTH_MAX: usize = 128;
/// The longest path, in bytes.
const PATH_LEN_MAX: usize = 1 << 16;
/// The most values that are looked at while paths are followed, and the most bytes of all names,
/// shapes and strides: so many for each byte of the pickle and some more, up to a limit. Several
/// paths may lead to the same values, but not many.
const VISITS_PER_BYTE: usize = 16;
const VISITS_MAX: usize = 1 << 25;
const LISTING_PER_BYTE: usize = 16;
pub(crate) const LISTING_MAX: usize = 1 << 27;

/// How much more than what a pickle's length allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    visits: usize,
    listing: usize,
}

impl Extra {
    /// For a pickle that is the only one in its file, or one of two.
    pub(crate) const ALONE: Self = Self { visits: 1 << 20, listing: 1 << 20 };
    /// For one of many.
    pub(crate) const OF_MANY: Self = Self { visits: 1 << 9, listing: 1 << 12 };
}

/// A tensor as its pickle describes it; nothing about it has been checked.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub storage: Storage,
    /// None if it is a type that we do not have.
    pub dtype: Option<Dtype>,
    pub shape: Vec<u64>,
    pub stride: Vec<u64>,
    /// Elements of its storage in front of its first one.
    pub offset: u64,
}

/// A storage as a tensor refers to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storage {
    /// Names its entry.
    pub key: Text,
    pub kind: StorageKind,
    /// Elements; bytes if it has no type.
    pub count: u64,
    /// Elements in front of a view of it, which tensors count from.
    pub view: u64,
}

/// What a storage is said to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    /// Elements of this type.
    Typed(Dtype),
    /// Bytes, which each tensor sees by its own type.
    Untyped,
    /// Elements of a type that we do not have.
    Unknown,
}

/// Bytes of an element as torch counts them: it counts packed values by the byte.
pub(crate) fn element_len(dtype: Dtype) -> u64 {
    dtype.bits().div_ceil(8)
}

/// Bytes of an element of a storage as torch counts them; None if they are unknown.
pub(crate) fn width(kind: StorageKind) -> Option<u64> {
    match kind {
        StorageKind::Typed(dtype) => Some(element_len(dtype)),
        StorageKind::Untyped => Some(1),
        StorageKind::Unknown => None,
    }
}

/// The type with this name in torch.
fn dtype_named(name: &[u8]) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|dtype| dtype.in_torch().is_some_and(|n| n.as_bytes() == name))
}

/// The elements of a storage of this class. Quantized ones are integers.
fn storage_kind(class: &[u8]) -> StorageKind {
    StorageKind::Typed(match class {
        b"UntypedStorage" => return StorageKind::Untyped,
        b"FloatStorage" => Dtype::F32,
        b"DoubleStorage" => Dtype::F64,
        b"HalfStorage" => Dtype::F16,
        b"BFloat16Storage" => Dtype::Bf16,
        b"LongStorage" => Dtype::I64,
        b"IntStorage" | b"QInt32Storage" => Dtype::I32,
        b"ShortStorage" => Dtype::I16,
        b"CharStorage" | b"QInt8Storage" => Dtype::I8,
        b"ByteStorage" | b"QUInt8Storage" => Dtype::U8,
        b"BoolStorage" => Dtype::Bool,
        b"ComplexFloatStorage" => Dtype::Complex64,
        b"ComplexDoubleStorage" => Dtype::Complex128,
        _ => return StorageKind::Unknown,
    })
}

/// The storage that a persistent id names.
pub(crate) fn storage(pickle: &Pickle, node: &Node) -> Option<Storage> {
    let Node::Persistent(id) = node else { return None };
    let id = pickle.tuple(*id)?;
    let [Value::Text(tag), class, Value::Text(key), _, Value::Int(count), ref more @ ..] = *id
    else {
        return None;
    };
    if pickle.text(tag) != b"storage" || pickle.text(key).len() > KEY_LEN_MAX {
        return None;
    }
    let kind = match pickle.global(class)? {
        (b"torch" | b"torch.storage" | b"torch.cuda", class) => storage_kind(class),
        _ => StorageKind::Unknown,
    };
    // Key, start and length of a view: only the oldest files have them.
    let view = match more.first().and_then(|&view| pickle.tuple(view)) {
        Some(&[_, Value::Int(start), _]) => u64::try_from(start).ok()?,
        _ => 0,
    };
    Some(Storage { key, kind, count: u64::try_from(count).ok()?, view })
}

/// The tensor that an object would become.
pub(crate) fn tensor(pickle: &Pickle, object: &Object) -> Option<Description> {
    match (pickle.global(object.function)?, pickle.tuple(object.arguments)?) {
        // A tensor with attributes, or of a class of its own: function, class, arguments, state.
        ((b"torch._tensor", b"_rebuild_from_type_v2"), &[function, _, arguments, ..]) => {
            rebuilt(pickle, function, arguments)
        }
        _ => rebuilt(pickle, object.function, object.arguments),
    }
}

/// The tensor that one of torch's own functions would make of its arguments.
fn rebuilt(pickle: &Pickle, function: Value, arguments: Value) -> Option<Description> {
    let (b"torch._utils", name) = pickle.global(function)? else { return None };
    let arguments = pickle.tuple(arguments)?;
    let &[persistent, Value::Int(offset), shape, stride, ..] = arguments else { return None };
    let storage = storage(pickle, pickle.node(persistent)?)?;
    let dtype = match name {
        // The integers of a quantized tensor; its scale is in the pickle.
        b"_rebuild_tensor" | b"_rebuild_tensor_v2" | b"_rebuild_qtensor" => match storage.kind {
            StorageKind::Typed(dtype) => Some(dtype),
            StorageKind::Untyped => Some(Dtype::U8),
            StorageKind::Unknown => None,
        },
        b"_rebuild_tensor_v3" => match pickle.global(*arguments.get(6)?)? {
            (b"torch", name) => dtype_named(name),
            _ => None,
        },
        _ => return None,
    };
    let offset = u64::try_from(offset).ok()?.checked_add(storage.view)?;
    let (shape, stride) = (dims(pickle, shape)?, dims(pickle, stride)?);
    let is_sound = shape.len() == stride.len();
    is_sound.then_some(Description { storage, dtype, shape, stride, offset })
}

/// Numbers of a tuple, which may be wrapped in a torch.Size.
fn dims(pickle: &Pickle, value: Value) -> Option<Vec<u64>> {
    let values = match pickle.node(value)? {
        Node::Tuple(values) => &values[..],
        Node::List(values) => values,
        Node::Object(object) => match (pickle.global(object.function)?, object.arguments) {
            ((b"torch", b"Size"), arguments) => pickle.tuple(*pickle.tuple(arguments)?.first()?)?,
            _ => return None,
        },
        _ => return None,
    };
    if values.len() > RANK_MAX {
        return None;
    }
    let number = |value: &Value| match value {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    values.iter().map(number).collect()
}

/// A tensor with the path to it.
#[derive(Debug)]
pub(crate) struct Named {
    pub name: String,
    pub tensor: Description,
}

/// Follows the paths to all tensors.
pub(crate) struct Walk<'p> {
    pickle: &'p Pickle,
    path: String,
    /// The nodes on the path: no path goes through a node twice.
    on_path: Vec<u32>,
    visits_left: usize,
    listing_left: usize,
    /// What was found, by each path to it.
    pub found: Vec<Named>,
    /// Whether every path was followed to its end.
    pub is_complete: bool,
}

impl<'p> Walk<'p> {
    /// Follows all paths from the root, which is called `name`.
    pub(crate) fn new(pickle: &'p Pickle, name: &str, extra: Extra) -> Self {
        let mut walk = Self {
            pickle,
            path: name.to_owned(),
            on_path: Vec::new(),
            visits_left: VISITS_MAX.min(extra.visits + VISITS_PER_BYTE * pickle.len()),
            listing_left: LISTING_MAX.min(extra.listing + LISTING_PER_BYTE * pickle.len()),
            found: Vec::new(),
            is_complete: true,
        };
        // Having run out of visits, it has said so.
        let _ = walk.visit(pickle.root);
        walk
    }

    /// Looks at a value; None once there has been enough.
    fn visit(&mut self, value: Value) -> Option<()> {
        self.visits_left = self.visits_left.checked_sub(1).or_else(|| self.give_up())?;
        let pickle = self.pickle;
        let (Value::Node(id), Some(node)) = (value, pickle.node(value)) else { return Some(()) };
        if self.on_path.contains(&id) {
            return Some(());
        }
        if self.on_path.len() == DEPTH_MAX {
            self.is_complete = false;
            return Some(());
        }
        self.on_path.push(id);
        match node {
            Node::Tuple(values) => self.visit_list(values)?,
            Node::List(values) => self.visit_list(values)?,
            Node::Dict(pairs) => self.visit_pairs(pairs)?,
            Node::Object(object) => self.visit_object(object)?,
            Node::Global { .. } | Node::Persistent(_) => {}
        }
        self.on_path.pop();
        Some(())
    }

    fn visit_list(&mut self, values: &[Value]) -> Option<()> {
        values.iter().enumerate().try_for_each(|(i, &value)| self.visit_at(Key::Number(i), value))
    }

    fn visit_pairs(&mut self, pairs: &[(Value, Value)]) -> Option<()> {
        pairs.iter().enumerate().try_for_each(|(i, &(key, value))| {
            let key = match key {
                Value::Text(text) => Key::Text(text),
                Value::Int(number) => Key::Int(number),
                _ => Key::Number(i),
            };
            self.visit_at(key, value)
        })
    }

    fn visit_object(&mut self, object: &Object) -> Option<()> {
        let pickle = self.pickle;
        if let Some(tensor) = tensor(pickle, object) {
            self.list(tensor)?;
            // The attributes of a tensor that has some.
            if let Some(&[_, _, _, state]) = pickle.tuple(object.arguments) {
                self.visit_state(state)?;
            }
        } else {
            let arguments = pickle.tuple(object.arguments).unwrap_or_default();
            match (pickle.global(object.function), arguments) {
                (Some((b"torch._utils", b"_rebuild_parameter")), &[data, ..]) => {
                    self.visit(data)?;
                }
                (
                    Some((b"torch._utils", b"_rebuild_parameter_with_state")),
                    &[data, _, _, state, ..],
                ) => {
                    self.visit(data)?;
                    self.visit(state)?;
                }
                // A tensor of a class that holds others, such as a part of one on each device.
                (Some((b"torch._tensor", b"_rebuild_from_type_v2")), &[_, _, inner, state, ..]) => {
                    self.visit(inner)?;
                    self.visit_state(state)?;
                }
                _ => self.visit_list(arguments)?,
            }
        }
        self.visit_list(&object.items)?;
        self.visit_pairs(&object.pairs)?;
        self.visit_state(object.state)
    }

    /// Attributes, which may come in two dicts.
    fn visit_state(&mut self, state: Value) -> Option<()> {
        match self.pickle.tuple(state) {
            Some(&[first, second]) => {
                self.visit(first)?;
                self.visit(second)
            }
            _ => self.visit(state),
        }
    }

    /// Looks at a value that is reached by `key`.
    fn visit_at(&mut self, key: Key, value: Value) -> Option<()> {
        if !matches!(value, Value::Node(_)) {
            self.visits_left = self.visits_left.checked_sub(1).or_else(|| self.give_up())?;
            return Some(());
        }
        let len = self.path.len();
        if len > 0 {
            self.path.push('.');
        }
        match key {
            Key::Text(text) => {
                let bytes = self.pickle.text(text);
                if len + bytes.len() > PATH_LEN_MAX {
                    self.path.truncate(len);
                    self.is_complete = false;
                    return Some(());
                }
                // Copying what is long takes as long as looking at several values.
                let cost = bytes.len() / 64;
                self.visits_left = self.visits_left.checked_sub(cost).or_else(|| self.give_up())?;
                self.path.push_str(&String::from_utf8_lossy(bytes));
            }
            Key::Int(number) => self.path.push_str(&number.to_string()),
            Key::Number(number) => self.path.push_str(&number.to_string()),
        }
        self.visit(value)?;
        self.path.truncate(len);
        Some(())
    }

    fn list(&mut self, tensor: Description) -> Option<()> {
        let cost = self.path.len() + size_of::<Named>() + 16 * tensor.shape.len();
        self.listing_left = self.listing_left.checked_sub(cost).or_else(|| self.give_up())?;
        self.found.push(Named { name: self.path.clone(), tensor });
        Some(())
    }

    fn give_up<T>(&mut self) -> Option<T> {
        self.is_complete = false;
        None
    }
}

/// A step of a path.
enum Key {
    Text(Text),
    Int(i64),
    Number(usize),
}
