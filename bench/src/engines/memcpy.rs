//! The yardstick: a plain copy there and a plain copy back.

use super::{Engine, Label, Pace, Sample};
use crate::Result;

/// `copy_from_slice` over the whole sample.
pub struct Memcpy;

impl Engine for Memcpy {
    fn label(&self) -> Label {
        Label { engine: "memcpy", level: String::new(), grouped: false, base: false }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize> {
        coded[..sample.bytes.len()].copy_from_slice(sample.bytes);
        Ok(sample.bytes.len())
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(coded);
        Ok(())
    }
}
