//! Text and paths as they come from Python.
//!
//! A `str` may hold halves of surrogate pairs, which UTF-8 cannot express. Python uses them for the
//! bytes of a file name that are not UTF-8 (`os.fsdecode`). The paths of a snapshot do the same
//! here, so they survive the way out and back in. In any other text they are an error of the
//! caller.

use lmc::Error;
use lmc_store::{Glob, RelPath};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{Raise, exception};

/// Text in UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub String);

impl FromPyObject<'_, '_> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let text = object.cast::<PyString>()?;
        // The text is not repeated: it may be a URL with a password in it.
        let why = "a text is not UTF-8: it holds half of a surrogate pair, such as '\\ud800'";
        let text = text.to_str().map_err(|_| exception(&Error::invalid(why)))?;
        Ok(Self(text.to_string()))
    }
}

/// Plain strings.
pub fn strings<C: FromIterator<String>>(texts: Vec<Text>) -> C {
    texts.into_iter().map(|text| text.0).collect()
}

/// A path in a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotPath(pub RelPath);

impl FromPyObject<'_, '_> for SnapshotPath {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        RelPath::new(name_bytes(&object)?.as_bytes()).map(Self).raise()
    }
}

impl<'py> IntoPyObject<'py> for SnapshotPath {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let bytes = PyBytes::new(py, self.0.as_bytes());
        PyString::from_encoded_object(&bytes, Some(c"utf-8"), Some(c"surrogateescape"))
    }
}

/// A pattern for such paths.
#[derive(Clone, Debug)]
pub struct Pattern(pub Glob);

impl FromPyObject<'_, '_> for Pattern {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Self(Glob::from_bytes(name_bytes(&object)?.as_bytes())))
    }
}

/// The bytes of a name, or of part of one.
fn name_bytes<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let text = object.cast::<PyString>()?;
    encoded(text, "surrogateescape").map_err(|_| match text.repr() {
        Ok(text) => exception(&Error::invalid(format!("{text} cannot be the name of a file"))),
        Err(failure) => failure,
    })
}

/// Text to be read by people, with halves of surrogate pairs as Python writes them.
pub fn visible(text: &Bound<'_, PyString>) -> PyResult<String> {
    Ok(String::from_utf8_lossy(encoded(text, "backslashreplace")?.as_bytes()).into_owned())
}

fn encoded<'py>(text: &Bound<'py, PyString>, errors: &str) -> PyResult<Bound<'py, PyBytes>> {
    Ok(text.call_method1("encode", ("utf-8", errors))?.cast_into()?)
}
