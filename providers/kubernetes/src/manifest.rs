//! What an instance is made of.
//!
//! The Pod keeps the restricted Pod Security level, so it may stand in namespaces that enforce it. It
//! gets no token, no service links and no writable file system but a small `/tmp`.

use provider_sdk::{Mark, Target, mark};
use serde_json::{Map, Value, json};

use crate::{config::Config, id::Location};

/// The key of the ConfigMap, and the file's name.
pub const SQUID_CONF: &str = "squid.conf";
const CONFIG_DIR: &str = "/etc/egress-proxy";
/// What a zone is called on nodes.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Squid closes its sockets after `shutdown_lifetime`, and takes up to a second to see that it is over.
const GRACE_ABOVE_SHUTDOWN: u32 = 5;

/// What is to be made.
pub struct Wanted<'a> {
    pub at: &'a Location,
    pub config: &'a Config,
    pub target: &'a Target,
    pub mark: &'a Mark,
    pub port: u16,
    pub zone: Option<&'a str>,
    /// Whether the Proxy can own it: the garbage collector takes an owner in another cluster or namespace
    /// for gone, and removes what it owned.
    pub owned: bool,
}

impl Wanted<'_> {
    /// Squid's configuration.
    pub fn squid_conf(&self) -> String {
        self.config.squid.render(&self.at.name, self.port)
    }

    /// The ConfigMap.
    pub fn config_map(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.metadata(),
            "data": { SQUID_CONF: self.squid_conf() },
        })
    }

    /// The Pod.
    pub fn pod(&self) -> Value {
        let config = self.config;
        let mut spec = json!({
            "restartPolicy": "Always",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": config.squid.shutdown_seconds + GRACE_ABOVE_SHUTDOWN,
            "securityContext": self.pod_security(),
            "containers": [self.container()],
            "volumes": [
                { "name": "config", "configMap": { "name": self.at.name } },
                { "name": "tmp", "emptyDir": { "sizeLimit": "64Mi" } },
            ],
        });
        if let Some(spec) = spec.as_object_mut() {
            let pull_secrets: Vec<Value> =
                config.pull_secrets.iter().map(|name| json!({ "name": name })).collect();
            put(spec, "serviceAccountName", config.service_account.clone().map(Value::from));
            put(spec, "imagePullSecrets", some(pull_secrets));
            put(spec, "tolerations", some(config.tolerations.clone()));
            let nodes = self.node_selector();
            put(spec, "nodeSelector", (!nodes.is_empty()).then_some(Value::Object(nodes)));
        }
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": self.metadata(), "spec": spec })
    }

    fn metadata(&self) -> Value {
        let mut labels = mark::to_labels(self.mark);
        labels.insert("app.kubernetes.io/name".to_owned(), "egress-proxy".into());
        labels.insert("app.kubernetes.io/managed-by".to_owned(), "egress-proxies-operator".into());
        let mut metadata = json!({ "name": self.at.name, "namespace": self.at.namespace, "labels": labels });
        if self.owned {
            let owner = json!([{
                "apiVersion": "egressproxies.dev/v1alpha1",
                "kind": "Proxy",
                "name": self.target.proxy,
                "uid": self.target.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }]);
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("ownerReferences".to_owned(), owner);
            }
        }
        metadata
    }

    fn container(&self) -> Value {
        let config = self.config;
        let squid = &config.squid;
        let probe = json!({ "port": self.port });
        let mut container = json!({
            "name": "squid",
            "image": config.image,
            "command": [squid.binary, "-N", "-d1", "-f", format!("{CONFIG_DIR}/{SQUID_CONF}")],
            "ports": [{ "name": "proxy", "containerPort": self.port, "protocol": "TCP" }],
            "resources": config.resources,
            // Squid's last words, where it dies at once of its configuration.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            // Ready within a second of listening, then asked seldom.
            "startupProbe": { "tcpSocket": probe, "periodSeconds": 1, "failureThreshold": 60 },
            "readinessProbe": { "tcpSocket": probe, "periodSeconds": 5, "failureThreshold": 3 },
            "livenessProbe": { "tcpSocket": probe, "periodSeconds": 10, "failureThreshold": 6 },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
            "volumeMounts": [
                { "name": "config", "mountPath": CONFIG_DIR, "readOnly": true },
                { "name": "tmp", "mountPath": "/tmp" },
            ],
        });
        if let Some(container) = container.as_object_mut() {
            put(container, "imagePullPolicy", config.pull_policy.map(Value::from));
        }
        container
    }

    fn pod_security(&self) -> Value {
        let mut context = json!({
            "runAsNonRoot": true,
            "runAsUser": self.config.run_as_user,
            "runAsGroup": self.config.run_as_group,
            "seccompProfile": { "type": "RuntimeDefault" },
        });
        // Below 1024 a process without capabilities needs leave to listen; this is one of the sysctls
        // that every Pod Security level allows.
        if let Some(context) = context.as_object_mut().filter(|_| self.port < 1024) {
            let sysctl = json!([{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }]);
            context.insert("sysctls".to_owned(), sysctl);
        }
        context
    }

    fn node_selector(&self) -> Map<String, Value> {
        let mut nodes = self.config.node_selector.clone();
        if let Some(zone) = self.zone {
            nodes.insert(ZONE_LABEL.to_owned(), zone.into());
        }
        nodes
    }
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value);
    }
}

fn some(list: Vec<Value>) -> Option<Value> {
    (!list.is_empty()).then_some(Value::Array(list))
}
