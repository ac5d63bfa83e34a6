//! Coders and their tables, as they are stored in a recipe (`docs/format.md`, section 3.5).

use crate::error::{Error, Result};
use crate::limits::{
    APART_DEPTH_MAX, CHAIN_LEVELS_MAX, CHAIN_SYMBOLS_MAX, GAP_BITS_MAX, HUFFMAN_BITS_MAX,
    RANS_SCALE_BITS,
};
use crate::reader::Reader;
use crate::varint;

/// How the bytes of one plane are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coder {
    /// Stored as they are.
    Raw,
    /// All the same byte.
    Constant(u8),
    /// Only the bits of `mask` vary; the others are those of `rest`.
    Packed {
        /// The bits that are stored.
        mask: u8,
        /// The value of all other bits.
        rest: u8,
    },
    /// Bit-plane chain code.
    Chain(ChainTable),
    /// Canonical Huffman code in four parts.
    Huffman(Box<HuffmanTable>),
    /// 32 interleaved rANS states.
    Rans(Box<RansTable>),
    /// Literals and repeats.
    Runs,
    /// The distances between the set bits; this many low bits of each number are stored as they
    /// are.
    Gaps(u8),
    /// One byte apart from all others.
    Apart(Box<ApartCoder>),
    /// Bit-plane tree code.
    Tree(Box<TreeTable>),
}

/// Flags say where a byte is not the common one; the other bytes are coded after the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApartCoder {
    /// The common byte.
    pub byte: u8,
    /// Coder of the flags, eight per byte.
    pub flags: Coder,
    /// Coder of all other bytes.
    pub others: Coder,
}

/// Digit widths and symbols of a chain code.
///
/// Invariants: 1 to 12 levels; `symbols` has `2^width - 1` entries for each level, 31 at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainTable {
    widths: Vec<u8>,
    symbols: Vec<u8>,
}

/// Code length of each symbol; 0 means absent. Invariant: complete, 12 bits at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HuffmanTable {
    lengths: [u8; 256],
}

/// Code lengths of the symbols and of the escape; 0 means absent. Invariant: complete, 12 bits and
/// 256 codes at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeTable {
    lengths: [u8; 256],
    escape: u8,
}

/// Frequency of each symbol; 0 means absent. Invariant: they sum to 4096, each is below 4096.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RansTable {
    freqs: [u16; 256],
}

impl ChainTable {
    /// A table from digit widths (1 or 2 each) and the symbols of all levels in order.
    pub fn new(widths: Vec<u8>, symbols: Vec<u8>) -> Result<Self> {
        let wanted: usize = widths.iter().map(|&w| if w == 2 { 3 } else { 1 }).sum();
        let widths_ok = widths.iter().all(|&w| w == 1 || w == 2);
        if widths.is_empty() || widths.len() > CHAIN_LEVELS_MAX || !widths_ok {
            return Err(Error::corrupt("chain table needs 1 to 12 levels of 1 or 2 bits"));
        }
        if symbols.len() != wanted || wanted > CHAIN_SYMBOLS_MAX {
            return Err(Error::corrupt(format!(
                "chain table has {} symbols, {wanted} by its shape and at most 31 expected",
                symbols.len()
            )));
        }
        Ok(Self { widths, symbols })
    }

    /// Digit width in bits of each level.
    pub fn widths(&self) -> &[u8] {
        &self.widths
    }

    /// Symbols of all levels, level 0 first.
    pub fn symbols(&self) -> &[u8] {
        &self.symbols
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut shape = 0_u16;
        for (i, _) in self.widths.iter().enumerate().filter(|&(_, &w)| w == 2) {
            shape |= 1 << i;
        }
        out.push(u8::try_from(self.widths.len()).unwrap_or(0));
        out.extend_from_slice(&shape.to_le_bytes());
        out.extend_from_slice(&self.symbols);
    }

    fn read(input: &mut Reader) -> Result<Self> {
        let levels = usize::from(input.u8("chain level count")?);
        let shape = input.u16("chain shape")?;
        if levels == 0 || levels > CHAIN_LEVELS_MAX || u32::from(shape) >> levels != 0 {
            return Err(Error::corrupt(format!("chain of {levels} levels, shape {shape:#x}")));
        }
        let widths: Vec<u8> =
            (0..levels).map(|i| if shape >> i & 1 == 1 { 2 } else { 1 }).collect();
        let count: usize = widths.iter().map(|&w| if w == 2 { 3 } else { 1 }).sum();
        Self::new(widths, input.take(count.min(CHAIN_SYMBOLS_MAX + 1), "chain symbols")?.to_vec())
    }
}

impl HuffmanTable {
    /// A table from code lengths, which must form a complete code of two symbols or more.
    pub fn new(lengths: [u8; 256]) -> Result<Self> {
        check_complete("huffman", &lengths, 0)?;
        Ok(Self { lengths })
    }

