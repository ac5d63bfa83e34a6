//! Describes the contents of an archive in words: its spans, blocks and recipes.

use crate::Reference;
use crate::archive::Archive;
use crate::span::{block_bounds, check};
use lmc_format::{
    AnyRecipe, BaseUse, BinRecipe, BlockKind, BlockPrefix, DtypeId, Piece, Reader, Result,
    SymbolCoder,
};

/// A span, as `lmc inspect` shows it.
#[derive(Clone, Debug)]
pub struct SpanInfo {
    /// Position in the original.
    pub start: u64,
    /// Bytes of the original.
    pub raw_len: u64,
    /// Bytes in the file.
    pub coded_len: u64,
    /// The element type that the bytes were coded as.
    pub dtype: DtypeId,
    /// What its blocks may be coded against.
    pub reference: Option<Reference>,
    /// Bytes of the recipe that the blocks share.
    pub recipe_len: u64,
    /// The blocks, without kind and recipe.
    pub blocks: Vec<BlockInfo>,
}

/// A block, as `lmc inspect` shows it.
#[derive(Clone, Debug)]
pub struct BlockInfo {
    /// Position in the file.
    pub offset: u64,
    /// Bytes of the original.
    pub raw_len: u64,
    /// Bytes in the file.
    pub coded_len: u64,
    /// Checksum of the bytes in the file.
    pub hash: u128,
    /// Stored, constant, coded, shared, same or zstd; empty if the block has not been read.
    pub kind: &'static str,
    /// The coders of its planes; empty if the block has not been read.
    pub recipe: String,
}

impl Archive {
    /// The spans in index order, as an iterator: there can be millions.
    pub fn spans(&self) -> impl Iterator<Item = Result<SpanInfo>> + '_ {
        (0..self.span_count()).map(|i| self.span_info(i))
    }

    fn span_info(&self, i: usize) -> Result<SpanInfo> {
        let span = self.index.span(i)?;
        let recipe_len = span.recipe.map_or(0, |recipe| recipe.len);
        let mut offset = self.file_start(i) + recipe_len;
        let block = |(b, piece): (usize, &Piece)| {
            let bounds = block_bounds(&span, b);
            let info = BlockInfo {
                offset,
                raw_len: bounds.end - bounds.start,
                coded_len: piece.len,
                hash: piece.hash,
                kind: "",
                recipe: String::new(),
            };
            offset += piece.len;
            info
        };
        Ok(SpanInfo {
            start: self.index.raw_start(i),
            raw_len: span.raw_len,
            coded_len: span.coded_len(),
            dtype: span.dtype,
            reference: span.reference,
            recipe_len,
            blocks: span.blocks.iter().enumerate().map(block).collect(),
        })
    }

    /// The same with the kinds and recipes of the blocks. This reads and checks the blocks.
    pub fn described_spans(&self) -> impl Iterator<Item = Result<SpanInfo>> + '_ {
        (0..self.span_count()).map(|i| self.described_span(i))
    }

    fn described_span(&self, i: usize) -> Result<SpanInfo> {
        let mut span = self.span_info(i)?;
        let shared = self.shared_recipe(i)?;
        for block in &mut span.blocks {
            (block.kind, block.recipe) = self.describe_block(block, shared.as_deref())?;
        }
        Ok(span)
    }

    /// The recipe of the first block of span `i`, in words.
    pub(crate) fn describe_first(&self, i: usize) -> Result<String> {
        if let Some(shared) = self.shared_recipe(i)? {
            return Ok(shared);
        }
        let span = self.span_info(i)?;
        let Some(first) = span.blocks.first() else { return Ok(String::new()) };
        let (kind, recipe) = self.describe_block(first, None)?;
        Ok(if recipe.is_empty() { kind.to_string() } else { recipe })
    }

    fn shared_recipe(&self, i: usize) -> Result<Option<String>> {
        let Some(piece) = self.index.recipe(i)? else { return Ok(None) };
        let bytes = self.source.read_vec(self.file_start(i), piece.len)?;
        check(&bytes, piece.hash, "shared recipe").map_err(|e| e.at(self.span_name(i)))?;
        Ok(Some(words(&AnyRecipe::read(&mut Reader::new(&bytes))?)))
    }

    fn describe_block(
        &self,
        info: &BlockInfo,
        shared: Option<&str>,
    ) -> Result<(&'static str, String)> {
        let bytes = self.source.read_vec(info.offset, info.coded_len)?;
        check(&bytes, info.hash, "block").map_err(|e| e.at(format!("byte {}", info.offset)))?;
        let mut input = Reader::new(&bytes);
        Ok(match BlockPrefix::read(&mut input)?.kind {
            BlockKind::Stored => ("stored", String::new()),
            BlockKind::Constant => ("constant", String::new()),
            BlockKind::Coded => ("coded", words(&AnyRecipe::read(&mut input)?)),
            BlockKind::Shared => ("shared", shared.unwrap_or_default().to_string()),
            BlockKind::Same => ("same", String::new()),
            BlockKind::Zstd => ("zstd", String::new()),
        })
    }
}

/// A recipe in a few words: the steps before the planes, and the coders of the planes.
fn words(recipe: &AnyRecipe) -> String {
    let mut words: Vec<String> = Vec::new();
    match recipe {
        AnyRecipe::Planes(recipe) => {
            match recipe.base {
                BaseUse::None => {}
                BaseUse::Xor => words.push("xor".to_string()),
                BaseUse::Difference => words.push("difference".to_string()),
            }
            words.extend(recipe.flags.as_ref().map(|_| "sparse".to_string()));
            words.extend(recipe.columns.as_ref().map(|_| "offsets".to_string()));
            let symbol = recipe.planes.first().map(|coder| coder.name()).unwrap_or_default();
            words.push(format!("{symbol}{}", recipe.symbol_bits));
            words.extend(recipe.planes.iter().skip(1).map(|coder| coder.name().to_string()));
        }
        AnyRecipe::Classes(recipe) => {
            words.push(format!("classes{}", recipe.contexts.len()));
            // The context of most values is in the middle.
            words.push(recipe.contexts[recipe.contexts.len() / 2].name().to_string());
            words.extend((recipe.raw_bytes > 0).then(|| format!("raw{}", recipe.raw_bytes)));
        }
        AnyRecipe::Bins(recipe) => {
            let BinRecipe { rules, symbols } = recipe;
            match symbols {
                SymbolCoder::One(coder) => {
                    words.push(format!("bins{}", rules.rows.len()));
                    words.push(coder.name().to_string());
                }
                SymbolCoder::ByContext(tables) => {
                    words.push("bins".to_string());
                    words.push(format!("rans{}", tables.tables().len()));
                }
            }
            words.extend((rules.raw_bytes > 0).then(|| format!("raw{}", rules.raw_bytes)));
        }
        AnyRecipe::Changes(recipe) => {
            words.push(format!("changes{}", recipe.changed.coders.len()));
            words.extend(recipe.changed.coders.first().map(|coder| coder.name().to_string()));
            let raw_bytes = recipe.rules.raw_bytes;
            words.extend((raw_bytes > 0).then(|| format!("raw{raw_bytes}")));
        }
        AnyRecipe::Palette(recipe) => {
            words.push(format!("palette{}", recipe.words.len()));
            words.push(recipe.coder.name().to_string());
        }
    }
    words.join("+")
}
