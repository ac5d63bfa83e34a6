//! The tests of this crate as one program.
//!
//! `cargo test -p lmc-input --test all differential::` runs those of `differential.rs`.

mod dcp_files;
mod dcp_made;
mod differential;
mod gguf_files;
mod gguf_made;
mod hdf5_files;
mod hdf5_made;
mod legacy;
mod legacy_made;
mod made;
mod notes;
mod numpy_files;
mod numpy_made;
mod onnx_files;
mod onnx_made;
mod real_files;
mod torch_attacks;
mod torch_files;
mod torch_made;
