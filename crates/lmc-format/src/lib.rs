//! Reads and writes the structures of lmc blocks and files, as `docs/format.md` defines them.
//!
//! There is no I/O and no unsafe code, and memory use is bounded by the number of bytes read.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation
    )
)]

mod advice;
mod arrangement;
mod bins;
pub mod block;
mod changes;
mod classes;
pub mod coder;
mod contexts;
pub mod dtype;
pub mod error;
pub mod file;
pub mod hash;
pub mod index;
pub mod limits;
mod palette;
pub mod reader;
pub mod recipe;
pub mod reference;
pub mod stored_index;
pub mod varint;
mod zstd;

pub use advice::Advice;
pub use arrangement::Arrangement;
pub use bins::{Bin, BinRecipe, BinRules, SymbolCoder};
pub use block::{BlockKind, BlockPrefix};
pub use changes::{ChangeRecipe, FlagContexts};
pub use classes::ClassRecipe;
pub use coder::{ApartCoder, ChainTable, Coder, HuffmanTable, RansTable, TreeTable};
pub use contexts::ContextTables;
pub use dtype::{Dtype, DtypeId, NumpyName};
pub use error::{Error, ErrorKind, Result, is_shortage};
pub use file::{Footer, HEADER_LEN};
pub use hash::{Hash, Hasher, hash, seeded_hash};
pub use index::{Arranged, Index, Item, Piece, SourceKind, Span};
pub use palette::PaletteRecipe;
pub use reader::Reader;
pub use recipe::{AnyRecipe, BaseUse, Columns, Recipe, WordMap};
pub use reference::{BaseId, Conversion, Reference};
pub use stored_index::StoredIndex;
pub use zstd::ZstdBody;
