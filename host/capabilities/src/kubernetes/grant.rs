//! The grant as people write it, and whether it makes sense.
//!
//! It reads like RBAC, because its readers know RBAC, with two differences: a rule names its namespaces,
//! and `*` never reaches a subresource, since `pods/exec` is a shell.

use std::{collections::BTreeMap, path::PathBuf};

use egress_contract::Fault;
use serde::{Deserialize, Serialize};

use super::names;
use crate::{faults::Faults, timeouts::Timeouts};

/// Everything, where it is written.
pub(super) const ANY: &str = "*";
/// What a capability can do; RBAC knows more.
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];
/// A longer deadline can't be met: the runtime ends every host call earlier.
const LONGEST_MS: u64 = 95_000;

/// What an entry may do in which clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubernetesGrant {
    /// By the name that the provider's config uses.
    pub clusters: BTreeMap<String, ClusterGrant>,
}

/// One cluster: how to reach it, as whom, and what for.
///
/// Exactly one of `operator`, `inCluster` and `kubeconfig` is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClusterGrant {
    /// The cluster and the identity that the operator itself uses. It can do more than a provider should:
    /// give a `serviceAccount` too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operator: bool,
    /// The cluster that the operator runs in, with the token that is mounted into its Pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_cluster: bool,
    /// Any cluster, by a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<KubeconfigGrant>,
    /// The identity to take on by impersonation, which the identity above must be allowed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccount>,
    /// What may be done. The API server's own rules hold besides.
    pub rules: Vec<Rule>,
    /// When to give up.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// A kubeconfig file. It, and the files that it names, are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubeconfigGrant {
    /// An absolute path.
    pub file: PathBuf,
    /// A context in it; else its current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// A ServiceAccount of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A request passes when some rule lists its verb, its resource and its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// API groups; `""` is the core group, and the default.
    #[serde(default = "core_group")]
    pub api_groups: Vec<String>,
    /// Plural names. Subresources are named (`pods/status`); `*` does not reach them.
    pub resources: Vec<String>,
    /// Of `get`, `list`, `create`, `patch`, `delete`. A server-side apply needs `patch` and `create`.
    pub verbs: Vec<String>,
    /// Namespaces. What has none, and a list over all of them, needs `*`.
    pub namespaces: Vec<String>,
    /// Only objects of these names; can't be said of `list` and `create`, which know no name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

fn core_group() -> Vec<String> {
    vec![String::new()]
}

impl KubernetesGrant {
    /// Everything that is wrong; paths begin at the grant.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        if self.clusters.is_empty() {
            faults.add("clusters", "names no cluster; add one, or leave the grant out");
        }
        for (name, cluster) in &self.clusters {
            let path = format!("clusters.{name}");
            if !names::is_cluster(name) {
                faults.add(&path, "a cluster's name matches [A-Za-z0-9._-]{1,63}");
            }
            cluster.check(&path, &mut faults);
        }
        faults.0
    }
}

impl ClusterGrant {
    fn check(&self, path: &str, faults: &mut Faults) {
        match [self.operator, self.in_cluster, self.kubeconfig.is_some()]
            .iter()
            .filter(|given| **given)
            .count()
        {
            1 => {}
            0 => faults.add(
                path,
                "says not how to reach the cluster; add one of operator, inCluster and kubeconfig",
            ),
            _ => faults.add(
                path,
                "gives several ways to reach the cluster; keep one of operator, inCluster and kubeconfig",
            ),
        }
        if let Some(kubeconfig) = &self.kubeconfig {
            if !kubeconfig.file.is_absolute() {
                faults.add(&format!("{path}.kubeconfig.file"), "must be an absolute path");
            }
            if kubeconfig.context.as_deref() == Some("") {
                faults.add(
                    &format!("{path}.kubeconfig.context"),
                    "is empty; leave it out for the current context",
                );
            }
        }
        if let Some(account) = &self.service_account {
            if !names::is_label(&account.namespace) {
                faults.add(&format!("{path}.serviceAccount.namespace"), "is not a namespace's name");
            }
            if !names::is_subdomain(&account.name) {
                faults.add(&format!("{path}.serviceAccount.name"), "is not a ServiceAccount's name");
            }
        }
        if self.rules.is_empty() {
            faults.add(&format!("{path}.rules"), "grants nothing; add a rule");
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check(&format!("{path}.rules[{index}]"), faults);
        }
        self.timeouts.check(&format!("{path}.timeouts"), LONGEST_MS, faults);
    }
}

