//! The header of an array of NumPy: a literal of Python in a few bytes.

use crate::npy::MAGIC;
use crate::source::Source;
use lmc_format::Dtype;
use std::ops::Range;

/// The longest header. NumPy itself reads longer ones than 10,000 bytes only if it is asked to.
const LEN_MAX: u64 = 1 << 16;
/// How deep a literal may be nested.
const DEPTH_MAX: usize = 16;
/// The most dimensions. NumPy has at most 64.
const RANK_MAX: usize = 64;

/// What a header says.
#[derive(Debug)]
pub(crate) struct Header {
    pub kind: Kind,
    /// Bytes of an element; None if they are unknown.
    pub size: Option<u64>,
    /// Whether the first dimension is the innermost.
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

/// What the elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Numbers of this type.
    Number(Dtype),
    /// Something else that is best seen as these words: times, text.
    Words(Dtype),
    /// Objects, pickled.
    Objects,
    /// Big-endian numbers, those of other libraries, several fields. Which words are the best is
    /// for whoever tries them.
    Unknown,
}

impl Header {
    /// Reads the header at the start of a part of a file. Gives where the array begins too.
    pub(crate) fn read(source: &Source, place: Range<u64>) -> Option<(Self, u64)> {
        let version = source.bytes(place.start..place.start.checked_add(8)?)?;
        let length_len = match version.strip_prefix(MAGIC)? {
            [1, 0] => 2,
            [2 | 3, 0] => 4,
            _ => return None,
        };
        let mut length = [0; 8];
        source.fill(place.start + 8, length.get_mut(..length_len)?)?;
        let start = place.start + 8 + length_len as u64;
        let len = u64::from_le_bytes(length);
        let end = start.checked_add(len)?;
        if len > LEN_MAX || end > place.end {
            return None;
        }
        Some((Self::parse(&source.bytes(start..end)?)?, end))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut literal = Literal { text, at: 0 };
        let Value::Dict(pairs) = literal.value(0)? else { return None };
        literal.skip_space();
        if literal.at != text.len() || pairs.len() != 3 {
            return None;
        }
        let get = |name: &[u8]| {
            let is_it = |key: &Value| matches!(key, Value::Text(key) if *key == name);
            pairs.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
        };
        let &Value::Bool(fortran_order) = get(b"fortran_order")? else { return None };
        let Value::List(dims) = get(b"shape")? else { return None };
        if dims.len() > RANK_MAX {
            return None;
        }
        let dim = |value: &Value| if let Value::Int(n) = value { Some(*n) } else { None };
        let shape = dims.iter().map(dim).collect::<Option<_>>()?;
        let (kind, size) = match get(b"descr")? {
            Value::Text(name) => kind(name)?,
            // Several fields.
            Value::List(fields) => (Kind::Unknown, fields_size(fields, 0)),
            _ => return None,
        };
        Some(Self { kind, size, fortran_order, shape })
    }
}

/// The elements with this name, such as `<f4`, and their bytes.
fn kind(name: &[u8]) -> Option<(Kind, Option<u64>)> {
    let &[order, letter, ref rest @ ..] = name else { return None };
    if letter == b'O' {
        return Some((Kind::Objects, None));
    }
    let digits = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
    let size: u64 = str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
    let bytes = if letter == b'U' { size.checked_mul(4)? } else { size };
    let is_ours = match order {
        b'<' => true,
        b'|' => bytes < 2 || matches!(letter, b'S' | b'V'),
        b'>' => bytes < 2,
        _ => return None,
    };
    let kind = match (letter, size) {
        _ if !is_ours => Kind::Unknown,
        (b'b', 1) => Kind::Number(Dtype::Bool),
        (b'i', 1) => Kind::Number(Dtype::I8),
        (b'i', 2) => Kind::Number(Dtype::I16),
        (b'i', 4) => Kind::Number(Dtype::I32),
        (b'i', 8) => Kind::Number(Dtype::I64),
        (b'u', 1) => Kind::Number(Dtype::U8),
        (b'u', 2) => Kind::Number(Dtype::U16),
        (b'u', 4) => Kind::Number(Dtype::U32),
        (b'u', 8) => Kind::Number(Dtype::U64),
        (b'f', 2) => Kind::Number(Dtype::F16),
        (b'f', 4) => Kind::Number(Dtype::F32),
        (b'f', 8) => Kind::Number(Dtype::F64),
        (b'c', 8) => Kind::Number(Dtype::Complex64),
        (b'c', 16) => Kind::Number(Dtype::Complex128),
        (b'm' | b'M', 8) => Kind::Words(Dtype::I64),
        (b'U', _) => Kind::Words(Dtype::U32),
        (b'S', _) => Kind::Words(Dtype::Bytes),
        _ => Kind::Unknown,
    };
    Some((kind, Some(bytes)))
}