    /// Code length of each symbol; 0 means absent.
    pub fn lengths(&self) -> &[u8; 256] {
        &self.lengths
    }

    fn write(&self, out: &mut Vec<u8>) {
        let span = write_span(out, self.lengths.iter().map(|&l| l > 0));
        write_lengths(out, self.lengths.get(span).unwrap_or(&[]));
    }

    fn read(input: &mut Reader) -> Result<Self> {
        let (first, count) = read_span(input)?;
        Self::new(read_lengths(input, first, count)?)
    }
}

impl TreeTable {
    /// A table from the code lengths of symbols and of the escape, which must form a complete code
    /// of two symbols or more and 256 codes at most.
    pub fn new(lengths: [u8; 256], escape: u8) -> Result<Self> {
        check_complete("tree", &lengths, escape)?;
        let symbols = lengths.iter().filter(|&&l| l > 0).count();
        if symbols < 2 || symbols == 256 && escape > 0 {
            return Err(Error::corrupt(format!(
                "tree of {symbols} symbols and an escape of {escape} bits"
            )));
        }
        Ok(Self { lengths, escape })
    }

    /// Code length of each symbol; 0 means absent.
    pub fn lengths(&self) -> &[u8; 256] {
        &self.lengths
    }

    /// Code length of the escape, which is followed by a byte as it is; 0 if there is none.
    pub fn escape(&self) -> u8 {
        self.escape
    }

    fn write(&self, out: &mut Vec<u8>) {
        let span = write_span(out, self.lengths.iter().map(|&l| l > 0));
        out.push(self.escape);
        write_lengths(out, self.lengths.get(span).unwrap_or(&[]));
    }

    fn read(input: &mut Reader) -> Result<Self> {
        let (first, count) = read_span(input)?;
        let escape = input.u8("tree escape")?;
        Self::new(read_lengths(input, first, count)?, escape)
    }
}

/// Checks that the code lengths, including that of the escape, fill a code of 12 bits completely.
fn check_complete(what: &str, lengths: &[u8; 256], escape: u8) -> Result<()> {
    let mut sum = 0_u32;
    for &length in lengths.iter().chain([&escape]).filter(|&&l| l > 0) {
        let Some(spare) = HUFFMAN_BITS_MAX.checked_sub(length) else {
            return Err(Error::corrupt(format!(
                "{what} code of {length} bits, at most 12 expected"
            )));
        };
        sum = sum.saturating_add(1 << spare);
    }
    if sum != 1 << HUFFMAN_BITS_MAX {
        return Err(Error::corrupt(format!("{what} code fills {sum} of 4096 places")));
    }
    Ok(())
}

/// Writes code lengths, two per byte.
fn write_lengths(out: &mut Vec<u8>, lengths: &[u8]) {
    for pair in lengths.chunks(2) {
        let low = pair.first().copied().unwrap_or(0);
        out.push(low | pair.get(1).copied().unwrap_or(0) << 4);
    }
}

/// Reads the code lengths of `count` symbols from `first` on.
fn read_lengths(input: &mut Reader, first: usize, count: usize) -> Result<[u8; 256]> {
    let packed = input.take(count.div_ceil(2), "code lengths")?;
    if count % 2 == 1 && packed.last().is_some_and(|b| b >> 4 != 0) {
        return Err(Error::corrupt("unused nibble of the code lengths is not zero"));
    }
    let nibbles = packed.iter().flat_map(|&b| [b & 15, b >> 4]).take(count);
    let mut lengths = [0; 256];
    for (slot, nibble) in lengths.iter_mut().skip(first).zip(nibbles) {
        *slot = nibble;
    }
    Ok(lengths)
}

impl RansTable {
    /// A table from frequencies that sum to 4096, each below 4096.
    pub fn new(freqs: [u16; 256]) -> Result<Self> {
        let sum: u32 = freqs.iter().map(|&f| u32::from(f)).sum();
        let scale = 1 << RANS_SCALE_BITS;
        if sum != scale || freqs.iter().any(|&f| u32::from(f) == scale) {
            return Err(Error::corrupt(format!("rans frequencies sum to {sum}, 4096 expected")));
        }
        Ok(Self { freqs })
    }

    /// Frequency of each symbol; 0 means absent.
    pub fn freqs(&self) -> &[u16; 256] {
        &self.freqs
    }

    /// Frequency of a symbol.
    pub fn freq(&self, symbol: u8) -> u16 {
        self.freqs.get(usize::from(symbol)).copied().unwrap_or(0)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let span = write_span(out, self.freqs.iter().map(|&f| f > 0));
        for &freq in self.freqs.get(span).unwrap_or(&[]) {
            varint::write(out, u64::from(freq));
        }
    }

