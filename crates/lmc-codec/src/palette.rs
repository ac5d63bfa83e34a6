//! One segment in each direction with few different words: each value is coded as its position in a
//! list (`docs/format.md`, sections 3.9 and 4.6).

use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::express::{Encoded, only_if};
use crate::segment::sized;
use crate::simd::Isa;
use crate::transform::palette::{Places, Words};
use lmc_format::{PaletteRecipe, Reader, Result};

/// Working buffers for segments; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct PaletteBuffers {
    plane: Vec<u8>,
    coder: Scratch,
}

/// A recipe ready to encode with.
#[derive(Debug)]
pub struct PaletteEncoder {
    places: Places,
    coder: PlaneEncoder,
}

impl PaletteEncoder {
    /// Prepares `recipe`; None if there is no fast way to tell its words apart.
    pub fn new(recipe: &PaletteRecipe) -> Option<Self> {
        let words = Words::new(recipe.width_log2, &recipe.words);
        Some(Self { places: Places::new(words)?, coder: PlaneEncoder::new(&recipe.coder) })
    }

    /// Appends the coded segment. If the recipe cannot express its values, this fails and leaves
    /// `out` as it was.
    pub fn encode(
        &self,
        isa: Isa,
        values: &[u8],
        buffers: &mut PaletteBuffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let plane = sized(&mut buffers.plane, values.len() / self.places.words().width());
        only_if(self.places.forward(values, plane))?;
        self.coder.encode(isa, plane, &mut buffers.coder, out)
    }
}

/// A recipe ready to decode with.
#[derive(Debug)]
pub struct PaletteDecoder {
    words: Words,
    coder: PlaneDecoder,
}

impl PaletteDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &PaletteRecipe) -> Self {
        let words = Words::new(recipe.width_log2, &recipe.words);
        Self { words, coder: PlaneDecoder::new(&recipe.coder) }
    }

    /// Decodes the segment `coded` into all of `dst`. On an error the contents of `dst` mean
    /// nothing.
    pub fn decode(
        &self,
        isa: Isa,
        coded: &[u8],
        buffers: &mut PaletteBuffers,
        dst: &mut [u8],
    ) -> Result<()> {
        let plane = sized(&mut buffers.plane, dst.len() / self.words.width());
        let mut input = Reader::new(coded);
        self.coder.decode(isa, &mut input, plane, &mut buffers.coder)?;
        input.finish("the segment")?;
        self.words.inverse(plane, dst)
    }
}
