//! Real S3 servers on loopback, and a proxy that makes the connection to one unreliable.
//!
//! `tools/s3-servers` installs them into `target/s3-servers`. A test whose server is not installed
//! says so and ends, unless `LMC_REQUIRE_ALL` is set.

mod proxy;
mod server;

pub use proxy::{Fault, Proxy, Request};
pub use server::{Kind, Server};

/// The access key that the servers accept.
pub const ACCESS_KEY: &str = "lmc-test-key";
/// The secret of [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "lmc-test-secret";
/// The bucket that every server has.
pub const BUCKET: &str = "lmc-test";
