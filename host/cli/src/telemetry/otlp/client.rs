//! How telemetry leaves: over the HTTP client that is here already, on the threads that are here already.
//!
//! The SDK's batches are sent from threads of their own, which have no reactor. So the request runs as a task of the
//! process's own runtime, and that thread waits for it: no longer than the budget, whatever the collector does.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::{runtime::Handle, time::timeout};

use crate::failure::Failure;

/// A collector says a few words at most.
const ANSWER_BYTES: usize = 64 * 1024;

/// Sends to a collector. Clones share connections.
#[derive(Clone, Debug)]
pub struct Collector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    within: Duration,
}

impl Collector {
    /// To be called on the runtime that sends.
    pub fn new(authorities: Option<&str>, within: Duration) -> Result<Self, Failure> {
        let config =
            ClientConfig::builder().with_root_certificates(roots(authorities)?).with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(connector);
        Ok(Self { client, runtime: Handle::current(), within })
    }

    /// One request and its whole answer.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async {
            let (head, body) = self.client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, ANSWER_BYTES).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        match timeout(self.within, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no whole answer within {} ms", self.within.as_millis()).into()),
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let own = self.clone();
        self.runtime.spawn(async move { own.send(request).await }).await?
    }
}

fn roots(authorities: Option<&str>) -> Result<Arc<RootCertStore>, Failure> {
    let mut roots = RootCertStore::empty();
    match authorities {
        // A collector over http needs none.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        Some(path) => {
            let unread = |why: &dyn std::fmt::Display| {
                Failure::Setup(format!("OTEL_EXPORTER_OTLP_CERTIFICATE={path}: {why}"))
            };
            let pem = std::fs::read(path).map_err(|error| unread(&error))?;
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let certificates = certificates.map_err(|_| unread(&"it holds no certificates in PEM"))?;
            let (added, _) = roots.add_parsable_certificates(certificates);
            if added == 0 {
                return Err(unread(&"it holds no certificate that can sign"));
            }
        }
    }
    Ok(Arc::new(roots))
}
