//! From the location of a store to its storage.

use super::disk::RealDisk;
use super::location::{self, Location};
use super::{LocalStorage, Storage};
use crate::layout::config::CONFIG_NAME;
use lmc::Folder;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// A way to write the location of a store.
struct Scheme {
    /// What its URLs start with, before `://`.
    names: &'static [&'static str],
    /// How a location is written, for messages.
    form: &'static str,
    opens: Opens,
    /// Whether it is part of this build.
    is_built: bool,
}

/// What opens a location. One that is on a disk must keep new stores private ([`make_folders`]).
#[derive(Clone, Copy)]
enum Opens {
    Directory,
    Bucket,
}

const HAS_BUCKETS: bool = cfg!(any(feature = "s3", feature = "gcs", feature = "azure"));

/// One row for each way. A location that is not a URL belongs to the first row.
const SCHEMES: &[Scheme] = &[
    row(&["file"], "DIRECTORY", Opens::Directory, true),
    row(&["s3", "s3a"], "s3://BUCKET/PREFIX", Opens::Bucket, cfg!(feature = "s3")),
    row(&["gs"], "gs://BUCKET/PREFIX", Opens::Bucket, cfg!(feature = "gcs")),
    row(AZURE, "az://CONTAINER/PREFIX", Opens::Bucket, cfg!(feature = "azure")),
    row(&["https", "http"], "https://SERVER/PATH", Opens::Bucket, HAS_BUCKETS),
];

const AZURE: &[&str] = &["az", "azure", "abfs", "abfss", "adl"];

const fn row(
    names: &'static [&'static str],
    form: &'static str,
    opens: Opens,
    is_built: bool,
) -> Scheme {
    Scheme { names, form, opens, is_built }
}

/// Who may see the contents of a new store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Only its owner.
    #[default]
    Private,
    /// Everyone who may see other new files of its owner, according to the umask.
    Shared,
}

/// Opens the storage at `location`: a directory, or a URL such as `s3://bucket/prefix`.
pub fn open(location: &str) -> Result<Arc<dyn Storage>> {
    location::check(location)?;
    let (opens, path) = parse(location)?;
    match opens {
        Opens::Directory => Ok(Arc::new(LocalStorage::new(Path::new(path)))),
        #[cfg(feature = "bucket")]
        Opens::Bucket => Ok(Arc::new(super::BucketStorage::from_url(location)?)),
        #[cfg(not(feature = "bucket"))]
        Opens::Bucket => Err(refused(location, ErrorKind::Unsupported)),
    }
}

/// What opens a location, and its part after the scheme.
fn parse(location: &str) -> Result<(Opens, &str)> {
    let Some((name, rest)) = location.split_once("://") else {
        return Ok((SCHEMES[0].opens, location));
    };
    let name = name.to_ascii_lowercase();
    match SCHEMES.iter().find(|scheme| scheme.names.contains(&&name[..])) {
        Some(scheme) if scheme.is_built => Ok((scheme.opens, rest)),
        Some(_) => Err(refused(location, ErrorKind::Unsupported)),
        None => Err(refused(location, ErrorKind::InvalidArgument)),
    }
}

/// Whether a location is the URL of a directory, whose path is a path of the file system.
pub(super) fn is_directory_url(location: &str) -> bool {
    location.contains("://") && local_path(location).is_ok_and(|path| path.is_some())
}

/// Whether the URL of a store may start with this name, in lower case.
pub(super) fn is_scheme(name: &str) -> bool {
    SCHEMES.iter().any(|scheme| scheme.names.contains(&name))
}

/// The error about a location that this build cannot open, with those that it can.
fn refused(location: &str, kind: ErrorKind) -> Error {
    let why = match kind {
        ErrorKind::Unsupported => "this lmc was built without it",
        _ => "it is not the URL of a store",
    };
    let built = SCHEMES.iter().filter(|scheme| scheme.is_built).map(|scheme| scheme.form);
    let forms = built.collect::<Vec<_>>().join(", ");
    Error::new(kind, format!("{}: {why}; use one of {forms}", Location::from(location)))
}

