//! The contents of a model of ONNX: messages of Protocol Buffers with the bytes of tensors in them.
//!
//! Nothing at the start of such a file says what it is. It is taken as a model if all of it is made
//! of fields that a model has, with a graph among them.

use crate::TensorInfo;
use crate::contents::{Contents, Data, Format, OtherTensor, Reason};
use crate::cursor::Cursor;
use crate::protobuf::{Field, next, number};
use crate::source::Source;
use crate::torch_state::LISTING_MAX;
use lmc_format::Dtype;
use std::ops::Range;

/// The most fields, tensors, graphs in graphs, dimensions, and bytes of a name that are looked at.
const FIELDS_MAX: u64 = 1 << 24;
const TENSORS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 16;
const RANK_MAX: usize = 64;
const NAME_LEN_MAX: u64 = 1 << 12;

/// Whether a file may be a model by its first bytes: the number of its version.
pub(crate) fn may_be_model(start: &[u8]) -> bool {
    matches!(start, [0x08, 1..=32, ..])
}

/// The contents of such a file; None if it is something else.
pub(crate) fn find(source: &Source) -> Option<Contents> {
    let mut model = Model {
        cursor: Cursor::new(source, u64::MAX),
        found: Contents::new(Format::Onnx),
        fields_left: FIELDS_MAX,
        listing_left: LISTING_MAX,
    };
    let mut has_graph = false;
    match model.read(source.len(), &mut has_graph) {
        Some(()) => has_graph.then_some(model.found),
        None if model.fields_left == 0 || model.listing_left == 0 => {
            Some(Contents::noted("is like ONNX, but has more fields than are looked at"))
        }
        None if has_graph => Some(Contents::noted("begins like ONNX, but is damaged or cut off")),
        None => None,
    }
}

/// A message with tensors, by what it holds.
#[derive(Clone, Copy)]
enum Message {
    Graph,
    Node,
    Attribute,
    Function,
    Training,
    Sparse,
}

struct Model<'s> {
    cursor: Cursor<'s>,
    found: Contents,
    fields_left: u64,
    listing_left: usize,
}

impl Model<'_> {
    /// Reads the whole file; None if it is not sound.
    fn read(&mut self, end: u64, has_graph: &mut bool) -> Option<()> {
        let mut seen = 0_u64;
        while self.cursor.at() < end {
            let at = self.cursor.at();
            // The key of a graph.
            *has_graph |= self.cursor.take(1)? == [7 << 3 | 2];
            self.cursor.go_to(at)?;
            let (number, field) = self.next(end)?;
            // Those that a model has once. This ends the reading of most other files.
            let is_twice = number <= 7 && seen & 1 << number != 0;
            if is_twice {
                return None;
            }
            seen |= 1 << number.min(8);
            let message = match (number, field) {
                (7, Field::Bytes(range)) => Some((Message::Graph, range)),
                (20, Field::Bytes(range)) => Some((Message::Training, range)),
                (25, Field::Bytes(range)) => Some((Message::Function, range)),
                (2..=4 | 6 | 8 | 14 | 26, Field::Bytes(range)) => {
                    self.cursor.go_to(range.end)?;
                    None
                }
                (1 | 5, Field::Number(_)) => None,
                _ => return None,
            };
            if let Some((message, range)) = message {
                self.message(message, range.end, "", 0)?;
            }
        }
        Some(())
    }

    fn next(&mut self, end: u64) -> Option<(u64, Field)> {
        self.fields_left = self.fields_left.checked_sub(1)?;
        next(&mut self.cursor, end)
    }

    /// Reads a message up to its end. `node` is what the node is called that it is part of.
    fn message(&mut self, message: Message, end: u64, node: &str, depth: usize) -> Option<()> {
        let mut output = None;
        while self.cursor.at() < end {
            let (number, Field::Bytes(range)) = self.next(end)? else { continue };
            let inner = match (message, number) {
                (Message::Graph, 1) | (Message::Function, 7) => Some(Message::Node),
                (Message::Graph, 15) | (Message::Attribute, 22 | 23) => Some(Message::Sparse),
                (Message::Node, 5) => Some(Message::Attribute),
                (Message::Attribute, 6 | 11) | (Message::Training, 1 | 2) => Some(Message::Graph),
                _ => None,
            };
            let is_tensor = matches!(
                (message, number),
                (Message::Graph, 5) | (Message::Attribute, 5 | 10) | (Message::Sparse, 1 | 2)
            );
            let name = output.as_deref().unwrap_or(node);
            if is_tensor {
                self.tensor(range.end, name)?;
            } else if let Some(inner) = inner {
                if depth == DEPTH_MAX {
                    self.found.miss("has more graphs in graphs than are looked at");
                } else {
                    self.message(inner, range.end, name, depth + 1)?;
                }
            } else if let (Message::Node, 2, None) = (message, number, &output) {
                // The tensors of a node have no names; its first result does.
                output = self.text(&range);
            }
            self.cursor.go_to(range.end)?;
        }
        (self.cursor.at() == end).then_some(())
    }

    /// A text, if it is not too long.
    fn text(&mut self, range: &Range<u64>) -> Option<String> {
        let len = (range.end - range.start).min(NAME_LEN_MAX);
        self.cursor.take(len).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads a tensor up to its end. It is called `node` if it has no name.
    fn tensor(&mut self, end: u64, node: &str) -> Option<()> {
        let mut tensor = Tensor::default();
        while self.cursor.at() < end {
            let (number, field) = self.next(end)?;
            self.tensor_field(&mut tensor, number, &field)?;
            if let Field::Bytes(range) = field {
                self.cursor.go_to(range.end)?;
            }
        }
        let name = tensor.name.take().filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| node.to_owned());
        let cost = size_of::<Data>() + size_of::<TensorInfo>() + 2 * name.len();
        let left = self.listing_left.checked_sub(cost);
        if left.is_none() || self.found.tensors.len() + self.found.others.len() == TENSORS_MAX {
            self.listing_left = 0;
            return None;
        }
        self.listing_left = left?;
        tensor.add_to(&mut self.found, name);
        Some(())
    }

    fn tensor_field(&mut self, tensor: &mut Tensor, field: u64, content: &Field) -> Option<()> {
        let has_room = tensor.shape.len() < RANK_MAX;
        match (field, content) {
            (1, &Field::Number(dim)) if has_room => tensor.shape.push(dim),
            (1, Field::Bytes(range)) => {
                while self.cursor.at() < range.end && tensor.shape.len() < RANK_MAX {
                    tensor.shape.push(number(&mut self.cursor)?);
                }
                return (self.cursor.at() == range.end).then_some(());
            }
            (1, _) => return None,
            (2, &Field::Number(kind)) => tensor.kind = kind,
            (8, Field::Bytes(range)) => tensor.name = self.text(range),
            (9, Field::Bytes(range)) => tensor.raw = Some(range.clone()),
            // Floats one after the other, unless they come in several parts.
            (4 | 10, Field::Bytes(range)) if tensor.words.is_none() => {
                tensor.words = Some((field, range.clone()));
            }
            (4..=7 | 10 | 11, _) => tensor.is_encoded = true,
            (14, &Field::Number(location)) => tensor.is_elsewhere = location == 1,
            _ => {}
        }
        Some(())
    }
}

