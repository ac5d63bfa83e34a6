//! The reference for speed: a plain copy in each direction.

use crate::{Coded, Engine, Label, Pace, Result, Sample};

/// `copy_from_slice` over the whole sample.
pub struct Memcpy;

impl Engine for Memcpy {
    fn label(&self) -> Label {
        Label { engine: "memcpy", level: String::new(), grouped: false, base: false }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()> {
        coded.len = sample.bytes.len();
        coded.bytes[..coded.len].copy_from_slice(sample.bytes);
        Ok(())
    }

    fn decompress(&mut self, coded: &Coded, _base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&coded.bytes[..coded.len]);
        Ok(())
    }
}
