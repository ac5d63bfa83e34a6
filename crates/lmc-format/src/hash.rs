//! The checksum for everything in a file: XXH3 with 128 bits (`docs/format.md`, section 7.1).

/// A checksum; little-endian on disk.
pub type Hash = u128;

/// Bytes of a checksum on disk.
pub const HASH_LEN: usize = 16;

/// The checksum of `bytes`.
pub fn hash(bytes: &[u8]) -> Hash {
    twox_hash::XxHash3_128::oneshot(bytes)
}

/// A hash of `bytes` that differs for every `seed`; [`hash`] uses seed 0.
pub fn seeded_hash(seed: u64, bytes: &[u8]) -> Hash {
    twox_hash::XxHash3_128::oneshot_with_seed(seed, bytes)
}

/// The checksum of several checksums, one after the other.
pub fn hash_of_hashes(hashes: &[Hash]) -> Hash {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    hash(&bytes)
}

/// Computes the checksum of bytes that arrive one after the other.
#[derive(Clone, Default)]
pub struct Hasher(twox_hash::XxHash3_128);

impl Hasher {
    /// A hasher with the same result as [`seeded_hash`].
    pub fn seeded(seed: u64) -> Self {
        Self(twox_hash::XxHash3_128::with_seed(seed))
    }

    /// Adds `bytes`.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of all bytes added.
    pub fn finish(&self) -> Hash {
        self.0.finish_128()
    }
}
