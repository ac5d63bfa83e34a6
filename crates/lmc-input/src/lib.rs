//! The contents of a file: its tensors, their types and positions, and how it is cut into spans.
//!
//! Nothing here decides whether a file can be compressed: anything that is not understood is
//! treated as bytes.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod archive;
mod contents;
mod cursor;
mod cut;
mod dcp;
mod dcp_metadata;
mod gguf;
mod hdf5;
mod hdf5_datatype;
mod hdf5_group;
mod hdf5_object;
mod little_endian;
mod npy;
mod npy_header;
mod onnx;
mod pickle;
mod pickle_machine;
mod protobuf;
mod safetensors_contents;
mod safetensors_header;
mod safetensors_json;
mod source;
mod torch;
mod torch_legacy;
mod torch_state;
mod torch_storages;
mod zip;

pub use contents::{Contents, Data, Format, OtherTensor, Reason, contents};
pub use cut::{Cut, cut, cut_where, is_small};
pub use dcp::dcp_contents;
pub use dcp_metadata::{DcpItem, dcp_items};
pub use safetensors_header::{HEADER_LEN_MAX, JSON_LEN_MAX, header_len, parse, tensors};
pub use source::ReadAt;

use lmc_format::{Dtype, SourceKind};
use std::ops::Range;

/// A file as a sequence of items.
#[derive(Clone, Debug)]
pub struct FileLayout {
    /// The kind of file.
    pub kind: SourceKind,
    /// The items, back to back; together they cover the file.
    pub items: Vec<LayoutItem>,
}

/// A part of a file that is hashed as one: a tensor, or the bytes between tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutItem {
    /// Its length in bytes.
    pub len: u64,
    /// Element type; None if it is unknown, and may be guessed.
    pub dtype: Option<Dtype>,
    /// Words in a row, 0 if it is not a matrix.
    pub row_len: u64,
}

/// A tensor as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// Its bytes in the file.
    pub range: Range<u64>,
}

impl TensorInfo {
    /// Its type and shape for people, such as `BF16 [2, 3]`.
    pub fn form(&self) -> String {
        format!("{} {:?}", self.dtype.label(), self.shape)
    }
}

impl FileLayout {
    /// A file with nothing known but its length.
    pub fn bytes(len: u64) -> Self {
        let item = LayoutItem { len, dtype: None, row_len: 0 };
        Self { kind: SourceKind::Bytes, items: vec![item] }
    }
}
