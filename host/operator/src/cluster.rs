//! Calls to the API server: each has a deadline, and each failure one short sentence.
//!
//! Only a timeout around a call bounds it: a server that is frozen holds a connection that stands, and a
//! new one while it connects. A call that was given up on may still have happened.

use std::{error::Error as _, sync::Arc, time::Duration};

use egress_capabilities::kubernetes;
use egress_runtime::capability::{Always, Writes};
use http::HeaderValue;
use kube::{Client, Config, core::Status};

/// The field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "egress-proxies-operator";
/// On every object that the operator keeps for itself.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "egress-proxies-operator");

/// The longest that one call may take.
const DEADLINE: Duration = Duration::from_secs(15);

/// Who answers as an API server does.
#[derive(Clone)]
pub enum ApiServer {
    /// One over the network.
    Cluster(Box<Config>),
    /// Somebody in this process: without a cluster, a directory.
    Here(Client),
}

/// The cluster that holds the Proxies, and the operator's own namespace in it.
#[derive(Clone)]
pub struct Cluster {
    /// Its API.
    pub client: Client,
    /// Where the operator keeps what it needs.
    pub namespace: String,
}

impl Cluster {
    /// A client that repeats nothing by itself.
    pub fn new(server: ApiServer, namespace: String) -> Result<Self, CallError> {
        Self::guarded(server, namespace, Arc::new(Always))
    }

    /// The same, on which nothing is written unless it may be. Of somebody in this process there is one: it ends with
    /// whoever could write.
    pub fn guarded(server: ApiServer, namespace: String, writes: Arc<dyn Writes>) -> Result<Self, CallError> {
        let config = match server {
            ApiServer::Cluster(config) => *config,
            ApiServer::Here(client) => return Ok(Self { client, namespace }),
        };
        let connecting = config.connect_timeout.unwrap_or(DEADLINE).min(DEADLINE);
        let agent = HeaderValue::from_static(FIELD_MANAGER);
        let client = kubernetes::connect(config, connecting, agent, writes);
        Ok(Self { client: client.map_err(|error| CallError::Failed(Box::new(error)))?, namespace })
    }
}

/// A call without a usable answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Whether it happened is unknown.
    #[error("the API server did not answer within {} s", DEADLINE.as_secs())]
    Timeout,
    /// The server refused, or could not be reached.
    #[error("{}", sentence(.0))]
    Failed(Box<kube::Error>),
}

impl CallError {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Timeout => None,
            Self::Failed(error) => match error.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
        }
    }

    /// There was no answer.
    pub fn is_unreachable(&self) -> bool {
        self.status().is_none()
    }

    /// The object is not there. A kind that is not there says so in other words, and is none of these.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// The kind is not there.
    pub fn is_unserved(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404 && !status.is_not_found())
    }

    /// Somebody else wrote first.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    /// There is one of that name.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// A right is missing.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }

    /// The object is one that the server can't take.
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(Status::is_invalid)
    }
}

/// Waits for the answer, within the deadline.
pub async fn call<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(CallError::Failed(Box::new(error))),
        Err(_) => Err(CallError::Timeout),
    }
}

fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            format!("{} ({})", status.message, status.code)
        }
        kube::Error::Api(status) => {
            format!("the API server answered {} without a reason", status.code)
        }
        kube::Error::SerdeError(error) => {
            format!("the API server's answer can't be read: {error}; is its CRD the operator's own?")
        }
        // Each layer repeats its cause or hides it; the innermost one says what happened.
        other => {
            let mut innermost = other.source();
            while let Some(cause) = innermost.and_then(|error| error.source()) {
                innermost = Some(cause);
            }
            match innermost {
                Some(cause) => format!("the API server was not reached: {cause}"),
                None => other.to_string(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_ends_at_the_deadline() {
        let answer = call(std::future::pending::<kube::Result<()>>()).await;
        assert_eq!(answer.unwrap_err().to_string(), "the API server did not answer within 15 s");
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_own_words() {
        let status = Status::failure("exceeded quota: q", "Forbidden").with_code(403).boxed();
        let error = CallError::Failed(Box::new(kube::Error::Api(status)));
        assert!(error.is_forbidden() && !error.is_not_found());
        assert_eq!(error.to_string(), "exceeded quota: q (403)");
    }

    #[test]
    fn a_kind_that_is_missing_is_not_an_object_that_is_gone() {
        let status =
            Status::failure("404 page not found", "Failed to parse error data").with_code(404).boxed();
        assert!(!CallError::Failed(Box::new(kube::Error::Api(status))).is_not_found());
    }

    #[test]
    fn a_broken_connection_is_told_by_its_innermost_cause() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused");
        let layered = std::io::Error::other(std::io::Error::other(refused));
        let error = CallError::Failed(Box::new(kube::Error::Service(Box::new(layered))));
        assert_eq!(error.to_string(), "the API server was not reached: Connection refused");
    }
}