/// Opens a place for a new store. A directory is made with all folders above it; if it already
/// exists and is empty, it is closed to others. A directory of another user is refused, unless the
/// store is to be shared. A bucket has no folders.
pub fn open_new(location: &str, access: Access) -> Result<Arc<dyn Storage>> {
    location::check(location)?;
    let (opens, path) = parse(location)?;
    match opens {
        Opens::Directory => {
            let path = Path::new(path);
            make_folders(path, access)?;
            Ok(Arc::new(LocalStorage::on(path, Arc::new(RealDisk::new(path, access)))))
        }
        Opens::Bucket => open(location),
    }
}

/// Makes the folders above the directory of a new store, and closes the directory to others if it
/// already exists and nothing is in it.
fn make_folders(path: &Path, access: Access) -> Result<()> {
    let cannot = |e: io::Error| Error::io(format_args!("cannot make {}", path.display()), e);
    let mode = match access {
        Access::Private => PRIVATE,
        Access::Shared => 0o777,
    };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Folder::reach_or_make(parent, mode).map_err(cannot)?;
    }
    if let Some(folder) = Folder::reach(path).ok().filter(|_| access == Access::Private) {
        let names = folder.names().ok();
        // `init` will say that a store already exists.
        if !names.iter().flatten().any(|name| name == CONFIG_NAME) {
            check_owner(path)?;
        }
        if names.is_some_and(|names| names.is_empty()) {
            // The file system may not support modes; `mode` tells.
            let _ = folder.set_mode(PRIVATE);
        }
    }
    Ok(())
}

/// Fails if a folder belongs to another user, who can open it to everyone at any time.
fn check_owner(path: &Path) -> Result<()> {
    let metadata = std::fs::metadata(path)
        .map_err(|e| Error::io(format_args!("cannot access {}", path.display()), e))?;
    if metadata.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let message = format!(
        "{} belongs to another user, who can open it to others, so a private store cannot be in it",
        path.display()
    );
    Err(Error::invalid(message).with_advice(Advice::ChooseOwnFolder))
}

/// The permission bits of a store in a directory, which everything in it follows.
pub fn mode(location: &str) -> Option<u32> {
    let metadata = std::fs::metadata(local_path(location).ok()??).ok()?;
    Some(metadata.permissions().mode() & 0o777)
}

/// The permissions of a folder that only its owner may use.
const PRIVATE: u32 = 0o700;

/// The directory that `location` names, if it is one.
fn local_path(location: &str) -> Result<Option<&Path>> {
    let (opens, path) = parse(location)?;
    Ok(match opens {
        Opens::Directory => Some(Path::new(path)),
        Opens::Bucket => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A location that cannot be opened is refused with the forms of those that can, and without
    /// its secrets. Capital letters make no difference.
    #[test]
    fn other_urls_are_refused() {
        for url in ["ftp://host/x?sig=hunter2", "memory:///x", "S4://bucket"] {
            let error = open(url).expect_err(url);
            assert_eq!(error.kind, ErrorKind::InvalidArgument, "{error}");
            let said = error.to_string();
            assert!(said.contains("DIRECTORY") && !said.contains("hunter2"), "{said}");
        }
        for (name, url) in [("s3", "S3://bucket"), ("gs", "gs://bucket"), ("az", "az://container")]
        {
            let is_built = SCHEMES.iter().any(|row| row.is_built && row.names.contains(&name));
            let is_unbuilt = open(url).is_err_and(|e| e.kind == ErrorKind::Unsupported);
            assert_eq!(is_unbuilt, !is_built, "{url}");
        }
        for location in ["dir", "/dir", "file:///dir", "FILE:///dir"] {
            assert!(local_path(location).unwrap().is_some(), "{location}");
        }
    }
}
