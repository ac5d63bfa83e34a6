//! From a URL to a bucket: settings from the environment, timeouts and retries.

use super::error::library_words;
use super::url::BucketUrl;
use lmc_format::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use std::ffi::OsString;
use url::Url;

/// The variables with the settings of these clouds start with these prefixes. Others are not ours:
/// `TOKEN` or `REGION` may mean anything.
const PREFIXES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];
/// How long a request may take, unless `AWS_TIMEOUT` is set: a pack in 5 minutes is a slow line.
const TIMEOUT: &str = "300 seconds";

/// The bucket of a URL and the path in it, with the settings in `variables`.
pub(super) fn open(
    url: &Url,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    retries: usize,
) -> Result<(Box<dyn ObjectStore>, Path)> {
    let cannot = |e: object_store::Error| {
        Error::invalid(format!("cannot use {}: {}", BucketUrl::of_url(url), library_words(&e)))
    };
    let (scheme, path) = ObjectStoreScheme::parse(url).map_err(|e| cannot(e.into()))?;
    let path = Path::parse(path).map_err(|e| cannot(e.into()))?;
    let settings = settings(variables);
    Ok((build(&scheme, url, settings, retries).map_err(cannot)?, path))
}

/// Names and values as `object_store` calls them.
fn settings(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok()?;
        PREFIXES.iter().any(|prefix| name.starts_with(prefix)).then_some(())?;
        Some((name.to_ascii_lowercase(), value.into_string().ok()?))
    };
    let own: Vec<(String, String)> = variables.into_iter().filter_map(text).collect();
    let mut settings = vec![("timeout".to_string(), TIMEOUT.to_string())];
    // A user who sets an endpoint with http:// has allowed plain HTTP for it.
    let is_endpoint = |name: &str| name.starts_with("aws_endpoint");
    if own.iter().any(|(name, value)| is_endpoint(name) && value.starts_with("http://")) {
        settings.push(("allow_http".to_string(), "true".to_string()));
    }
    settings.extend(own);
    settings
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn build(
    scheme: &ObjectStoreScheme,
    url: &Url,
    settings: Vec<(String, String)>,
    retries: usize,
) -> object_store::Result<Box<dyn ObjectStore>> {
    use object_store::RetryConfig;
    let retry = RetryConfig { max_retries: retries, ..RetryConfig::default() };
    let is_s3 = matches!(scheme, ObjectStoreScheme::AmazonS3);
    let connector = super::machine::Connector::new(&settings, is_s3);
    macro_rules! build {
        ($builder:ty) => {{
            let new = <$builder>::new().with_url(url.as_str()).with_retry(retry);
            let new = new.with_http_connector(connector);
            // An unknown setting is for another cloud or for another program.
            let set = |builder: $builder, (name, value): (String, String)| match name.parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            };
            Ok(Box::new(settings.into_iter().fold(new, set).build()?))
        }};
    }
    match scheme {
        #[cfg(feature = "s3")]
        ObjectStoreScheme::AmazonS3 => build!(object_store::aws::AmazonS3Builder),
        #[cfg(feature = "gcs")]
        ObjectStoreScheme::GoogleCloudStorage => {
            build!(object_store::gcp::GoogleCloudStorageBuilder)
        }
        #[cfg(feature = "azure")]
        ObjectStoreScheme::MicrosoftAzure => build!(object_store::azure::MicrosoftAzureBuilder),
        _ => Err(unknown()),
    }
}

#[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
fn build(
    _: &ObjectStoreScheme,
    _: &Url,
    _: Vec<(String, String)>,
    _: usize,
) -> object_store::Result<Box<dyn ObjectStore>> {
    Err(unknown())
}

fn unknown() -> object_store::Error {
    let source = "this lmc was built without buckets of this kind".into();
    object_store::Error::Generic { store: "lmc", source }
}

/// How many times a request is sent again, from `LMC_RETRIES`.
pub(super) fn retries() -> Result<usize> {
    match std::env::var("LMC_RETRIES") {
        Err(_) => Ok(super::RETRIES),
        Ok(text) => text.parse().map_err(|_| {
            let message = format!("LMC_RETRIES must be a number, not {text:?}");
            Error::new(ErrorKind::InvalidArgument, message)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        settings(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    /// A variable that only looks like a setting changes nothing.
    #[test]
    fn other_programs_variables() {
        let foreign = [("TOKEN", "x"), ("BUCKET", "x"), ("REGION", "x"), ("ENDPOINT", "http://x")];
        assert_eq!(of(&foreign), of(&[]));
    }

    /// Plain HTTP is used if the endpoint was set with http://, and only then.
    #[test]
    fn plain_http() {
        let http = ("allow_http".to_string(), "true".to_string());
        assert!(of(&[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]).contains(&http));
        assert!(!of(&[("AWS_ENDPOINT_URL", "https://127.0.0.1:1")]).contains(&http));
    }

    /// The user's settings come last and win.
    #[test]
    fn timeouts() {
        let settings = of(&[("AWS_TIMEOUT", "9 seconds")]);
        assert_eq!(settings.first().unwrap().0, "timeout");
        assert_eq!(settings.last().unwrap().0, "aws_timeout");
    }
}
