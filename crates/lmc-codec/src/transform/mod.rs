//! What is done to symbols before they are coded: forward and inverse side by side.

pub mod against;
pub mod offsets;
pub mod palette;
pub mod sparse;
pub mod window;
