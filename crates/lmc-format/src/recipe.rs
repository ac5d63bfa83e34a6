//! The recipe of a block: everything a decoder must know before the coded bytes (`docs/format.md`,
//! section 3).

use crate::bins::{BINS, BinRecipe, SymbolCoder};
use crate::changes::{CHANGES, ChangeRecipe};
use crate::classes::{CLASSES, ClassRecipe};
use crate::coder::Coder;
use crate::error::{Error, Result};
use crate::limits::{COLUMNS_MAX, SEGMENT_LOG2_MAX, SEGMENT_LOG2_MIN, SYMBOL_BITS_MAX};
use crate::palette::{PALETTE, PaletteRecipe};
use crate::reader::Reader;
use crate::varint;
use std::mem::discriminant;

/// What is done to each word before it is split into planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordMap {
    /// Nothing.
    None,
    /// Rotated left by one bit: a float's sign moves below its mantissa.
    Rotate,
    /// Two's complement to sign in bit 0, so that small numbers of either sign have zero top bits.
    Zigzag,
}

/// What is coded for a value that has a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseUse {
    /// The value itself; there need not be a base.
    None,
    /// The bits that differ.
    Xor,
    /// The difference, modulo two to the number of bits in the word.
    Difference,
}

/// Row and column offsets: the part in the recipe, without the coded column bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Values in a row.
    pub count: u32,
    /// Added to every offset.
    pub base: u16,
    /// How the column bytes are coded.
    pub coder: Coder,
}

/// How every segment of a block is coded.
///
/// Invariants: `width_log2 <= 3`; `1 <= symbol_bits <= min(16, 8 << width_log2)`; `bias <
/// 2^symbol_bits`, 0 unless wide; `planes` has [`Recipe::plane_count`] entries; not both `flags`
/// and `columns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// log2 of the value's width in bytes.
    pub width_log2: u8,
    /// How each word is combined with that of the base, before everything else.
    pub base: BaseUse,
    /// Applied to each word after that.
    pub map: WordMap,
    /// Bits of the symbol, taken from the top of the mapped word.
    pub symbol_bits: u8,
    /// log2 of the values in a segment.
    pub segment_log2: u8,
    /// Where the window of a wide symbol starts.
    pub bias: u16,
    /// Coder of the zero flags, if zero values are left out.
    pub flags: Option<Coder>,
    /// Coders of the planes: symbol, partial, bytes from high to low.
    pub planes: Vec<Coder>,
    /// Row and column offsets of the symbol.
    pub columns: Option<Columns>,
}

impl Recipe {
    /// Whether another recipe has the same coders for the same planes and no columns, so that only
    /// their tables differ.
    pub fn is_like(&self, other: &Self) -> bool {
        let shape = |recipe: &Self| {
            let Self { width_log2, base, map, symbol_bits, .. } = *recipe;
            let coders = recipe.flags.iter().chain(&recipe.planes).map(discriminant);
            (width_log2, base, map, symbol_bits, coders.collect::<Vec<_>>())
        };
        self.columns.is_none() && other.columns.is_none() && shape(self) == shape(other)
    }

    /// Width of a value in bytes.
    pub fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// Original bytes of a segment.
    pub fn segment_len(&self) -> usize {
        self.width() << self.segment_log2
    }

    /// Bytes of column offsets; 0 if there are none.
    pub fn column_count(&self) -> usize {
        self.columns.as_ref().map_or(0, |columns| columns.count as usize)
    }

    /// Bits of the partial plane; 0 if there is none.
    pub fn partial_bits(&self) -> u8 {
        self.remainder_bits() % 8
    }

    /// Number of whole byte planes below the symbol and the partial plane.
    pub fn byte_planes(&self) -> usize {
        usize::from(self.remainder_bits() / 8)
    }

    /// Total number of planes.
    pub fn plane_count(&self) -> usize {
        let partial = usize::from(self.partial_bits() > 0);
        self.byte_planes().saturating_add(partial).saturating_add(1)
    }

