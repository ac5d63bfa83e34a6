//! A bucket that somebody else writes to concurrently.

use super::*;
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, PutMultipartOptions,
    PutPayload, PutResult,
};
use std::fmt;

/// A bucket in which every object is replaced right after it was copied.
#[derive(Debug, Default)]
struct Replacing(InMemory);

impl fmt::Display for Replacing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

type ObjectResult<T> = object_store::Result<T>;

#[async_trait]
impl ObjectStore for Replacing {
    async fn put_opts(
        &self,
        at: &Path,
        bytes: PutPayload,
        options: PutOptions,
    ) -> ObjectResult<PutResult> {
        self.0.put_opts(at, bytes, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> ObjectResult<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> ObjectResult<GetResult> {
        self.0.get_opts(at, options).await
    }

    fn delete_stream(
        &self,
        places: BoxStream<'static, ObjectResult<Path>>,
    ) -> BoxStream<'static, ObjectResult<Path>> {
        self.0.delete_stream(places)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, ObjectResult<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> ObjectResult<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> ObjectResult<()> {
        self.0.copy_opts(from, to, options).await?;
        self.0.put(from, PutPayload::from_static(b"good")).await.map(drop)
    }
}

/// An object that replaces another one while that one is moved away is not removed, although it has
/// the same length.
#[test]
fn what_takes_the_place_of_a_moved_object_stays() {
    let bucket = BucketStorage::new(Box::new(Replacing::default()), Path::from("")).unwrap();
    bucket.put_new("snapshots/a", b"evil").unwrap();
    let error = bucket.move_new("snapshots/a", "damaged/a").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(bucket.read_all("snapshots/a", 9).unwrap(), b"good");
    assert_eq!(bucket.read_all("damaged/a", 9).unwrap(), b"evil");
}
