//! What is done to symbols before they are coded: forward and inverse side by side.

pub(crate) mod against;
pub(crate) mod offsets;
pub(crate) mod palette;
pub(crate) mod sparse;
pub(crate) mod window;