/// What a tensor says of itself.
#[derive(Default)]
struct Tensor {
    name: Option<String>,
    kind: u64,
    shape: Vec<u64>,
    raw: Option<Range<u64>>,
    /// The number of the field, and its values.
    words: Option<(u64, Range<u64>)>,
    is_encoded: bool,
    is_elsewhere: bool,
}

impl Tensor {
    fn add_to(self, found: &mut Contents, name: String) {
        let dtype = dtype(self.kind);
        let shape = self.shape;
        let range = match (self.raw, self.words) {
            _ if self.is_elsewhere => Err(Reason::Elsewhere),
            _ if self.is_encoded => Err(Reason::Encoded),
            (Some(range), _) => Ok(range),
            (None, Some((4, range))) if matches!(self.kind, 1 | 14) => Ok(range),
            (None, Some((10, range))) if matches!(self.kind, 11 | 15) => Ok(range),
            (None, Some(_)) => Err(Reason::Encoded),
            (None, None) if shape.contains(&0) => Ok(0..0),
            (None, None) => Err(Reason::Missing),
        };
        let count = shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim));
        let count = if shape.contains(&0) { Some(0) } else { count };
        let is_whole = |range: &Range<u64>, dtype: Dtype| {
            count.and_then(|count| dtype.byte_len(count)) == Some(range.end - range.start)
        };
        let reason = match (range, dtype) {
            (Ok(range), Some(dtype)) if is_whole(&range, dtype) => {
                let tensor = TensorInfo { name, dtype, shape, range };
                found.data.push(Data::of(&tensor));
                found.tensors.push(tensor);
                return;
            }
            (Ok(range), _) => {
                let len = vec![range.end - range.start];
                let (data_name, row_len) = (name.clone(), 0);
                let data = Data { range, dtype: None, row_len, name: data_name, shape: len };
                found.data.push(data);
                if dtype.is_none() { Reason::UnknownType } else { Reason::WrongLength }
            }
            (Err(reason), _) => reason,
        };
        found.others.push(OtherTensor { name, dtype, shape, reason });
    }
}

/// The type with this number in `TensorProto.DataType`.
fn dtype(kind: u64) -> Option<Dtype> {
    Some(match kind {
        1 => Dtype::F32,
        2 => Dtype::U8,
        3 => Dtype::I8,
        4 => Dtype::U16,
        5 => Dtype::I16,
        6 => Dtype::I32,
        7 => Dtype::I64,
        9 => Dtype::Bool,
        10 => Dtype::F16,
        11 => Dtype::F64,
        12 => Dtype::U32,
        13 => Dtype::U64,
        14 => Dtype::Complex64,
        15 => Dtype::Complex128,
        16 => Dtype::Bf16,
        17 => Dtype::F8E4M3,
        18 => Dtype::F8E4M3Fnuz,
        19 => Dtype::F8E5M2,
        20 => Dtype::F8E5M2Fnuz,
        23 => Dtype::F4E2M1,
        24 => Dtype::F8E8M0,
        _ => return None,
    })
}
