//! The machine of pickles, with a stack, marks and a memo. It builds a graph of values, and neither
//! imports nor calls anything.
//!
//! Each operation costs what it takes in memory, so that a stream can hold little more than its
//! length. None is the answer to any stream that breaks a rule or a bound.

use crate::pickle::{Node, Object, Text, Value};

/// The most operations.
const OPERATIONS_MAX: u32 = 1 << 24;
/// The most memory for values, by estimate, in bytes.
const MEMORY_MAX: usize = 1 << 28;
/// Estimated bytes of a node with what it holds, without elements.
const NODE_COST: usize = 64;
/// Estimated bytes of an object beside its node.
const OBJECT_COST: usize = 128;
const VALUE_COST: usize = size_of::<Value>();

/// The state of a reader.
pub(crate) struct Machine<'p> {
    bytes: &'p [u8],
    at: usize,
    stack: Vec<Value>,
    /// Heights of the stack where marks were set.
    marks: Vec<usize>,
    /// By number.
    memo: Vec<Option<Value>>,
    /// How many of them are set.
    memo_len: u32,
    nodes: Vec<Node>,
    memory_left: usize,
    /// Whether the stream has ended too early.
    is_short: bool,
}

/// Why a stream gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It ends too early, or says so.
    Short,
    /// It breaks another rule, or a bound.
    Unsound,
}

/// What a stream gives.
pub(crate) struct Outcome {
    pub nodes: Vec<Node>,
    pub root: Value,
    /// Bytes of the stream that were read.
    pub len: usize,
}

