//! A store in a bucket, and a folder in which commands on it run.

use super::{code, stderr, text, weights};
use lmc_store::storage::{BucketStorage, Storage};
use lmc_testkit::s3::{ACCESS_KEY, BUCKET, SECRET_KEY, Server};
use object_store::aws::AmazonS3Builder;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// The part of the bucket below a prefix, without the command.
pub fn storage(address: SocketAddr, prefix: &str) -> Arc<dyn Storage> {
    let store = AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(SECRET_KEY)
        .with_bucket_name(BUCKET);
    let store = Box::new(store.build().expect("a bucket"));
    Arc::new(BucketStorage::new(store, prefix.into()).expect("network threads"))
}

#[derive(Clone)]
pub struct Bucket {
    folder: PathBuf,
    address: SocketAddr,
    prefix: String,
}

impl Bucket {
    pub fn new(folder: PathBuf, address: SocketAddr, prefix: &str) -> Self {
        fs::create_dir_all(&folder).expect("a folder");
        Self { folder, address, prefix: prefix.to_string() }
    }

    /// The same by way of another address.
    pub fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    pub fn url(&self) -> String {
        format!("s3://{BUCKET}/{}", self.prefix)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file")
    }

    /// A directory with weights of which some changed, and a file that did not.
    pub fn checkpoint(&self, name: &str, step: u64) {
        let mut values = weights(20_000, 1);
        for i in (0..values.len()).step_by(14) {
            values[i] ^= (step as u8).wrapping_mul(i as u8 | 1) & 3;
        }
        let file = super::safetensors(&[("w", "BF16", &[20_000], &values)]);
        self.write(&format!("{name}/model.safetensors"), &file);
        self.write(&format!("{name}/config.json"), b"{}");
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = super::command(&self.folder, args);
        command.env("LMC_STORE", self.url());
        command.envs(Server::environment(self.address));
        command
    }

    pub fn lmc(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("lmc starts")
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.lmc(args);
        assert_eq!(code(&output), 0, "{} lmc {args:?}: {}", self.prefix, stderr(&output));
        text(output.stdout)
    }

    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).expect("JSON")
    }

    /// Packs that are in the store.
    pub fn packs(&self) -> usize {
        let stats = self.json(&["stats", "--json"]);
        stats["packs"].as_u64().expect("a number") as usize
    }

    pub fn check_restores(&self, snapshot: &str, wanted: &str) {
        let target = format!("restored-{snapshot}");
        self.ok(&["restore", snapshot, &target]);
        same(&self.path(&target), &self.path(wanted));
        fs::remove_dir_all(self.path(&target)).expect("it goes");
    }
}

/// Fails unless two folders hold the same files.
pub fn same(one: &Path, other: &Path) {
    assert!(files(one) == files(other), "{} differs from {}", one.display(), other.display());
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut all = BTreeMap::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let name = path.file_name().expect("a name").into();
            all.insert(name, fs::read(&path).expect("a file"));
        }
    }
    all
}
