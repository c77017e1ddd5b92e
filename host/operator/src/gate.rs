//! The operator's way to its API server, on which nothing is written unless it may be.
//!
//! All loops write through one client. What one of them believes does not matter: a request that changes
//! something asks the proof right before it is sent, and again when it went on waiting for a connection.

use std::{
    error::Error as StdError,
    sync::Arc,
    task::{Context, Poll},
};

use egress_runtime::capability::{Withheld, Writes, while_allowed};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower::{Layer, Service};

type BoxError = Box<dyn StdError + Send + Sync>;

/// Kinds below these paths are questions, though they are posted.
const QUESTIONS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];

/// Puts [`Gated`] around a client's own service.
pub struct Gate(pub Arc<dyn Writes>);

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, writes: Arc::clone(&self.0) }
    }
}

/// See the module.
pub struct Gated<S> {
    inner: S,
    writes: Arc<dyn Writes>,
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_read(&request) {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        if let Err(withheld) = self.writes.may_begin() {
            return Box::pin(async move { Err(withheld.into()) });
        }
        let (answer, writes) = (self.inner.call(request), Arc::clone(&self.writes));
        Box::pin(async move { while_allowed(&*writes, answer).await?.map_err(Into::into) })
    }
}

fn is_read(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    *request.method() == Method::GET
        || *request.method() == Method::HEAD
        || (*request.method() == Method::POST && QUESTIONS.iter().any(|kinds| path.starts_with(kinds)))
}

/// Whether a call failed because this process may not write.
pub fn withheld(error: &kube::Error) -> Option<&Withheld> {
    match error {
        kube::Error::Service(error) => error.downcast_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api,
        api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
        client::ClientBuilder,
    };
    use serde_json::json;

    use super::*;
    use crate::{cluster::call, core::lease::Proof, tests::double::Double};

    fn gated(double: &Double, proof: &Proof) -> Api<ConfigMap> {
        let builder = ClientBuilder::new(double.service(), "default");
        Api::default_namespaced(builder.with_layer(&Gate(Arc::new(proof.clone()))).build())
    }

    fn config_map() -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": "x" } })).unwrap()
    }

    #[tokio::test]
    async fn without_the_proof_whatever_changes_something_is_withheld_and_reads_are_not() {
        let (double, proof) = (Double::default(), Proof::always());
        let api = gated(&double, &proof);
        api.create(&PostParams::default(), &config_map()).await.unwrap();
        proof.close();
        let patch = Patch::Merge(json!({ "data": { "a": "b" } }));
        let writes = [
            call(api.create(&PostParams::default(), &config_map())).await.err(),
            call(api.replace("x", &PostParams::default(), &config_map())).await.err(),
            call(api.patch("x", &PatchParams::default(), &patch)).await.err(),
            call(api.delete("x", &DeleteParams::default())).await.err(),
        ];
        for error in writes {
            let error = error.unwrap().to_string();
            assert!(error.starts_with("this process can't prove that it leads"), "{error}");
        }
        assert_eq!(double.count("", "configmaps"), 1, "none of them was sent");
        assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
        assert!(api.get("x").await.is_ok());
    }
}
