//! One cluster, as whoever asks it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use egress_runtime::capability::{
    Access, Clock, DeleteOptions, Kubernetes, KubernetesFailure, KubernetesFailureKind, ListOptions,
    PatchKind, Resource, Server,
};
use serde_json::Value;

use super::{names, requests::Caller, rights::Ask, state::State, status::unsent};

/// As whom an entry asks, where nothing else is said.
const USER: &str = "system:serviceaccount:egress-system:provider";
const MANAGER: &str = "egress-proxies-operator.kubernetes";
const VERSION: &str = "v1.36.3";

/// A cluster in memory. A clone is another way to the same cluster, perhaps as somebody else; [`Cluster::copy`]
/// is another cluster.
#[derive(Clone)]
pub struct Cluster {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
    caller: Caller,
    home: bool,
}

impl Cluster {
    /// An empty cluster: one node, the namespaces `default` and `kube-system`, every right.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_seed(clock, 0)
    }

    /// The same; the seed decides UIDs and generated names.
    pub fn with_seed(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let state = State::new(clock.now_ms(), seed);
        let caller = Caller { user: USER.to_owned(), manager: MANAGER.to_owned() };
        Self { state: Arc::new(Mutex::new(state)), clock, caller, home: true }
    }

    /// Another cluster, which is now as this one is, with a clock of its own.
    pub fn copy(&self, clock: Arc<dyn Clock>) -> Self {
        let state = Arc::new(Mutex::new(self.state().clone()));
        Self { state, clock, ..self.clone() }
    }

    /// The same cluster, asked by another user.
    #[must_use]
    pub fn as_user(&self, user: &str) -> Self {
        let caller = Caller { user: user.to_owned(), ..self.caller.clone() };
        Self { caller, ..self.clone() }
    }

    /// The same cluster, written to under another name.
    #[must_use]
    pub fn as_manager(&self, manager: &str) -> Self {
        let caller = Caller { manager: manager.to_owned(), ..self.caller.clone() };
        Self { caller, ..self.clone() }
    }

    /// The same cluster, which does or doesn't hold the Proxies.
    #[must_use]
    pub fn at_home(&self, home: bool) -> Self {
        Self { home, ..self.clone() }
    }

    /// As whom this asks.
    pub fn user(&self) -> &str {
        &self.caller.user
    }

    /// When something happens next by itself, in milliseconds since 1970.
    pub fn next_due(&self) -> Option<u64> {
        self.now().agenda.at()
    }

    /// The state, after all that is due by now.
    pub(super) fn now(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.advance(self.clock.now_ms());
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Kubernetes for Cluster {
    async fn about(&self, _cluster: &str) -> Result<Server, KubernetesFailure> {
        drop(self.now());
        Ok(Server { version: VERSION.to_owned(), home: self.home, user: self.caller.user.clone() })
    }

    async fn get(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Value, KubernetesFailure> {
        let state = self.now();
        let subject = state.subject(&self.caller, "get", resource, namespace, Some(name))?;
        state.get(&subject)
    }

    async fn list(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, KubernetesFailure> {
        let state = self.now();
        let subject = state.subject(&self.caller, "list", resource, namespace, None)?;
        state.list(&subject, options)
    }

    async fn allowed(&self, _cluster: &str, access: &Access) -> Result<bool, KubernetesFailure> {
        let state = self.now();
        let Access { verb, resource, namespace } = access;
        names::check_path(resource, namespace, None)
            .map_err(|fault| unsent(KubernetesFailureKind::Invalid, fault))?;
        state.check_grant(&self.caller, verb, resource, namespace)?;
        Ok(state.is_allowed(&self.caller.user, &Ask::new(verb, resource, namespace, None)))
    }

    async fn create(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        let mut state = self.now();
        let subject = state.subject(&self.caller, "create", resource, namespace, None)?;
        state.create(&self.caller, &subject, body)
    }

    async fn patch(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: Value,
    ) -> Result<Value, KubernetesFailure> {
        let mut state = self.now();
        let subject = state.subject(&self.caller, "patch", resource, namespace, Some(name))?;
        state.patch(&self.caller, &subject, kind, &body)
    }

    async fn delete(
        &self,
        _cluster: &str,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, KubernetesFailure> {
        let mut state = self.now();
        let subject = state.subject(&self.caller, "delete", resource, namespace, Some(name))?;
        state.delete(&subject, options)
    }
}
