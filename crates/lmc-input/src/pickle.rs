//! Reads a pickle as data: what it would build, with nothing imported and nothing called.
//!
//! The input is hostile. The result is a graph of values, or None if the stream breaks a rule or a
//! bound. What a call would give is an object that knows only what was to be called, and with what.
//! Floats, bytes, sets and large integers are unknown: nothing here needs them.

use crate::pickle_machine::Machine;

/// The longest pickle. Those of checkpoints have some hundred bytes for each tensor.
pub(crate) const PICKLE_LEN_MAX: u64 = 1 << 26;

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
        let (nodes, root) = Machine::run(&bytes)?;
        Some(Self { bytes, nodes, root })
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
