//! Reads a pickle as data: what it would build, with nothing imported and nothing called.
//!
//! The input is hostile. The result is a graph of values, or None if the stream breaks a rule or a
//! bound. What a call would give is an object that knows only what was to be called, and with what.
//! Floats, bytes, sets and large integers are unknown: nothing here needs them.

use crate::pickle_machine::{Machine, Outcome, Refusal};
use crate::source::Source;

/// The longest pickle. Those of checkpoints have some hundred bytes for each tensor.
pub(crate) const PICKLE_LEN_MAX: u64 = 1 << 26;

/// Bytes that are read at first of a pickle of unknown length, and how many times as many each
/// time that it turns out to be longer.
const FIRST_LEN: u64 = 1 << 14;
const GROWTH: u64 = 8;

/// A value, small enough to be copied: whatever is long is in the pickle or in a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// Anything that is not needed.
    Unknown,
    None,
    Bool(bool),
    Int(i64),
    Text(Text),
    Node(u32),
}

/// A string as its bytes in the pickle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Text {
    pub start: u32,
    pub end: u32,
}

/// A value that others may share.
#[derive(Debug)]
pub(crate) enum Node {
    /// The name of a class or function.
    Global {
        module: Text,
        name: Text,
    },
    Tuple(Box<[Value]>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Object(Box<Object>),
    /// The id of something outside of the pickle.
    Persistent(Value),
}

/// What a call would give.
#[derive(Debug)]
pub(crate) struct Object {
    /// The class or function.
    pub function: Value,
    /// Its arguments.
    pub arguments: Value,
    /// Its attributes; None if there are none.
    pub state: Value,
    /// Values that were appended, if it is a kind of list.
    pub items: Vec<Value>,
    /// Keys and values that were set, if it is a kind of dict.
    pub pairs: Vec<(Value, Value)>,
}

/// What a pickle holds.
#[derive(Debug)]
pub(crate) struct Pickle {
    bytes: Vec<u8>,
    nodes: Vec<Node>,
    /// What it gives in the end.
    pub root: Value,
}

impl Pickle {
    /// Reads a pickle; bytes behind its end do not matter.
    pub(crate) fn read(bytes: Vec<u8>) -> Option<Self> {
        if bytes.len() as u64 > PICKLE_LEN_MAX {
            return None;
        }
        let Outcome { nodes, root, .. } = Machine::run(&bytes).ok()?;
        Some(Self { bytes, nodes, root })
    }

    /// Reads a pickle of up to `len_max` bytes that begins somewhere in a file and ends wherever it
    /// ends. Gives that place too.
    pub(crate) fn read_from(source: &Source, start: u64, len_max: u64) -> Option<(Self, u64)> {
        let mut len = FIRST_LEN;
        let len_max = source.len().checked_sub(start)?.min(len_max);
        loop {
            let mut bytes = source.bytes(start..start + len.min(len_max))?;
            match Machine::run(&bytes) {
                Ok(Outcome { nodes, root, len }) => {
                    bytes.truncate(len);
                    return Some((Self { bytes, nodes, root }, start + len as u64));
                }
                Err(Refusal::Short) if len < len_max => len = len.saturating_mul(GROWTH),
                Err(_) => return None,
            }
        }
    }

    /// Bytes of the pickle.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of a string.
    pub(crate) fn text(&self, text: Text) -> &[u8] {
        &self.bytes[text.start as usize..text.end as usize]
    }

    /// Every node, in the order in which they were made.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node that a value refers to.
    pub(crate) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(i) => self.nodes.get(i as usize),
            _ => None,
        }
    }

    /// The elements of a tuple.
    pub(crate) fn tuple(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::Tuple(values) => Some(values),
            _ => None,
        }
    }

    /// The module and name of a global.
    pub(crate) fn global(&self, value: Value) -> Option<(&[u8], &[u8])> {
        match self.node(value)? {
            Node::Global { module, name } => Some((self.text(*module), self.text(*name))),
            _ => None,
        }
    }
}
