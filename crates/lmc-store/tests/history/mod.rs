//! Random histories of a store, and a model that says what must be there after each step.

pub mod clock;
pub mod forecast;
pub mod model;
pub mod ops;
pub mod player;
pub mod policy;
pub mod sources;
pub mod together;
pub mod trouble;
pub mod turns;

/// A promise that was broken, in words.
pub type Broken = String;

/// Ends a function with a broken promise unless something holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
