//! A cursor over untrusted bytes: every read is checked, nothing is copied.

use crate::error::{Error, Result};
use crate::varint;

/// Reads fields from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `len` bytes, or fails with `Truncated` naming `what`.
    pub fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let Some((head, tail)) = self.rest.split_at_checked(len) else {
            return Err(Error::truncated(format!(
                "{what} needs {len} bytes, {} are left",
                self.rest.len()
            )));
        };
        self.rest = tail;
        Ok(head)
    }

    /// Takes `N` bytes as an array.
    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    /// Takes one byte.
    pub fn u8(&mut self, what: &str) -> Result<u8> {
        let [byte] = self.array(what)?;
        Ok(byte)
    }

    /// Takes a little-endian u16.
    pub fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Takes a varint.
    pub fn varint(&mut self, what: &str) -> Result<u64> {
        let (value, used) = varint::read(self.rest).map_err(|e| e.at(what))?;
        self.take(used, what)?;
        Ok(value)
    }

    /// Fails unless everything has been read.
    pub fn finish(&self, what: &str) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(Error::corrupt(format!("{n} bytes are left over after {what}"))),
        }
    }
}