    /// Whether the symbol has more than 8 bits, and so a bias and exceptions.
    pub fn is_wide(&self) -> bool {
        self.symbol_bits > 8
    }

    fn remainder_bits(&self) -> u8 {
        (8_u8 << self.width_log2).saturating_sub(self.symbol_bits)
    }

    /// Appends the recipe up to the column coder; the coded column bytes follow, written by the
    /// caller.
    pub fn write(&self, out: &mut Vec<u8>) {
        let map = match self.map {
            WordMap::None => 0,
            WordMap::Rotate => 1,
            WordMap::Zigzag => 2,
        };
        let base = match self.base {
            BaseUse::None => 0,
            BaseUse::Xor => 1,
            BaseUse::Difference => 2,
        };
        let sparse = u8::from(self.flags.is_some());
        let offsets = u8::from(self.columns.is_some());
        out.push(self.width_log2 | map << 2 | sparse << 4 | offsets << 5 | base << 6);
        out.extend_from_slice(&[self.symbol_bits, self.segment_log2]);
        if self.is_wide() {
            out.extend_from_slice(&self.bias.to_le_bytes());
        }
        for coder in self.flags.iter().chain(&self.planes) {
            coder.write(out);
        }
        if let Some(columns) = &self.columns {
            varint::write(out, u64::from(columns.count));
            out.extend_from_slice(&columns.base.to_le_bytes());
            columns.coder.write(out);
        }
    }

    /// Reads a recipe up to the column coder; `input` is left at the coded column bytes, if there
    /// are any.
    pub fn read(input: &mut Reader) -> Result<Self> {
        let [layout, symbol_bits, segment_log2] = input.array("recipe")?;
        let map = match layout >> 2 & 3 {
            0 => WordMap::None,
            1 => WordMap::Rotate,
            2 => WordMap::Zigzag,
            _ => return Err(Error::corrupt("recipe has an unknown word map")),
        };
        let (sparse, offsets) = (layout & 0x10 != 0, layout & 0x20 != 0);
        let base = match layout >> 6 {
            0 => BaseUse::None,
            1 => BaseUse::Xor,
            2 => BaseUse::Difference,
            _ => return Err(Error::corrupt("recipe has an unknown use of its base")),
        };
        if sparse && offsets {
            return Err(Error::corrupt(format!("recipe layout {layout:#x} is not allowed")));
        }
        let width_log2 = layout & 3;
        if symbol_bits == 0 || symbol_bits > SYMBOL_BITS_MAX.min(8 << width_log2) {
            return Err(Error::corrupt(format!("recipe has a symbol of {symbol_bits} bits")));
        }
        if !(SEGMENT_LOG2_MIN..=SEGMENT_LOG2_MAX).contains(&segment_log2) {
            return Err(Error::corrupt(format!("recipe has segments of 2^{segment_log2} values")));
        }
        let bias = if symbol_bits > 8 { input.u16("recipe bias")? } else { 0 };
        if u32::from(bias) >> symbol_bits != 0 {
            return Err(Error::corrupt(format!("bias {bias} is not a {symbol_bits}-bit symbol")));
        }
        let flags = if sparse { Some(Coder::read(input)?) } else { None };
        let mut recipe = Self {
            width_log2,
            base,
            map,
            symbol_bits,
            segment_log2,
            bias,
            flags,
            planes: Vec::new(),
            columns: None,
        };
        for _ in 0..recipe.plane_count() {
            recipe.planes.push(Coder::read(input)?);
        }
        if offsets {
            recipe.columns = Some(Columns::read(input)?);
        }
        Ok(recipe)
    }
}

/// A recipe of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyRecipe {
    /// Words split into planes.
    Planes(Recipe),
    /// Floats by their distance from those of a base, sorted by class.
    Classes(ClassRecipe),
    /// The same in bins, in the order of the values.
    Bins(BinRecipe),
    /// Floats that mostly equal those of a base: which ones differ, and how far they are off, in
    /// bins.
    Changes(Box<ChangeRecipe>),
    /// Values with few different words.
    Palette(PaletteRecipe),
}

