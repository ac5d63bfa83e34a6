//! The table of element types, for Python, which has no other table of the types of safetensors.

use lmc::{Dtype, NumpyName};

/// Name in safetensors, bits, name in numpy, name in torch.
pub type Row = (&'static str, u64, Option<&'static str>, Option<&'static str>);

/// The types that safetensors knows.
pub fn rows() -> Vec<Row> {
    let row = |dtype: Dtype| {
        let numpy = dtype.in_numpy().map(|name| match name {
            NumpyName::Own(name) | NumpyName::MlDtypes(name) => name,
        });
        Some((dtype.in_safetensors()?, dtype.bits(), numpy, dtype.in_torch()))
    };
    Dtype::ALL.into_iter().filter_map(row).collect()
}
