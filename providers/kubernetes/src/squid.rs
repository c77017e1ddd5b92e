//! Squid's configuration.
//!
//! Generated so that Squid runs without root, on a read-only file system, and keeps nothing: no cache, no
//! pid file, no log file. It answers only the networks that the entry allows, tunnels only to the ports
//! that it allows, and reaches neither its own Pod nor link-local addresses, where clouds hand out a
//! node's credentials.

use std::fmt::Write;

use crate::networks::Network;

/// Who may use the proxy when the config says nothing: the networks that are not routed on the Internet.
pub const PRIVATE_NETWORKS: [&str; 5] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];
/// In an entry's own template: the Proxy's port.
pub const PORT: &str = "{{port}}";
/// In an entry's own template: the allowed networks, with blanks between.
pub const CLIENTS: &str = "{{allowedClients}}";

/// What the config says of Squid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Squid {
    pub allowed_clients: Vec<Network>,
    pub connect_ports: Vec<u16>,
    pub access_log: AccessLog,
    /// How long open connections may last when it is stopped.
    pub shutdown_seconds: u32,
    pub binary: String,
    /// A whole configuration instead of the generated one.
    pub template: Option<String>,
}

/// Where requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Nowhere: who asked for what is the clients' own affair.
    None,
    /// Standard output, so `kubectl logs` shows it.
    Stdout,
}

impl Squid {
    /// The configuration for a Proxy.
    pub fn render(&self, name: &str, port: u16) -> String {
        match &self.template {
            Some(template) => {
                template.replace(PORT, &port.to_string()).replace(CLIENTS, &joined(&self.allowed_clients))
            }
            None => self.generate(name, port),
        }
    }

    fn generate(&self, name: &str, port: u16) -> String {
        let clients = joined(&self.allowed_clients);
        let tunnels = joined(&self.connect_ports);
        let mut conf = format!(
            "# Written by the provider; a change here is lost with the instance.\n\
             http_port {port}\n\
             visible_hostname {name}\n\
             \n\
             acl tunnel method CONNECT\n\
             acl web_ports port 80 443 1025-65535\n\
             acl inside dst 0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 ::/128 ::1/128 fe80::/10\n"
        );
        for (acl, values) in [("clients src", clients), ("tunnel_ports port", tunnels)] {
            if !values.is_empty() {
                // Writing to a String can't fail.
                let _ = writeln!(conf, "acl {acl} {values}");
            }
        }
        conf.push_str("http_access deny manager\n");
        conf.push_str(match self.connect_ports.as_slice() {
            [] => "http_access deny tunnel\n",
            _ => "http_access deny tunnel !tunnel_ports\n",
        });
        conf.push_str("http_access deny !tunnel !web_ports\nhttp_access deny inside\n");
        if !self.allowed_clients.is_empty() {
            conf.push_str("http_access allow clients\n");
        }
        conf.push_str("http_access deny all\n\n");
        conf.push_str(match self.access_log {
            AccessLog::None => "access_log none\n",
            // The probes connect and ask nothing: without the condition each would be a line.
            AccessLog::Stdout => {
                "acl asked has request\naccess_log stdio:/dev/stdout logformat=squid asked\n"
            }
        });
        // `-d1` writes what matters of the cache log to standard error. The limit on descriptors is there
        // because Squid reserves memory for as many as its container may open.
        let _ = write!(
            conf,
            "cache_log /dev/null\n\
             cache_store_log none\n\
             cache deny all\n\
             cache_mem 0 MB\n\
             pid_filename none\n\
             coredump_dir none\n\
             netdb_filename none\n\
             pinger_enable off\n\
             max_filedescriptors 16384\n\
             via off\n\
             forwarded_for delete\n\
             shutdown_lifetime {} seconds\n",
            self.shutdown_seconds
        );
        conf
    }
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// What is wrong with a template, or nothing.
pub fn template_fault(template: &str) -> Option<String> {
    let mut rest = template;
    while let Some((_, from)) = rest.split_once("{{") {
        let Some((placeholder, behind)) = from.split_once("}}") else {
            return Some("has {{ without }}".to_owned());
        };
        if !matches!(placeholder, "port" | "allowedClients") {
            return Some(format!("has {{{{{placeholder}}}}}; known are {PORT} and {CLIENTS}"));
        }
        rest = behind;
    }
    if template.contains(PORT) {
        None
    } else {
        Some(format!("must contain {PORT}: the Proxy says at which port it listens"))
    }
}
