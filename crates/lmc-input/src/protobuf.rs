//! The fields of a message of Protocol Buffers, one after the other.

use crate::cursor::Cursor;
use std::ops::Range;

/// A field.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    /// A number of variable length.
    Number(u64),
    /// A number of 4 or 8 bytes.
    Fixed,
    /// Text, a message, or several numbers, at this place in the file. The cursor is at its start.
    Bytes(Range<u64>),
}

/// Reads the number and the start of the next field of a message that ends at `end`; None if it is
/// not sound.
pub(crate) fn next(cursor: &mut Cursor, end: u64) -> Option<(u64, Field)> {
    let key = number(cursor)?;
    let field = match key & 7 {
        0 => Field::Number(number(cursor)?),
        1 => cursor.skip(8).map(|()| Field::Fixed)?,
        2 => {
            let len = number(cursor)?;
            let start = cursor.at();
            Field::Bytes(start..start.checked_add(len)?)
        }
        5 => cursor.skip(4).map(|()| Field::Fixed)?,
        _ => return None,
    };
    let field_end = if let Field::Bytes(range) = &field { range.end } else { cursor.at() };
    (key >> 3 > 0 && field_end <= end).then_some((key >> 3, field))
}

/// Reads a number of variable length.
pub(crate) fn number(cursor: &mut Cursor) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let &[byte] = cursor.take(1)?.first_chunk()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
