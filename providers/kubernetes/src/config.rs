//! The entry's config, read to its end.

use provider_sdk::{
    Fault,
    config::{self, Field, Object},
};
use serde_json::{Map, Value, json};

use crate::{
    networks::Network,
    squid::{AccessLog, CLIENTS, PRIVATE_NETWORKS, Squid, template_fault},
};

/// Beyond this a check would ask for hundreds of rights.
const MOST_NAMESPACES: usize = 64;
/// A ConfigMap holds 1 MiB; a configuration that long is none.
const LONGEST_TEMPLATE: usize = 256 * 1024;

/// What the entry says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// A cluster of the grant: the only place.
    pub cluster: String,
    pub namespaces: Namespaces,
    pub image: String,
    pub pull_policy: Option<&'static str>,
    pub pull_secrets: Vec<String>,
    pub service_account: Option<String>,
    pub resources: Value,
    pub node_selector: Map<String, Value>,
    pub tolerations: Vec<Value>,
    pub run_as_user: u64,
    pub run_as_group: u64,
    pub squid: Squid,
}

/// Where instances are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All in this one.
    Fixed(String),
    /// Each in its Proxy's, if that is among these.
    Own(Vec<String>),
    /// Each in its Proxy's, whichever it is.
    AnyOwn,
}

impl Namespaces {
    /// Which to look at; one empty name stands for all of them at once.
    pub fn looked_at(&self) -> Vec<String> {
        match self {
            Self::Fixed(namespace) => vec![namespace.clone()],
            Self::Own(namespaces) => namespaces.clone(),
            Self::AnyOwn => vec![String::new()],
        }
    }
}

impl Config {
    /// The config, or every fault in it.
    pub fn read(value: &Value) -> Result<Self, Vec<Fault>> {
        config::read(value, |root| Self {
            cluster: root
                .required("cluster", "the name of a cluster under grants.kubernetes.clusters")
                .and_then(|field| field.text().map(str::to_owned))
                .unwrap_or_default(),
            namespaces: namespaces(root),
            image: root
                .required("image", "a container image that holds Squid, best by digest")
                .and_then(|field| image(&field))
                .unwrap_or_default(),
            pull_policy: root.optional("imagePullPolicy").and_then(|field| {
                field.one_of(&[("Always", "Always"), ("IfNotPresent", "IfNotPresent"), ("Never", "Never")])
            }),
            pull_secrets: names(root, "imagePullSecrets", subdomain),
            service_account: root.optional("serviceAccountName").and_then(|field| subdomain(&field)),
            resources: root.optional("resources").map_or_else(default_resources, |field| resources(&field)),
            node_selector: root
                .optional("nodeSelector")
                .map(|field| node_selector(&field))
                .unwrap_or_default(),
            tolerations: list(root, "tolerations", toleration),
            run_as_user: user(root, "runAsUser"),
            run_as_group: user(root, "runAsGroup"),
            squid: root
                .optional("squid")
                .and_then(|field| field.object(squid))
                .unwrap_or_else(|| config::read(&json!({}), squid).unwrap_or_else(|_| default_squid())),
        })
    }
}

fn namespaces(root: &mut Object<'_>) -> Namespaces {
    let namespace = root.optional("namespace");
    let own = root.optional("namespaces");
    let fixed = namespace.filter(|field| field.value() != "sameAsProxy");
    match (fixed, own) {
        (Some(fixed), None) => Namespaces::Fixed(label(&fixed).unwrap_or_default()),
        (None, None) => Namespaces::AnyOwn,
        (None, Some(own)) => {
            let names: Vec<String> = own.list().iter().filter_map(label).collect();
            match names.len() {
                0 => own.fault("must name at least one namespace; leave it out for every namespace"),
                1..=MOST_NAMESPACES => {}
                more => own.fault(format!(
                    "has {more} namespaces, and {MOST_NAMESPACES} is the most; leave it out for every namespace"
                )),
            }
            Namespaces::Own(names)
        }
        (Some(_), Some(own)) => {
            own.fault("goes with namespace: sameAsProxy alone; leave out one of the two");
            Namespaces::AnyOwn
        }
    }
}

fn image(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        field.fault(format!("must be an image's name without blanks, but is {text:?}"));
        return None;
    }
    Some(text.to_owned())
}

fn user(root: &mut Object<'_>, key: &'static str) -> u64 {
    // 13 is `proxy` in Debian's and Ubuntu's images. 0 would break the restricted Pod Security level.
    root.optional(key).and_then(|field| field.integer(1..=4_294_967_294)).unwrap_or(13)
}