/// Bytes of an element of several fields: each has a name, a type and maybe a shape.
fn fields_size(fields: &[Value], depth: usize) -> Option<u64> {
    if depth == DEPTH_MAX {
        return None;
    }
    fields.iter().try_fold(0_u64, |sum, field| {
        let Value::List(field) = field else { return None };
        let size = match field.get(1)? {
            Value::Text(name) => kind(name)?.1?,
            Value::List(fields) => fields_size(fields, depth + 1)?,
            _ => return None,
        };
        let dims = match field.get(2) {
            None => &[][..],
            Some(Value::List(dims)) => dims,
            Some(_) => return None,
        };
        let size = dims.iter().try_fold(size, |size, dim| match dim {
            Value::Int(n) => size.checked_mul(*n),
            _ => None,
        })?;
        sum.checked_add(size)
    })
}

/// A value of Python.
#[derive(Debug)]
enum Value<'t> {
    Text(&'t [u8]),
    Bool(bool),
    Int(u64),
    /// A list or a tuple.
    List(Vec<Value<'t>>),
    Dict(Vec<(Value<'t>, Value<'t>)>),
}

/// A literal of Python that is being read.
struct Literal<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Literal<'t> {
    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Takes a byte if it comes next.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Value<'t>> {
        self.skip_space();
        let rest = self.text.get(self.at..)?;
        match *rest.first()? {
            _ if depth == DEPTH_MAX => None,
            b'\'' | b'"' => self.quoted(),
            b'0'..=b'9' => self.number(),
            b'(' => self.list(b')', depth),
            b'[' => self.list(b']', depth),
            b'{' => self.dict(depth),
            _ => [(&b"True"[..], true), (b"False", false)].into_iter().find_map(|(word, value)| {
                rest.starts_with(word).then(|| {
                    self.at += word.len();
                    Value::Bool(value)
                })
            }),
        }
    }

    /// A string; names with escapes do not matter here, so they are refused.
    fn quoted(&mut self) -> Option<Value<'t>> {
        let (&quote, rest) = self.text.get(self.at..)?.split_first()?;
        let len = rest.iter().position(|&b| b == quote || b == b'\\')?;
        self.at += len + 2;
        (rest.get(len) == Some(&quote)).then(|| Value::Text(&rest[..len]))
    }

    fn number(&mut self) -> Option<Value<'t>> {
        let rest = self.text.get(self.at..)?;
        let len = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        let number = str::from_utf8(&rest[..len]).ok()?.parse().ok()?;
        self.at += len;
        // As Python 2 wrote long ones.
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Some(Value::Int(number))
    }

    fn list(&mut self, close: u8, depth: usize) -> Option<Value<'t>> {
        self.at += 1;
        let mut values = Vec::new();
        while self.take(close).is_none() {
            values.push(self.value(depth + 1)?);
            if self.take(b',').is_none() {
                self.take(close)?;
                break;
            }
        }
        Some(Value::List(values))
    }

    fn dict(&mut self, depth: usize) -> Option<Value<'t>> {
        self.at += 1;
        let mut pairs = Vec::new();
        while self.take(b'}').is_none() {
            let key = self.value(depth + 1)?;
            self.take(b':')?;
            pairs.push((key, self.value(depth + 1)?));
            if self.take(b',').is_none() {
                self.take(b'}')?;
                break;
            }
        }
        Some(Value::Dict(pairs))
    }
}
