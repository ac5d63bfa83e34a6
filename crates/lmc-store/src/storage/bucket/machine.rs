//! Keys that the machine itself provides. If the user has set no keys, the libraries of the clouds
//! ask an address that only machines of that cloud have. Elsewhere there is no answer. The user
//! should learn that within seconds and in helpful words, not after a minute of retries.

use futures_util::future::BoxFuture;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use std::fmt;
use std::time::Duration;
use url::Url;

/// The addresses at which the machines of clouds provide keys.
const ADDRESSES: [&str; 3] = ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal"];
/// How long one answer may take; it comes from the machine itself or from close to it.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How many times a question is asked.
const TRIES: usize = 2;

/// Says that there are no keys, and why.
#[derive(Debug)]
pub(super) struct NoKeys(String);

impl fmt::Display for NoKeys {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoKeys {}

/// Makes clients that may ask the machine for keys, but do not wait long for an answer.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    /// The address that the user set for this.
    own: Option<String>,
    is_forbidden: bool,
}

impl Connector {
    /// From the settings of the user: `AWS_METADATA_ENDPOINT` sets another address, and
    /// `AWS_EC2_METADATA_DISABLED` forbids asking for the keys of S3, as in the AWS tools.
    pub(super) fn new(settings: &[(String, String)], is_s3: bool) -> Self {
        let value = |wanted: &str| {
            let mut named = settings.iter().filter(|(name, _)| name == wanted);
            named.next_back().map(|(_, value)| value.as_str())
        };
        let url = value("aws_metadata_endpoint").and_then(|text| Url::parse(text).ok());
        let own = url.map(|url| url.authority().to_string());
        let is_forbidden = value("aws_ec2_metadata_disabled")
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
        Self { own, is_forbidden: is_s3 && is_forbidden }
    }

    /// Whether a request asks the machine for keys.
    fn is_asked(&self, request: &HttpRequest) -> bool {
        let host = request.uri().host().unwrap_or_default();
        let whole = request.uri().authority().map(|authority| authority.as_str());
        ADDRESSES.contains(&host) || whole.is_some() && whole == self.own.as_deref()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Client { client, connector: self.clone() }))
    }
}

#[derive(Debug)]
struct Client {
    client: HttpClient,
    connector: Connector,
}

impl Client {
    /// Asks the machine. An error is one that is not retried.
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let no_keys = |why: String| HttpError::new(HttpErrorKind::Unknown, NoKeys(why));
        if self.connector.is_forbidden {
            return Err(no_keys("AWS_EC2_METADATA_DISABLED is set".to_string()));
        }
        let mut why = String::new();
        for _ in 0..TRIES {
            match tokio::time::timeout(ANSWER_MAX, self.client.execute(request.clone())).await {
                Ok(Ok(answer)) if answer.status().as_u16() == 404 => {
                    return Err(no_keys("the machine has no role that provides any".to_string()));
                }
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(e)) => why = format!("the machine cannot be asked: {e}"),
                Err(_) => why = "the machine does not answer".to_string(),
            }
        }
        Err(no_keys(why))
    }
}

impl HttpService for Client {
    // As `async_trait` writes it.
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> BoxFuture<'async_trait, Result<HttpResponse, HttpError>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            match self.connector.is_asked(&request) {
                true => self.ask(request).await,
                false => self.client.execute(request).await,
            }
        })
    }
}