/// Little, since most proxies idle; the limit is what a busy one without a cache stays under.
fn default_resources() -> Value {
    json!({ "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "256Mi" } })
}

fn resources(field: &Field<'_>) -> Value {
    let amounts = |field: Field<'_>| -> Map<String, Value> {
        let amount = |(name, field): (&str, Field<'_>)| Some((name.to_owned(), quantity(&field)?));
        field.entries().into_iter().filter_map(amount).collect()
    };
    let read = field.object(|object| {
        let requests = object.optional("requests").map(amounts).unwrap_or_default();
        let limits = object.optional("limits").map(amounts).unwrap_or_default();
        json!({ "requests": requests, "limits": limits })
    });
    read.unwrap_or_default()
}

fn quantity(field: &Field<'_>) -> Option<Value> {
    let text = match field.value() {
        Value::Number(number) => number.to_string(),
        _ => field.text()?.to_owned(),
    };
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.strip_suffix(suffix).unwrap_or_default();
    let known = ["", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"];
    if number.parse::<f64>().is_ok() && known.contains(&suffix) {
        return Some(text.into());
    }
    field.fault(format!("must be a quantity like 100m or 64Mi, but is {text:?}"));
    None
}

fn node_selector(field: &Field<'_>) -> Map<String, Value> {
    let pair = |(key, field): (&str, Field<'_>)| Some((key.to_owned(), field.any_text()?.into()));
    field.entries().into_iter().filter_map(pair).collect()
}

fn toleration(field: &Field<'_>) -> Option<Value> {
    field.object(|object| {
        let mut toleration = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                toleration.insert(key.to_owned(), value);
            }
        };
        put("key", object.optional("key").and_then(|field| Some(field.text()?.into())));
        put(
            "operator",
            object
                .optional("operator")
                .and_then(|field| field.one_of(&[("Exists", "Exists"), ("Equal", "Equal")]))
                .map(Value::from),
        );
        put("value", object.optional("value").and_then(|field| Some(field.any_text()?.into())));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map(|effect| (effect, effect));
        put("effect", object.optional("effect").and_then(|field| field.one_of(&effects)).map(Value::from));
        put(
            "tolerationSeconds",
            object
                .optional("tolerationSeconds")
                .and_then(|field| field.integer(0..=31_536_000))
                .map(Value::from),
        );
        Value::Object(toleration)
    })
}

fn default_squid() -> Squid {
    Squid {
        allowed_clients: PRIVATE_NETWORKS.iter().filter_map(|text| Network::parse(text).ok()).collect(),
        connect_ports: vec![443],
        access_log: AccessLog::None,
        shutdown_seconds: 3,
        binary: "/usr/sbin/squid".to_owned(),
        template: None,
    }
}

fn squid(object: &mut Object<'_>) -> Squid {
    let default = default_squid();
    let everyone = object.optional("allowEveryone").and_then(|field| field.boolean()).unwrap_or(false);
    let clients = object.optional("allowedClients");
    let allowed_clients = match &clients {
        None => default.allowed_clients,
        Some(field) => field.list().iter().filter_map(|field| network(field, everyone)).collect(),
    };
    let ports = object.optional("connectPorts");
    let connect_ports = ports.as_ref().map_or(default.connect_ports, |field| {
        let port = |field: &Field<'_>| field.integer(1..=65_535).and_then(|port| u16::try_from(port).ok());
        field.list().iter().filter_map(port).collect()
    });
    let log = object.optional("accessLog");
    let access_log = log
        .as_ref()
        .and_then(|field| field.one_of(&[("none", AccessLog::None), ("stdout", AccessLog::Stdout)]))
        .unwrap_or(default.access_log);
    let shutdown_seconds = object
        .optional("shutdownSeconds")
        .and_then(|field| field.integer(1..=600))
        .and_then(|seconds| u32::try_from(seconds).ok())
        .unwrap_or(default.shutdown_seconds);
    let binary = object.optional("binary").and_then(|field| binary(&field)).unwrap_or(default.binary);
    let template = object.optional("template").and_then(|field| template(&field));
    if let Some(template) = &template {
        let says_clients = template.contains(CLIENTS);
        for (field, idle) in [(&clients, !says_clients), (&ports, true), (&log, true)] {
            if let Some(field) = field.as_ref().filter(|_| idle) {
                field.fault("has no effect on a template: write it there, or leave it out");
            }
        }
    }
    Squid { allowed_clients, connect_ports, access_log, shutdown_seconds, binary, template }
}

fn network(field: &Field<'_>, everyone: bool) -> Option<Network> {
    let network = Network::parse(field.text()?).map_err(|fault| field.fault(fault)).ok()?;
    if network.is_everyone() && !everyone {
        field.fault(format!(
            "{network} is everyone; name the networks of your clients, \
             or set squid.allowEveryone: true if an open proxy is meant"
        ));
        return None;
    }
    Some(network)
}

fn binary(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    if !text.starts_with('/') {
        field.fault(format!("must be an absolute path in the image, but is {text:?}"));
        return None;
    }
    Some(text.to_owned())
}

fn template(field: &Field<'_>) -> Option<String> {
    let text = field.text()?;
    let fault = match text.len() {
        0..=LONGEST_TEMPLATE => template_fault(text),
        more => Some(format!("has {more} bytes, and {LONGEST_TEMPLATE} is the most")),
    };
    match fault {
        Some(fault) => {
            field.fault(fault);
            None
        }
        None => Some(text.to_owned()),
    }
}

fn list<T>(root: &mut Object<'_>, key: &'static str, read: impl Fn(&Field<'_>) -> Option<T>) -> Vec<T> {
    root.optional(key).map(|field| field.list().iter().filter_map(read).collect()).unwrap_or_default()
}

fn names(root: &mut Object<'_>, key: &'static str, read: fn(&Field<'_>) -> Option<String>) -> Vec<String> {
    list(root, key, read)
}

/// What a namespace is called.
fn label(field: &Field<'_>) -> Option<String> {
    named(field, 63, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'), "a-z, 0-9 and -")
}

/// What most other objects are called.
fn subdomain(field: &Field<'_>) -> Option<String> {
    named(field, 253, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'), "a-z, 0-9, - and .")
}

fn named(field: &Field<'_>, longest: usize, legal: fn(u8) -> bool, letters: &str) -> Option<String> {
    let text = field.text()?;
    let inside = text.len() <= longest && text.bytes().all(legal);
    if inside && !text.starts_with(['-', '.']) && !text.ends_with(['-', '.']) {
        return Some(text.to_owned());
    }
    field.fault(format!(
        "must be at most {longest} characters of {letters}, a letter or digit first and last, but is {text:?}"
    ));
    None
}
