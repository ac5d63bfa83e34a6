//! Reads the JSON of a safetensors header as a stream: only the entries are kept.
//!
//! It accepts what the format's own library accepts, including its quirks: an entry may be an array
//! of its fields, and unknown fields may hold any JSON that is not nested too deeply.

use lmc_format::Dtype;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A tensor as it is in the header. Its name may occur again, and it has not been checked against
/// other entries.
#[derive(Debug)]
pub(crate) struct HeaderEntry<'h> {
    pub name: Cow<'h, str>,
    pub dtype: Dtype,
    /// Its dimensions in [`Entries::dims`].
    pub dims: Range<u32>,
    /// Product of all dimensions but the last; 0 if it is not a matrix.
    pub rows: u64,
    pub start: u64,
    pub end: u64,
    /// Whether it has as many bytes as its type and shape need.
    pub is_sound: bool,
}

/// The contents of a header.
#[derive(Debug)]
pub(crate) struct Entries<'h> {
    pub list: Vec<HeaderEntry<'h>>,
    /// Dimensions of all tensors, if they are wanted.
    pub dims: Option<Vec<u64>>,
}

impl<'h> Entries<'h> {
    /// Reads `json`. Dimensions are kept only if `keep_dims` is set, because a header may be full
    /// of them.
    pub(crate) fn read(json: &'h [u8], keep_dims: bool) -> Option<Self> {
        let mut entries = Self { list: Vec::new(), dims: keep_dims.then(Vec::new) };
        let mut input = serde_json::Deserializer::from_slice(json);
        input.deserialize_map(&mut entries).ok()?;
        input.end().ok()?;
        Some(entries)
    }
}

impl<'h> Visitor<'h> for &mut Entries<'h> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'h>>(self, mut map: A) -> Result<(), A::Error> {
        let mut metadata = None;
        while let Some(name) = map.next_key_seed(Text)? {
            if name == "__metadata__" {
                put(&mut metadata, map.next_value_seed(Metadata)?)?;
                continue;
            }
            let info = map.next_value_seed(InfoReader(&mut self.dims))?;
            self.list.push(info.entry(name));
        }
        Ok(())
    }
}

/// The header's description of a tensor.
struct Info {
    dtype: Dtype,
    shape: Shape,
    offsets: (u64, u64),
}

struct Shape {
    /// Product of all dimensions, if it fits in 64 bits.
    count: Option<u64>,
    rows: u64,
    dims: Range<u32>,
}

impl Info {
    fn entry(self, name: Cow<str>) -> HeaderEntry {
        let Self { dtype, shape: Shape { count, rows, dims }, offsets: (start, end) } = self;
        let len = end.checked_sub(start);
        let is_sound = len.is_some() && len == count.and_then(|count| dtype.byte_len(count));
        HeaderEntry { name, dtype, dims, rows, start, end, is_sound }
    }
}

/// Reads the value that follows a tensor's name.
struct InfoReader<'a>(&'a mut Option<Vec<u64>>);

impl<'de> DeserializeSeed<'de> for InfoReader<'_> {
    type Value = Info;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Info, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for InfoReader<'_> {
    type Value = Info;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Info, A::Error> {
        let (mut dtype, mut shape, mut offsets) = (None, None, None);
        while let Some(field) = map.next_key_seed(Text)? {
            match &*field {
                "dtype" => put(&mut dtype, map.next_value_seed(DtypeReader)?)?,
                "shape" => put(&mut shape, map.next_value_seed(ShapeReader(self.0))?)?,
                "data_offsets" => put(&mut offsets, map.next_value()?)?,
                _ => map.next_value_seed(Anything)?,
            }
        }
        match (dtype, shape, offsets) {
            (Some(dtype), Some(shape), Some(offsets)) => Ok(Info { dtype, shape, offsets }),
            _ => Err(A::Error::custom("a field is missing")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Info, A::Error> {
        let missing = || A::Error::custom("a field is missing");
        let dtype = seq.next_element_seed(DtypeReader)?.ok_or_else(missing)?;
        let shape = seq.next_element_seed(ShapeReader(self.0))?.ok_or_else(missing)?;
        let offsets = seq.next_element()?.ok_or_else(missing)?;
        Ok(Info { dtype, shape, offsets })
    }
}

struct DtypeReader;

impl<'de> DeserializeSeed<'de> for DtypeReader {
    type Value = Dtype;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_enum("dtype", &[], self)
    }
}

impl<'de> Visitor<'de> for DtypeReader {
    type Value = Dtype;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a dtype")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Self::Value, A::Error> {
        let (name, rest) = data.variant_seed(Text)?;
        rest.unit_variant()?;
        Dtype::from_safetensors(&name).ok_or_else(|| A::Error::custom("unknown dtype"))
    }
}

/// Reads dimensions, and keeps them if there is a list for them.
struct ShapeReader<'a>(&'a mut Option<Vec<u64>>);

impl<'de> DeserializeSeed<'de> for ShapeReader<'_> {
    type Value = Shape;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Shape, D::Error> {
        input.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ShapeReader<'_> {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("dimensions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
        let kept = |dims: &Option<Vec<u64>>| {
            u32::try_from(dims.as_ref().map_or(0, Vec::len)).map_err(A::Error::custom)
        };
        let first = kept(self.0)?;
        let (mut count, mut rows, mut rank) = (Some(1_u64), 0, 0_u64);
        while let Some(dim) = seq.next_element::<u64>()? {
            // The order of the products matters: a zero does not undo an overflow before it.
            rows = if rank > 0 && dim > 0 { count.unwrap_or(0) } else { 0 };
            count = count.and_then(|count| count.checked_mul(dim));
            rank += 1;
            if let Some(dims) = self.0 {
                dims.push(dim);
            }
        }
        Ok(Shape { count, rows, dims: first..kept(self.0)? })
    }
}

/// Reads a string, borrowed if it needs no unescaping.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Reads null or a map of strings.
struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Text)?.is_some() {
            map.next_value_seed(Text)?;
        }
        Ok(())
    }
}

/// Reads any JSON. serde's own type for that skips without checking: it accepts any depth, numbers
/// beyond f64 and half surrogate pairs.
struct Anything;

impl<'de> DeserializeSeed<'de> for Anything {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Anything)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(Text)?.is_some() {
            map.next_value_seed(Anything)?;
        }
        Ok(())
    }
}

/// Fills `slot`; a field that comes twice is an error.
fn put<T, E: Error>(slot: &mut Option<T>, value: T) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::custom("a field appears twice")),
    }
}