impl AnyRecipe {
    /// Reads a recipe up to its column coder, as [`Recipe::read`] does.
    pub fn read(input: &mut Reader) -> Result<Self> {
        match input.rest().first() {
            Some(layout) if layout & PALETTE == PALETTE => {
                Ok(Self::Palette(PaletteRecipe::read(input)?))
            }
            Some(layout) if layout & BINS == BINS => Ok(Self::Bins(BinRecipe::read(input)?)),
            Some(layout) if layout & CHANGES == CHANGES => {
                Ok(Self::Changes(Box::new(ChangeRecipe::read(input)?)))
            }
            Some(layout) if layout & CLASSES == CLASSES => {
                Ok(Self::Classes(ClassRecipe::read(input)?))
            }
            _ => Ok(Self::Planes(Recipe::read(input)?)),
        }
    }

    /// Whether blocks of this recipe need a base.
    pub fn needs_base(&self) -> bool {
        match self {
            Self::Planes(recipe) => recipe.base != BaseUse::None,
            Self::Classes(_) | Self::Bins(_) | Self::Changes(_) => true,
            Self::Palette(_) => false,
        }
    }

    /// Width of a value in bytes.
    pub fn width(&self) -> usize {
        match self {
            Self::Planes(recipe) => recipe.width(),
            Self::Classes(recipe) => recipe.width(),
            Self::Bins(recipe) => recipe.rules.width(),
            Self::Changes(recipe) => recipe.width(),
            Self::Palette(recipe) => recipe.width(),
        }
    }

    /// Original bytes of a segment.
    pub fn segment_len(&self) -> usize {
        match self {
            Self::Planes(recipe) => recipe.segment_len(),
            Self::Classes(recipe) => recipe.segment_len(),
            Self::Bins(recipe) => recipe.rules.segment_len(),
            Self::Changes(recipe) => recipe.segment_len(),
            Self::Palette(recipe) => recipe.segment_len(),
        }
    }

    /// Bytes of column offsets that a decoder derives from the recipe.
    pub fn column_count(&self) -> usize {
        match self {
            Self::Planes(recipe) => recipe.column_count(),
            Self::Classes(_) | Self::Bins(_) | Self::Changes(_) | Self::Palette(_) => 0,
        }
    }

    /// The coders of each segment.
    pub fn coders(&self) -> Vec<&Coder> {
        match self {
            Self::Planes(recipe) => recipe.planes.iter().chain(&recipe.flags).collect(),
            Self::Classes(recipe) => recipe.contexts.iter().collect(),
            Self::Bins(BinRecipe { symbols: SymbolCoder::One(coder), .. }) => vec![coder],
            Self::Bins(_) => Vec::new(),
            Self::Palette(recipe) => vec![&recipe.coder],
            Self::Changes(recipe) => {
                let uncommon = recipe.uncommon.iter().flat_map(|flags| &flags.coders);
                recipe.changed.coders.iter().chain(uncommon).chain([&recipe.coder]).collect()
            }
        }
    }

    /// The number of rANS tables by context.
    pub fn context_tables(&self) -> usize {
        match self {
            Self::Bins(BinRecipe { symbols: SymbolCoder::ByContext(tables), .. }) => {
                tables.tables().len()
            }
            _ => 0,
        }
    }

    /// The coder of the column offsets, if there are any.
    pub fn column_coder(&self) -> Option<&Coder> {
        match self {
            Self::Planes(recipe) => recipe.columns.as_ref().map(|columns| &columns.coder),
            Self::Classes(_) | Self::Bins(_) | Self::Changes(_) | Self::Palette(_) => None,
        }
    }
}

impl Columns {
    fn read(input: &mut Reader) -> Result<Self> {
        let count = input.varint("column count")?;
        let count = match u32::try_from(count) {
            Ok(c) if c > 0 && count <= COLUMNS_MAX => c,
            _ => return Err(Error::corrupt(format!("rows of {count} values, 1 to 2^20 expected"))),
        };
        Ok(Self { count, base: input.u16("offset base")?, coder: Coder::read(input)? })
    }
}