impl Rule {
    fn check(&self, path: &str, faults: &mut Faults) {
        let group = |group: &str| group.is_empty() || names::is_subdomain(group);
        faults.add_values(path, "apiGroups", &self.api_groups, group, "an API group, such as \"\" or apps");
        let plural = "a resource's plural name, such as pods or pods/status";
        faults.add_values(path, "resources", &self.resources, names::is_plural, plural);
        let verb = "a verb that a provider can use: get, list, create, patch, delete";
        faults.add_values(path, "verbs", &self.verbs, |verb| VERBS.contains(&verb), verb);
        faults.add_values(path, "namespaces", &self.namespaces, names::is_label, "a namespace's name");
        for (index, name) in self.resource_names.iter().enumerate() {
            if !names::is_object(name) {
                faults.add(
                    &format!("{path}.resourceNames[{index}]"),
                    &format!("{name:?} is not an object's name"),
                );
            }
        }
        let nameless = |verb: &String| matches!(verb.as_str(), "list" | "create" | ANY);
        if !self.resource_names.is_empty() && self.verbs.iter().any(nameless) {
            faults.add(
                &format!("{path}.resourceNames"),
                "can't limit list and create, which know no name; give them a rule of their own",
            );
        }
    }
}

impl Faults {
    /// Of a list that must hold something, and of each value in it that is neither right nor `*`.
    fn add_values(
        &mut self,
        path: &str,
        field: &str,
        values: &[String],
        right: impl Fn(&str) -> bool,
        what: &str,
    ) {
        if values.is_empty() {
            self.add(&format!("{path}.{field}"), "is empty, so that the rule grants nothing");
        }
        for (index, value) in values.iter().enumerate() {
            if value != ANY && !right(value) {
                self.add(&format!("{path}.{field}[{index}]"), &format!("{value:?} is not {what}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn paths(grant: Value) -> Vec<String> {
        let grant: KubernetesGrant = serde_json::from_value(grant).unwrap();
        grant.faults().into_iter().map(|fault| fault.path).collect()
    }

    #[test]
    fn a_grant_as_the_documentation_shows_it_is_accepted() {
        let rules = json!([
            { "resources": ["pods", "pods/status"], "verbs": ["get", "list"], "namespaces": ["proxies"] },
            { "apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"] },
            { "resources": ["secrets"], "verbs": ["get"], "namespaces": ["proxies"], "resourceNames": ["pull"] },
        ]);
        let grant = json!({ "clusters": {
            "home": { "operator": true, "serviceAccount": { "namespace": "proxies", "name": "squid" }, "rules": rules },
            "other.eu": { "kubeconfig": { "file": "/etc/epo/other", "context": "eu" }, "rules": rules,
                          "timeouts": { "connectMs": 1000, "requestMs": 5000 } },
        } });
        assert_eq!(paths(grant), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_told_with_its_path() {
        let grant = json!({ "clusters": { "a/b": {
            "operator": true, "kubeconfig": { "file": "relative", "context": "" },
            "serviceAccount": { "namespace": "Bad", "name": "" },
            "rules": [
                { "apiGroups": ["Apps"], "resources": ["pods/a/b", ".."], "verbs": ["watch"], "namespaces": [] },
                { "resources": ["pods"], "verbs": ["list"], "namespaces": ["a"], "resourceNames": ["x/y"] },
            ],
            "timeouts": { "connectMs": 0, "requestMs": 100_000_000 },
        }, "c": { "rules": [], "timeouts": { "connectMs": 10, "requestMs": 10 } } } });
        assert_eq!(
            paths(grant),
            [
                "clusters.a/b",
                "clusters.a/b",
                "clusters.a/b.kubeconfig.file",
                "clusters.a/b.kubeconfig.context",
                "clusters.a/b.serviceAccount.namespace",
                "clusters.a/b.serviceAccount.name",
                "clusters.a/b.rules[0].apiGroups[0]",
                "clusters.a/b.rules[0].resources[0]",
                "clusters.a/b.rules[0].resources[1]",
                "clusters.a/b.rules[0].verbs[0]",
                "clusters.a/b.rules[0].namespaces",
                "clusters.a/b.rules[1].resourceNames[0]",
                "clusters.a/b.rules[1].resourceNames",
                "clusters.a/b.timeouts.connectMs",
                "clusters.a/b.timeouts.requestMs",
                "clusters.c",
                "clusters.c.rules",
                "clusters.c.timeouts.connectMs",
            ]
        );
        assert_eq!(paths(json!({ "clusters": {} })), ["clusters"]);
    }

    #[test]
    fn a_mistyped_field_is_refused_not_ignored() {
        for grant in [
            json!({ "clusters": {}, "cluster": {} }),
            json!({ "clusters": { "a": { "incluster": true, "rules": [] } } }),
            json!({ "clusters": { "a": { "rules": [{ "resources": [], "verbs": [], "namespaces": [], "names": [] }] } } }),
            json!({ "clusters": { "a": { "rules": [{ "resources": [], "verbs": [] }] } } }),
        ] {
            assert!(serde_json::from_value::<KubernetesGrant>(grant.clone()).is_err(), "{grant}");
        }
    }
}
