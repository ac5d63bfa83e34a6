//! Changes to symbols before they are coded: forward and inverse next to each other.

pub(crate) mod against;
pub(crate) mod offsets;
pub(crate) mod palette;
pub(crate) mod sparse;
pub(crate) mod window;
