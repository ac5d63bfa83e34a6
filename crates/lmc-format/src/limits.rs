//! Every bound of the format, in one place.

/// Largest number of original bytes in one block.
pub const BLOCK_LEN_MAX: u64 = 1 << 26;
/// Smallest and largest segment, as log2 of its values.
pub const SEGMENT_LOG2_MIN: u8 = 10;
/// See [`SEGMENT_LOG2_MIN`].
pub const SEGMENT_LOG2_MAX: u8 = 18;
/// Largest coded length of a segment: its index entry has 24 bits.
pub const SEGMENT_LEN_MAX: usize = (1 << 24) - 1;
/// Largest number of values in a row when a recipe has offsets.
pub const COLUMNS_MAX: u64 = 1 << 20;
/// Largest recipe in bytes.
pub const RECIPE_LEN_MAX: usize = 1 << 21;
/// Most bits a symbol can have.
pub const SYMBOL_BITS_MAX: u8 = 16;
/// Most levels of a chain code.
pub const CHAIN_LEVELS_MAX: usize = 12;
/// Most symbols of a chain code.
pub const CHAIN_SYMBOLS_MAX: usize = 31;
/// Most contexts of a recipe that needs a base.
pub const CONTEXTS_MAX: u8 = 16;
/// Most bits of the base's exponent that choose a context.
pub const EXPONENT_BITS_MAX: u8 = 11;
/// Most bins of a recipe by bins.
pub const BINS_MAX: u8 = 32;
/// Most payload bits of a value that is coded by bins.
pub const BIN_PAYLOAD_BITS_MAX: u8 = 8;
/// Farthest centre of a bin.
pub const BIN_CENTRE_MAX: u8 = 6;
/// Bins are numbered from minus this number up to one below it; other differences are exceptions.
pub const BIN_MAX: i64 = 56;
/// Most rows of a recipe by bins.
pub const BIN_ROWS_MAX: u8 = 8;
/// Most contexts of the flags of a recipe by changes.
pub const FLAG_CONTEXTS_MAX: u8 = 8;
/// Fewest words of a palette; the position of a word in it is a byte, so there are at most 256.
pub const PALETTE_WORDS_MIN: usize = 2;
/// Deepest nesting of coders of single bytes.
pub const APART_DEPTH_MAX: u8 = 3;
/// Most low bits of a gap.
pub const GAP_BITS_MAX: u8 = 24;
/// Longest Huffman code in bits.
pub const HUFFMAN_BITS_MAX: u8 = 12;
/// The frequencies of a rANS table sum to two to this power.
pub const RANS_SCALE_BITS: u32 = 12;
/// Interleaved rANS states.
pub const RANS_LANES: usize = 32;
/// Most contexts for which rANS has tables.
pub const RANS_CONTEXTS_MAX: usize = 16;
/// Largest number of original bytes in a span.
pub const SPAN_LEN_MAX: u64 = 1 << 24;
/// Smallest and largest block of a span, as log2 of its original bytes.
pub const BLOCK_LOG2_MIN: u8 = 10;
/// See [`BLOCK_LOG2_MIN`].
pub const BLOCK_LOG2_MAX: u8 = 24;
/// Largest number of original bytes in a block of a file, unless it is constant or the same as its
/// base.
pub const CODED_BLOCK_LEN_MAX: usize = 1 << 22;
/// Largest number of original bytes in a block of kind zstd, and so of the window of its frame.
pub const ZSTD_BLOCK_LEN_MAX: usize = 1 << 22;
/// Largest index of a file in bytes.
pub const INDEX_LEN_MAX: u64 = 1 << 28;
/// Most stretches in one arrangement of an original, and of all bases of a file together.
pub const STRETCHES_MAX: usize = 1 << 20;
/// See [`STRETCHES_MAX`].
pub const BASE_STRETCHES_MAX: usize = 1 << 23;
/// Most bytes outside the stretches of an arranged original.
pub const FIRST_ITEM_LEN_MAX: u64 = 1 << 26;
/// Most bases of a file.
pub const BASES_MAX: u64 = 1 << 10;
/// Longest name of a base in bytes.
pub const BASE_NAME_LEN_MAX: usize = 255;
/// Longest varint in bytes.
pub const VARINT_LEN_MAX: usize = 10;
/// The longest block header (kind and `raw_len`): a block that does not compress grows by this
/// much.
pub const BLOCK_PREFIX_LEN_MAX: usize = 1 + 4;

const _: () = assert!(BLOCK_LEN_MAX < 1 << 28, "raw_len fits a four-byte varint");
const _: () = assert!((8 << SEGMENT_LOG2_MAX) < SEGMENT_LEN_MAX, "a stored segment fits its index");