    fn read(input: &mut Reader) -> Result<Self> {
        let (first, count) = read_span(input)?;
        let mut freqs = [0; 256];
        for slot in freqs.iter_mut().skip(first).take(count) {
            let freq = input.varint("rans frequency")?;
            *slot = u16::try_from(freq).ok().filter(|&f| f < 1 << RANS_SCALE_BITS).ok_or_else(
                || Error::corrupt(format!("rans frequency {freq}, at most 4095 expected")),
            )?;
        }
        Self::new(freqs)
    }
}

/// Writes the first and last present symbol; returns the range between them.
fn write_span(
    out: &mut Vec<u8>,
    present: impl Iterator<Item = bool>,
) -> std::ops::RangeInclusive<usize> {
    let mut first = None;
    let mut last = 0;
    for (symbol, _) in present.enumerate().filter(|&(_, p)| p) {
        first.get_or_insert(symbol);
        last = symbol;
    }
    let first = first.unwrap_or(0);
    out.push(u8::try_from(first).unwrap_or(0));
    out.push(u8::try_from(last).unwrap_or(0));
    first..=last
}

/// Reads the output of [`write_span`]: the first symbol, and how many symbols there are from it on.
fn read_span(input: &mut Reader) -> Result<(usize, usize)> {
    let [first, last] = input.array("symbol range of a table")?;
    match last.checked_sub(first) {
        Some(gap) if gap > 0 => Ok((usize::from(first), usize::from(gap).saturating_add(1))),
        _ => Err(Error::corrupt(format!(
            "table for symbols {first} to {last}, two or more expected"
        ))),
    }
}

impl Coder {
    /// Appends the coder's id and parameters.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw => out.push(0),
            Self::Constant(value) => out.extend_from_slice(&[1, *value]),
            Self::Packed { mask, rest } => out.extend_from_slice(&[2, *mask, *rest]),
            Self::Chain(table) => {
                out.push(3);
                table.write(out);
            }
            Self::Huffman(table) => {
                out.push(4);
                table.write(out);
            }
            Self::Rans(table) => {
                out.push(5);
                table.write(out);
            }
            Self::Runs => out.push(6),
            Self::Gaps(low_bits) => out.extend_from_slice(&[7, *low_bits]),
            Self::Apart(apart) => {
                out.extend_from_slice(&[8, apart.byte]);
                apart.flags.write(out);
                apart.others.write(out);
            }
            Self::Tree(table) => {
                out.push(9);
                table.write(out);
            }
        }
    }

    /// Reads a coder; its table is valid when this returns `Ok`.
    pub fn read(input: &mut Reader) -> Result<Self> {
        Self::read_nested(input, APART_DEPTH_MAX)
    }

    /// Reads a coder in which at most `depth` others are nested.
    fn read_nested(input: &mut Reader, depth: u8) -> Result<Self> {
        match input.u8("coder id")? {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Constant(input.u8("constant")?)),
            2 => {
                let [mask, rest] = input.array("packed mask")?;
                if mask == 0 || mask & rest != 0 {
                    return Err(Error::corrupt(format!(
                        "packed mask {mask:#x} with rest {rest:#x}"
                    )));
                }
                Ok(Self::Packed { mask, rest })
            }
            3 => Ok(Self::Chain(ChainTable::read(input)?)),
            4 => Ok(Self::Huffman(Box::new(HuffmanTable::read(input)?))),
            5 => Ok(Self::Rans(Box::new(RansTable::read(input)?))),
            6 => Ok(Self::Runs),
            7 => match input.u8("low bits of gaps")? {
                bits if bits <= GAP_BITS_MAX => Ok(Self::Gaps(bits)),
                bits => {
                    Err(Error::corrupt(format!("gaps with {bits} low bits, at most 24 expected")))
                }
            },
            8 => {
                let depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| Error::corrupt("coders of single bytes are more than 3 deep"))?;
                let byte = input.u8("common byte")?;
                let flags = Self::read_nested(input, depth)?;
                let others = Self::read_nested(input, depth)?;
                Ok(Self::Apart(Box::new(ApartCoder { byte, flags, others })))
            }
            9 => Ok(Self::Tree(Box::new(TreeTable::read(input)?))),
            id => Err(Error::corrupt(format!("coder id {id} is unknown"))),
        }
    }

    /// The coder's name in `docs/format.md`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Constant(_) => "constant",
            Self::Packed { .. } => "packed",
            Self::Chain(_) => "chain",
            Self::Huffman(_) => "huffman",
            Self::Rans(_) => "rans",
            Self::Runs => "runs",
            Self::Gaps(_) => "gaps",
            Self::Apart(_) => "apart",
            Self::Tree(_) => "tree",
        }
    }
}
