//! How many bytes a span takes when it is coded, for callers that keep nothing but the number.

use super::SpanEncoder;
use crate::Reference;
use lmc_codec::{Dtype, Level, TensorSpec};
use lmc_format::{Conversion, Result};

/// Codes spans and gives their lengths; one for each thread.
#[derive(Debug)]
pub struct SpanSizer {
    encoder: SpanEncoder,
    out: Vec<u8>,
}

impl SpanSizer {
    /// One that codes at `level`.
    pub fn new(level: Level) -> Self {
        Self { encoder: SpanEncoder::new(level, false), out: Vec::new() }
    }

    /// The bytes that `raw` takes as one span of values of this type, in rows of `row_len` words (0
    /// if there are none); where that is smaller, against `base`, which has as many bytes.
    pub fn coded_len(
        &mut self,
        dtype: Dtype,
        row_len: u64,
        raw: &[u8],
        base: Option<&[u8]>,
    ) -> Result<u64> {
        // Where the base is makes no difference to the length.
        let reference = Reference { source: 1, start: 0, conversion: Conversion::None };
        let out = std::mem::take(&mut self.out);
        let base = base.map(|base| (reference, base));
        let coded = self.encoder.encode(&TensorSpec { dtype, row_len }, raw, base, out, |_| ())?;
        self.out = coded.bytes;
        Ok(self.out.len() as u64)
    }
}
