//! Which archives of several manifests are the same.

use crate::layout::manifest::{ArchiveInfo, Extent, Manifest};
use crate::layout::names::PackName;

/// Identifies an archive by the hash and the size of its original, the places of its bytes, and the
/// identities of its bases.
pub(crate) type Identity = [u8; 32];

/// The identities of the archives of a manifest. `key` says what identifies a pack: its bytes, or
/// its place.
pub(crate) fn identities(manifest: &Manifest, key: impl Fn(&PackName) -> &str) -> Vec<Identity> {
    let mut identities: Vec<Identity> = Vec::with_capacity(manifest.archives.len());
    for archive in &manifest.archives {
        let mut hasher = own(manifest, archive, &key);
        for &base in &archive.bases {
            // Every archive comes after its bases.
            hasher.update(&identities[base]);
        }
        identities.push(*hasher.finalize().as_bytes());
    }
    identities
}

/// Identifies the own bytes of each archive of a manifest: by the hash and the size of its original
/// and by their places, whatever its bases are.
pub(crate) fn places(manifest: &Manifest) -> Vec<u128> {
    let place = |archive: &ArchiveInfo| {
        let hash = own(manifest, archive, &PackName::as_str).finalize();
        let (start, _) = hash.as_bytes().split_at(16);
        start.iter().fold(0, |place, &byte| place << 8 | u128::from(byte))
    };
    manifest.archives.iter().map(place).collect()
}

/// Everything that identifies an archive except its bases.
fn own(
    manifest: &Manifest,
    archive: &ArchiveInfo,
    key: &impl Fn(&PackName) -> &str,
) -> blake3::Hasher {
    let ArchiveInfo { hash, size, extents, .. } = archive;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&hash.to_le_bytes());
    hasher.update(&size.to_le_bytes());
    // Lengths before lists, so that no two archives give the same bytes.
    hasher.update(&(extents.len() as u64).to_le_bytes());
    for Extent { pack, offset, len } in extents {
        let key = key(&manifest.packs[*pack].name);
        hasher.update(&(key.len() as u64).to_le_bytes());
        hasher.update(key.as_bytes());
        hasher.update(&offset.to_le_bytes());
        hasher.update(&len.to_le_bytes());
    }
    hasher
}
