//! The tables of rANS by context (`docs/format.md`, section 5.7).

use crate::coder::RansTable;
use crate::error::{Error, Result};
use crate::limits::RANS_CONTEXTS_MAX;
use crate::reader::Reader;

/// rANS tables, one for each context.
///
/// Invariants: 1 to 16 tables; one bound less, each above the one before and none of them 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextTables {
    bounds: Vec<u8>,
    tables: Vec<RansTable>,
}

/// Set in the symbols of values whose sign changed, to distinguish them from the others.
const FLIP: u8 = 0x80;
/// The symbol of a value that is stored as it is.
const EXCEPTION: u8 = 0x40;
/// The smallest and largest step that a table can have symbols for.
const STEP_MIN: i8 = -63;
const STEP_MAX: i8 = 63;
/// Most low bits in the differences of frequencies.
const LOW_BITS_MAX: u8 = 12;

impl ContextTables {
    /// Table `i + 1` is for bins from bound `i` on.
    pub fn new(bounds: Vec<u8>, tables: Vec<RansTable>) -> Result<Self> {
        if tables.is_empty() || tables.len() > RANS_CONTEXTS_MAX {
            return Err(Error::corrupt(format!(
                "{} contexts of symbols, 1 to {RANS_CONTEXTS_MAX} expected",
                tables.len()
            )));
        }
        if bounds.len().checked_add(1) != Some(tables.len()) {
            return Err(Error::corrupt("contexts of symbols need one bound less than tables"));
        }
        if bounds.first() == Some(&0) || !bounds.is_sorted_by(|a, b| a < b) {
            return Err(Error::corrupt("bounds of contexts of symbols are out of order"));
        }
        Ok(Self { bounds, tables })
    }

    /// Table `i + 1` is for bins from bound `i` on.
    pub fn bounds(&self) -> &[u8] {
        &self.bounds
    }

    /// The table of each context.
    pub fn tables(&self) -> &[RansTable] {
        &self.tables
    }

    /// The context of a bin.
    pub fn context(&self, bin: u8) -> usize {
        self.bounds.partition_point(|&bound| bound <= bin)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::try_from(self.tables.len()).unwrap_or(0));
        out.extend_from_slice(&self.bounds);
        self.tables.iter().for_each(|table| write_table(table, out));
    }

    pub(crate) fn read(input: &mut Reader) -> Result<Self> {
        let count = usize::from(input.u8("number of contexts of symbols")?);
        let bounds = input.take(count.saturating_sub(1), "bounds of contexts")?.to_vec();
        // Tables are large, so their number is checked before they are read.
        let wanted = count.min(RANS_CONTEXTS_MAX.saturating_add(1));
        let tables = (0..wanted).map(|_| read_table(input)).collect::<Result<_>>()?;
        Self::new(bounds, tables)
    }
}

/// A range of steps in a table: the first one, and how many there are.
#[derive(Clone, Copy)]
struct Steps {
    first: i8,
    count: u8,
}

impl Steps {
    /// The steps that have codes in `table`, for values that keep their sign or for values that
    /// change it.
    fn of(table: &RansTable, flip: u8) -> Self {
        let has = |step: &i8| table.freq(step.cast_unsigned() ^ flip) > 0;
        let mut steps = (STEP_MIN..=STEP_MAX).filter(has);
        match (steps.next(), steps.next_back()) {
            (Some(first), Some(last)) => {
                Self { first, count: last.abs_diff(first).saturating_add(1) }
            }
            (Some(first), None) => Self { first, count: 1 },
            _ => Self { first: 0, count: 0 },
        }
    }

    fn read(input: &mut Reader) -> Result<Self> {
        let [first, count] = input.array("steps of a table")?;
        let first = first.cast_signed();
        let last = i16::from(first).saturating_add(i16::from(count)).saturating_sub(1);
        if count > 0 && (first < STEP_MIN || last > i16::from(STEP_MAX)) {
            return Err(Error::corrupt(format!("table of {count} steps from {first} on")));
        }
        Ok(Self { first, count })
    }

