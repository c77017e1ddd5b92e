//! What an instance is made of.
//!
//! The Pod keeps the restricted Pod Security level: no root, no capabilities, a read-only file
//! system, no token.

use provider_sdk::{Mark, mark};
use serde_json::{Value, json};

use crate::{cluster::Location, config::Config};

/// The key of the ConfigMap, and the file's name.
pub const SQUID_CONF: &str = "squid.conf";
const CONFIG_DIR: &str = "/etc/egress-proxy";
/// The user `proxy` of Debian's and Ubuntu's Squid.
const SQUID_USER: u32 = 13;

/// What is to be made.
pub struct Wanted<'a> {
    pub at: &'a Location,
    pub config: &'a Config,
    pub mark: &'a Mark,
    pub port: u16,
}

impl Wanted<'_> {
    /// The data of the ConfigMap.
    pub fn data(&self) -> Value {
        json!({ SQUID_CONF: self.squid_conf() })
    }

    pub fn config_map(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.metadata(),
            "data": self.data(),
        })
    }

    pub fn pod(&self) -> Value {
        let probe = json!({ "port": self.port });
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self.metadata(),
            "spec": {
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 8,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": SQUID_USER,
                    "runAsGroup": SQUID_USER,
                    "seccompProfile": { "type": "RuntimeDefault" },
                    // Without it nobody but root may listen below 1024.
                    "sysctls": [{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }],
                },
                "containers": [{
                    "name": "squid",
                    "image": self.config.image,
                    "command":
                        ["/usr/sbin/squid", "-N", "-d1", "-f", format!("{CONFIG_DIR}/{SQUID_CONF}")],
                    "ports": [{ "name": "proxy", "containerPort": self.port }],
                    "resources": {
                        "requests": { "cpu": "10m", "memory": "32Mi" },
                        "limits": { "memory": "256Mi" },
                    },
                    "startupProbe":
                        { "tcpSocket": probe, "periodSeconds": 1, "failureThreshold": 60 },
                    "readinessProbe": { "tcpSocket": probe, "periodSeconds": 5 },
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {
                        "allowPrivilegeEscalation": false,
                        "readOnlyRootFilesystem": true,
                        "capabilities": { "drop": ["ALL"] },
                    },
                    "volumeMounts": [
                        { "name": "config", "mountPath": CONFIG_DIR, "readOnly": true },
                        { "name": "tmp", "mountPath": "/tmp" },
                    ],
                }],
                "volumes": [
                    { "name": "config", "configMap": { "name": self.at.name } },
                    { "name": "tmp", "emptyDir": { "sizeLimit": "64Mi" } },
                ],
            },
        })
    }

    /// The mark goes into the very call that makes the object.
    fn metadata(&self) -> Value {
        let Location {
            namespace, name, ..
        } = self.at;
        json!({ "name": name, "namespace": namespace, "labels": mark::to_labels(self.mark) })
    }

    /// Keeps nothing: no cache, no log, no pid file. Reaches neither its own Pod nor link-local
    /// addresses, where clouds hand out a node's credentials.
    fn squid_conf(&self) -> String {
        let Self { port, config, .. } = self;
        let (clients, allow) = match config.allowed_clients.as_slice() {
            [] => (String::new(), ""),
            some => (
                format!("acl clients src {}\n", some.join(" ")),
                "http_access allow clients\n",
            ),
        };
        format!(
            "http_port {port}\n\
             visible_hostname {}\n\
             {clients}\
             acl tunnel method CONNECT\n\
             acl tunnel_ports port 443\n\
             acl inside dst 0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 ::1/128 fe80::/10\n\
             http_access deny manager\n\
             http_access deny tunnel !tunnel_ports\n\
             http_access deny inside\n\
             {allow}\
             http_access deny all\n\
             access_log none\n\
             cache_log /dev/null\n\
             cache deny all\n\
             pid_filename none\n\
             coredump_dir none\n\
             netdb_filename none\n\
             pinger_enable off\n\
             max_filedescriptors 16384\n\
             via off\n\
             forwarded_for delete\n\
             shutdown_lifetime 3 seconds\n",
            self.at.name
        )
    }
}
