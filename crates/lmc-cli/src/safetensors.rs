//! Writes safetensors files: tensors in, the bytes of a file out.

use serde_json::{Map, Value, json};

/// A safetensors file that is being built.
#[derive(Default)]
pub struct File {
    header: Map<String, Value>,
    data: Vec<u8>,
}

impl File {
    /// Adds a tensor.
    pub fn push(&mut self, name: &str, dtype: &str, shape: &[u64], bytes: &[u8]) {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        let offsets = [start, self.data.len()];
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        self.header.insert(name.into(), entry);
    }

    /// Its bytes.
    pub fn finish(self) -> Vec<u8> {
        let mut header = Value::Object(self.header).to_string();
        // The format requires the data at a multiple of 8 and allows blanks.
        header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &self.data].concat()
    }
}
