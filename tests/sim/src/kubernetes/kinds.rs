//! What the API serves.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};

/// A kind of object and how the API serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// `v1`, `apps/v1`.
    pub api_version: Cow<'static, str>,
    /// `pods`.
    pub plural: Cow<'static, str>,
    /// `Pod`.
    pub kind: Cow<'static, str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether its status is written apart from the rest.
    pub status: bool,
}

const fn kind(
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    status: bool,
) -> Kind {
    Kind {
        api_version: Cow::Borrowed(api_version),
        plural: Cow::Borrowed(plural),
        kind: Cow::Borrowed(kind),
        namespaced,
        status,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

const BUILT_IN: [Kind; 16] = [
    kind("v1", "configmaps", "ConfigMap", true, false),
    kind("v1", "events", "Event", true, false),
    kind("v1", "namespaces", "Namespace", false, true),
    kind("v1", "nodes", "Node", false, true),
    kind("v1", "pods", "Pod", true, true),
    kind("v1", "resourcequotas", "ResourceQuota", true, true),
    kind("v1", "secrets", "Secret", true, false),
    kind("v1", "serviceaccounts", "ServiceAccount", true, false),
    kind("v1", "services", "Service", true, true),
    kind("apps/v1", "deployments", "Deployment", true, true),
    kind("apps/v1", "replicasets", "ReplicaSet", true, true),
    kind("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", true, true),
    kind(RBAC, "clusterrolebindings", "ClusterRoleBinding", false, false),
    kind(RBAC, "clusterroles", "ClusterRole", false, false),
    kind(RBAC, "rolebindings", "RoleBinding", true, false),
    kind(RBAC, "roles", "Role", true, false),
];

impl Kind {
    /// `""`, `apps`.
    pub(super) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `pods`, `deployments.apps`: also the first part of an object's key.
    pub(super) fn qualified(&self) -> String {
        match self.group() {
            "" => self.plural.to_string(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// `Pod`, `Deployment.apps`.
    pub(super) fn qualified_kind(&self) -> String {
        match self.group() {
            "" => self.kind.to_string(),
            group => format!("{}.{group}", self.kind),
        }
    }

    /// A Status' details.
    pub(super) fn details(&self, name: &str) -> Value {
        self.details_with(&self.plural, name)
    }

    /// The same where the API server names the kind.
    pub(super) fn details_by_kind(&self, name: &str) -> Value {
        self.details_with(&self.kind, name)
    }

    fn details_with(&self, kind: &str, name: &str) -> Value {
        let mut details = json!({ "kind": kind });
        if let Value::Object(fields) = &mut details {
            if !name.is_empty() {
                fields.insert("name".to_owned(), name.into());
            }
            if !self.group().is_empty() {
                fields.insert("group".to_owned(), self.group().into());
            }
        }
        details
    }

    /// Whether its fields are known here.
    pub(super) fn is_built_in(&self) -> bool {
        BUILT_IN.contains(self)
    }

    /// Whether this kind's objects are deleted with a grace period, by who runs them.
    pub(super) fn has_grace(&self) -> bool {
        self.api_version == "v1" && self.plural == "pods"
    }
}

/// All kinds that one cluster serves.
#[derive(Clone, Debug)]
pub(super) struct Kinds(Vec<Arc<Kind>>);

impl Default for Kinds {
    fn default() -> Self {
        Self(BUILT_IN.into_iter().map(Arc::new).collect())
    }
}

impl Kinds {
    /// One more, as a CustomResourceDefinition adds it.
    pub(super) fn add(&mut self, kind: Kind) {
        self.0.push(Arc::new(kind));
    }

    pub(super) fn find(&self, api_version: &str, plural: &str) -> Option<Arc<Kind>> {
        self.0.iter().find(|kind| kind.api_version == api_version && kind.plural == plural).cloned()
    }

    /// By what stands in an object.
    pub(super) fn of(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        self.0.iter().find(|found| found.api_version == api_version && found.kind == kind).cloned()
    }

    /// By the first part of its objects' keys.
    pub(super) fn by_key(&self, resource: &str) -> Option<Arc<Kind>> {
        self.0.iter().find(|kind| kind.qualified() == resource).cloned()
    }

    pub(super) fn serves_group(&self, group: &str) -> bool {
        self.0.iter().any(|kind| kind.group() == group)
    }
}