impl<'p> Machine<'p> {
    fn new(bytes: &'p [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            memo_len: 0,
            nodes: Vec::new(),
            memory_left: MEMORY_MAX,
            is_short: false,
        }
    }

    /// Reads a stream up to its end; what is behind that does not matter.
    pub(crate) fn run(bytes: &'p [u8]) -> Result<Outcome, Refusal> {
        let mut machine = Self::new(bytes);
        let root = machine.steps();
        let Self { at: len, nodes, is_short, .. } = machine;
        let refusal = if is_short { Refusal::Short } else { Refusal::Unsound };
        root.map(|root| Outcome { nodes, root, len }).ok_or(refusal)
    }

    fn steps(&mut self) -> Option<Value> {
        for _ in 0..OPERATIONS_MAX {
            let code = self.byte()?;
            if code == b'.' {
                return self.pop();
            }
            self.step(code)?;
        }
        None
    }

    fn step(&mut self, code: u8) -> Option<()> {
        match code {
            b'(' | b'0' | b'1' | b'2' => self.step_stack(code),
            b'p' | b'q' | b'r' | b'g' | b'h' | b'j' | 0x94 => self.step_memo(code),
            b't' | 0x85..=0x87 | b')' | b'l' | b']' | b'd' | b'}' => self.step_container(code),
            b'a' | b'e' | b's' | b'u' | b'b' | 0x90 => self.step_fill(code),
            b'c' | 0x93 | b'R' | 0x81 | 0x92 | b'i' | b'o' | b'P' | b'Q' => self.step_call(code),
            _ => self.step_value(code),
        }
    }

    /// Marks, and values that go or come twice.
    fn step_stack(&mut self, code: u8) -> Option<()> {
        match code {
            b'(' => {
                self.charge(VALUE_COST)?;
                self.marks.push(self.stack.len());
            }
            // A mark on top goes like a value.
            b'0' if self.marks.last() == Some(&self.stack.len()) => self.cut()?,
            b'0' => {
                self.pop()?;
            }
            b'1' => self.cut()?,
            _ => self.push(self.top()?)?,
        }
        Some(())
    }

    fn step_memo(&mut self, code: u8) -> Option<()> {
        match code {
            0x94 => self.put(self.memo_len as usize),
            b'p' | b'q' | b'r' => {
                let i = self.memo_number(code == b'p', code == b'q')?;
                self.put(i)
            }
            _ => {
                let i = self.memo_number(code == b'g', code == b'h')?;
                let value = (*self.memo.get(i)?)?;
                self.push(value)
            }
        }
    }

    fn memo_number(&mut self, is_text: bool, is_byte: bool) -> Option<usize> {
        if is_text {
            let line = self.line()?;
            return usize::try_from(self.decimal(line)?).ok();
        }
        if is_byte { self.byte().map(usize::from) } else { self.length(4) }
    }

    fn put(&mut self, i: usize) -> Option<()> {
        let value = self.top()?;
        if i > self.at {
            // Writers count up from 0, and each time takes a byte.
            return None;
        }
        if i >= self.memo.len() {
            self.charge((i - self.memo.len() + 1).checked_mul(size_of::<Option<Value>>())?)?;
            self.memo.resize(i + 1, None);
        }
        let old = self.memo[i].replace(value);
        self.memo_len += u32::from(old.is_none());
        Some(())
    }

    fn step_container(&mut self, code: u8) -> Option<()> {
        let start = match code {
            0x85..=0x87 => self.below(usize::from(code - 0x84))?,
            b'}' | b']' | b')' => self.stack.len(),
            _ => self.marks.pop()?,
        };
        let values = self.stack.get(start..)?;
        self.memory_left = self.memory_left.checked_sub(values.len() * VALUE_COST)?;
        let node = match code {
            b'l' | b']' => Node::List(values.to_vec()),
            b'd' | b'}' => Node::Dict(pairs(values)?),
            _ => Node::Tuple(values.into()),
        };
        self.stack.truncate(start);
        self.push_node(node)
    }

    /// Puts values into what lies below them.
    fn step_fill(&mut self, code: u8) -> Option<()> {
        let start = match code {
            b'a' | b'b' => self.below(1)?,
            b's' => self.below(2)?,
            _ => self.marks.pop()?,
        };
        let values = self.stack.get(start..)?;
        // Twice, because lists grow by doubling.
        self.memory_left = self.memory_left.checked_sub(2 * values.len() * VALUE_COST)?;
        let new_pairs = if matches!(code, b's' | b'u') { pairs(values)? } else { Vec::new() };
        let is_free = self.marks.last().is_none_or(|&mark| mark < start);
        let below = self.stack[..start].last().filter(|_| is_free)?;
        let node = match *below {
            Value::Node(i) => self.nodes.get_mut(i as usize),
            _ => None,
        };
        match (code, node) {
            (b'a' | b'e', Some(Node::List(items))) => items.extend(values),
            (b'a' | b'e', Some(Node::Object(object))) => object.items.extend(values),
            (b's' | b'u', Some(Node::Dict(pairs))) => pairs.extend(new_pairs),
            (b's' | b'u', Some(Node::Object(object))) => object.pairs.extend(new_pairs),
            (b'b', Some(Node::Object(object))) => object.state = *values.first()?,
            _ => {}
        }
        self.stack.truncate(start);
        Some(())
    }

    /// Names of functions, calls of them, and things outside.
    fn step_call(&mut self, code: u8) -> Option<()> {
        match code {
            b'c' | b'i' => {
                let (module, name) = (self.line()?, self.line()?);
                if code == b'i' {
                    let arguments = self.take_tuple()?;
                    self.push_node(Node::Global { module, name })?;
                    let function = self.pop()?;
                    return self.push_object(function, arguments);
                }
                self.push_node(Node::Global { module, name })
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => {
                    self.push_node(Node::Global { module, name })
                }
                _ => self.push(Value::Unknown),
            },
            b'o' => {
                let start = *self.marks.last()?;
                let function = *self.stack.get(start)?;
                self.stack.remove(start);
                let arguments = self.take_tuple()?;
                self.push_object(function, arguments)
            }
            b'P' => {
                let line = self.line()?;
                self.push_node(Node::Persistent(Value::Text(line)))
            }
            b'Q' => {
                let id = self.pop()?;
                self.push_node(Node::Persistent(id))
            }
            _ => {
                if code == 0x92 {
                    // Arguments by name.
                    self.pop()?;
                }
                let arguments = self.pop()?;
                let function = self.pop()?;
                self.push_object(function, arguments)
            }
        }
    }

    /// A tuple of what lies above the last mark.
    fn take_tuple(&mut self) -> Option<Value> {
        self.step_container(b't')?;
        self.pop()
    }

    fn push_object(&mut self, function: Value, arguments: Value) -> Option<()> {
        self.charge(OBJECT_COST)?;
        let (items, pairs) = (Vec::new(), Vec::new());
        let object = Object { function, arguments, state: Value::None, items, pairs };
        self.push_node(Node::Object(Box::new(object)))
    }

    /// Values that are in the stream itself, and what surrounds them.
    fn step_value(&mut self, code: u8) -> Option<()> {
        let value = match code {
            b'N' => Value::None,
            0x88 | 0x89 => Value::Bool(code == 0x88),
            b'I' | b'L' => self.number_line()?,
            b'K' => Value::Int(self.byte()?.into()),
            b'M' => Value::Int(self.length(2)? as i64),
            b'J' => Value::Int((self.length(4)? as u32).cast_signed().into()),
            0x8a | 0x8b => self.long(if code == 0x8a { 1 } else { 4 })?,
            b'S' | b'V' => self.quoted(code == b'S')?,
            0x8c | b'U' => self.sized(1)?,
            b'X' | b'T' => self.sized(4)?,
            0x8d => self.sized(8)?,
            b'F' => self.line().map(|_| Value::Unknown)?,
            b'G' => self.skip(8)?,
            b'C' => self.skip_sized(1)?,
            b'B' => self.skip_sized(4)?,
            0x8e | 0x96 => self.skip_sized(8)?,
            0x82 => self.skip(1)?,
            0x83 => self.skip(2)?,
            0x84 => self.skip(4)?,
            0x8f | 0x97 => Value::Unknown,
            0x91 => {
                self.cut()?;
                Value::Unknown
            }
            0x80 if self.byte()? <= 5 => return Some(()),
            0x95 => return self.skip(8).map(|_| ()),
            0x98 => return self.top().map(|_| ()),
            _ => return None,
        };
        self.push(value)
    }

    /// A number in decimal; two of them stand for truth values.
    fn number_line(&mut self) -> Option<Value> {
        let line = self.line()?;
        Some(match &self.bytes[line.start as usize..line.end as usize] {
            b"00" => Value::Bool(false),
            b"01" => Value::Bool(true),
            _ => self.decimal(line).map_or(Value::Unknown, Value::Int),
        })
    }

    /// The number in a line, if it fits in 64 bits.
    fn decimal(&self, line: Text) -> Option<i64> {
        let digits = &self.bytes[line.start as usize..line.end as usize];
        let digits = digits.strip_suffix(b"L").unwrap_or(digits);
        str::from_utf8(digits).ok()?.parse().ok()
    }

    /// A number with its length in front; unknown if it does not fit in 64 bits.
    fn long(&mut self, size_len: usize) -> Option<Value> {
        let len = self.length(size_len)?;
        let digits = self.take(len)?;
        let &[.., last] = digits else { return Some(Value::Int(0)) };
        if digits.len() > 8 {
            return Some(Value::Unknown);
        }
        let mut bytes = if last & 0x80 == 0 { [0; 8] } else { [0xff; 8] };
        bytes[..len].copy_from_slice(digits);
        Some(Value::Int(i64::from_le_bytes(bytes)))
    }

    /// A string that ends with its line. Escapes stay as they are.
    fn quoted(&mut self, has_quotes: bool) -> Option<Value> {
        let Text { start, end } = self.line()?;
        if !has_quotes {
            return Some(Value::Text(Text { start, end }));
        }
        match &self.bytes[start as usize..end as usize] {
            [b'\'', .., b'\''] | [b'"', .., b'"'] => {
                Some(Value::Text(Text { start: start + 1, end: end - 1 }))
            }
            _ => None,
        }
    }

    fn sized(&mut self, size_len: usize) -> Option<Value> {
        let len = self.length(size_len)?;
        let start = self.at;
        self.take(len)?;
        Some(Value::Text(Text { start: start as u32, end: self.at as u32 }))
    }

    fn skip_sized(&mut self, size_len: usize) -> Option<Value> {
        let len = self.length(size_len)?;
        self.skip(len)
    }

    fn skip(&mut self, len: usize) -> Option<Value> {
        self.take(len).map(|_| Value::Unknown)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// An unsigned number of `size_len` bytes.
    fn length(&mut self, size_len: usize) -> Option<usize> {
        let mut bytes = [0; 8];
        bytes.get_mut(..size_len)?.copy_from_slice(self.take(size_len)?);
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    }

    fn take(&mut self, len: usize) -> Option<&'p [u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        self.is_short |= taken.is_none();
        self.at += taken?.len();
        taken
    }

    fn line(&mut self) -> Option<Text> {
        let start = self.at;
        let len = self.bytes.get(start..)?.iter().position(|&b| b == b'\n');
        self.is_short |= len.is_none();
        let len = len?;
        self.at += len + 1;
        // A pickle is shorter than 4 GiB.
        Some(Text { start: start as u32, end: (start + len) as u32 })
    }

    fn charge(&mut self, cost: usize) -> Option<()> {
        self.memory_left = self.memory_left.checked_sub(cost)?;
        Some(())
    }

    fn push(&mut self, value: Value) -> Option<()> {
        if self.stack.len() == self.stack.capacity() {
            self.charge(self.stack.len().max(4) * VALUE_COST)?;
        }
        self.stack.push(value);
        Some(())
    }

    fn push_node(&mut self, node: Node) -> Option<()> {
        self.charge(NODE_COST)?;
        let i = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.push(node);
        self.push(Value::Node(i))
    }

    /// Where the topmost `count` values begin; None if a mark is among them.
    fn below(&self, count: usize) -> Option<usize> {
        let start = self.stack.len().checked_sub(count)?;
        self.marks.last().is_none_or(|&mark| mark <= start).then_some(start)
    }

    fn top(&self) -> Option<Value> {
        self.stack.get(self.below(1)?).copied()
    }

    fn pop(&mut self) -> Option<Value> {
        self.below(1)?;
        self.stack.pop()
    }

    /// Takes away what lies above the last mark.
    fn cut(&mut self) -> Option<()> {
        let start = self.marks.pop()?;
        self.stack.truncate(start);
        Some(())
    }
}

/// Keys with their values; None if the last key has none.
fn pairs(values: &[Value]) -> Option<Vec<(Value, Value)>> {
    let (pairs, rest) = values.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|&[key, value]| (key, value)).collect())
}