    /// The symbols of these steps.
    fn symbols(self, flip: u8) -> impl Iterator<Item = u8> {
        (0..self.count).map(move |i| self.first.cast_unsigned().wrapping_add(i) ^ flip)
    }
}

/// The symbols of a table in the order in which their frequencies are written.
fn symbols([kept, flipped]: [Steps; 2]) -> impl Iterator<Item = u8> {
    kept.symbols(0).chain(flipped.symbols(FLIP)).chain([EXCEPTION])
}

/// A frequency as it is written: how far it is above or below the one before.
fn folded(freq: u16, before: u16) -> u16 {
    if freq >= before { freq.wrapping_sub(before) << 1 } else { before.wrapping_sub(freq) << 1 | 1 }
}

fn write_table(table: &RansTable, out: &mut Vec<u8>) {
    let steps = [0, FLIP].map(|flip| Steps::of(table, flip));
    let mut before = 0;
    let numbers: Vec<u16> = symbols(steps)
        .map(|symbol| {
            folded(table.freq(symbol), std::mem::replace(&mut before, table.freq(symbol)))
        })
        .collect();
    let bits = |low_bits: u8| -> u64 {
        let zeros: u64 = numbers.iter().map(|&number| u64::from(number >> low_bits)).sum();
        zeros.saturating_add(u64::from(low_bits).saturating_mul(numbers.len() as u64))
    };
    let low_bits = (0..=LOW_BITS_MAX).min_by_key(|&low_bits| bits(low_bits)).unwrap_or(0);
    for Steps { first, count } in steps {
        out.extend_from_slice(&[first.cast_unsigned(), count]);
    }
    out.push(low_bits);
    let mut string = BitWriter::default();
    for number in numbers {
        (0..number >> low_bits).for_each(|_| string.push(false));
        string.push(true);
        (0..low_bits).for_each(|bit| string.push(number >> bit & 1 == 1));
    }
    out.extend_from_slice(&string.bytes);
}

fn read_table(input: &mut Reader) -> Result<RansTable> {
    let steps = [Steps::read(input)?, Steps::read(input)?];
    let low_bits = input.u8("low bits of frequencies")?;
    if low_bits > LOW_BITS_MAX {
        return Err(Error::corrupt(format!(
            "frequencies with {low_bits} low bits, at most 12 expected"
        )));
    }
    let mut freqs = [0; 256];
    let mut before = 0_u16;
    let mut string = BitReader { input, byte: 0, left: 0 };
    // All numbers are below 2^13.
    let zeros_max = 0x1fff_u16 >> low_bits;
    for symbol in symbols(steps) {
        let mut number = 0_u16;
        while !string.bit()? {
            number = number.saturating_add(1);
            if number > zeros_max {
                return Err(Error::corrupt("a frequency of a context is above 4095"));
            }
        }
        number <<= low_bits;
        for bit in 0..low_bits {
            number |= u16::from(string.bit()?) << bit;
        }
        let apart = number >> 1;
        let freq = match number & 1 {
            0 => before.checked_add(apart),
            _ => before.checked_sub(apart),
        };
        before = freq.ok_or_else(|| Error::corrupt("a frequency of a context is below 0"))?;
        if let Some(slot) = freqs.get_mut(usize::from(symbol)) {
            *slot = before;
        }
    }
    if string.byte != 0 {
        return Err(Error::corrupt("padding of frequencies is not zero"));
    }
    RansTable::new(freqs)
}

/// Bits in bytes, from bit 0 of each up.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    count: u32,
}

impl BitWriter {
    fn push(&mut self, bit: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.count % 8);
        }
        self.count = self.count.wrapping_add(1);
    }
}

struct BitReader<'a, 'b> {
    input: &'a mut Reader<'b>,
    /// The unread rest of the last byte.
    byte: u8,
    left: u8,
}

impl BitReader<'_, '_> {
    fn bit(&mut self) -> Result<bool> {
        if self.left == 0 {
            (self.byte, self.left) = (self.input.u8("frequencies of a context")?, 8);
        }
        let bit = self.byte & 1 == 1;
        self.byte >>= 1;
        self.left = self.left.saturating_sub(1);
        Ok(bit)
    }
}
