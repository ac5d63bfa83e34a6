//! Working memory for every kind of recipe, in both directions.

use crate::bins::BinBuffers;
use crate::changes::ChangeBuffers;
use crate::classes::ClassBuffers;
use crate::palette::PaletteBuffers;
use crate::segment::Buffers;

/// The memory of an encoder or a decoder, which all its blocks share.
#[derive(Debug, Default)]
pub(crate) struct RecipeBuffers {
    pub(crate) planes: Buffers,
    pub(crate) classes: ClassBuffers,
    pub(crate) bins: BinBuffers,
    pub(crate) changes: ChangeBuffers,
    pub(crate) palette: PaletteBuffers,
}
