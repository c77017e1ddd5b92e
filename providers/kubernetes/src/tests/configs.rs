//! The config: what is taken, and every fault with its path.

use std::collections::BTreeSet;

use provider_sdk::{Imports, Provider};
use serde_json::{Value, json};

use super::config;
use crate::KubernetesProvider;

fn configure(config: &Value) -> Result<Vec<String>, Vec<String>> {
    KubernetesProvider::<Imports>::configure(config)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn schema() -> Value {
    serde_json::from_str(KubernetesProvider::<Imports>::describe().config_schema).unwrap()
}

#[test]
fn the_cluster_is_the_place() {
    assert_eq!(configure(&config()), Ok(vec!["home".to_owned()]));
}

#[test]
fn an_empty_config_lacks_what_can_have_no_default() {
    let faults = configure(&json!({})).unwrap_err();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].starts_with("cluster: ") && faults[1].starts_with("image: "), "{faults:?}");
}

#[test]
fn every_fault_is_told_with_its_path() {
    let faults = configure(&json!({
        "cluster": 1,
        "image": "a b",
        "imagePullPolicy": "Sometimes",
        "imagePullSecrets": ["ok", "Not OK"],
        "namespace": "Upper",
        "serviceAccountName": "-x",
        "resources": { "requests": { "cpu": "lots" }, "limit": {} },
        "nodeSelector": { "a": 1 },
        "tolerations": [{ "key": "a", "operator": "Is", "effects": "x" }],
        "runAsUser": 0,
        "runAsGroup": "13",
        "squid": {
            "allowedClients": ["10.0.0.0/8", "10.1.2.3/8", "0.0.0.0/0", "::/0", 5],
            "connectPorts": [443, 0],
            "accessLog": "file",
            "shutdownSeconds": 601,
            "binary": "squid",
            "cache": true,
        },
        "images": "x",
    }))
    .unwrap_err();
    let paths: Vec<&str> = faults.iter().map(|fault| fault.split_once(": ").unwrap().0).collect();
    assert_eq!(
        paths,
        [
            "cluster",
            "namespace",
            "image",
            "imagePullPolicy",
            "imagePullSecrets[1]",
            "serviceAccountName",
            "resources.requests.cpu",
            "resources.limit",
            "nodeSelector.a",
            "tolerations[0].operator",
            "tolerations[0].effects",
            "runAsUser",
            "runAsGroup",
            "squid.allowedClients[1]",
            "squid.allowedClients[2]",
            "squid.allowedClients[3]",
            "squid.allowedClients[4]",
            "squid.connectPorts[1]",
            "squid.accessLog",
            "squid.shutdownSeconds",
            "squid.binary",
            "squid.cache",
            "images",
        ],
        "{faults:#?}"
    );
}

#[test]
fn everyone_is_let_in_only_where_that_is_spelled_out() {
    let with = |everyone: bool| {
        let mut config = config();
        config["squid"] = json!({ "allowedClients": ["0.0.0.0/0"], "allowEveryone": everyone });
        configure(&config)
    };
    assert!(with(true).is_ok());
    let faults = with(false).unwrap_err();
    assert!(faults[0].contains("allowEveryone"), "{faults:?}");
}

#[test]
fn namespaces_go_with_the_proxys_own_alone() {
    let with = |more: Value| {
        let mut config = config();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        configure(&config)
    };
    assert!(with(json!({ "namespace": "egress" })).is_ok());
    assert!(with(json!({ "namespace": "sameAsProxy", "namespaces": ["a"] })).is_ok());
    assert!(with(json!({ "namespaces": ["a", "b"] })).is_ok());
    assert!(with(json!({ "namespace": "egress", "namespaces": ["a"] })).is_err());
    assert!(with(json!({ "namespaces": [] })).is_err());
    let many: Vec<String> = (0..65).map(|number| format!("n{number}")).collect();
    assert!(with(json!({ "namespaces": many })).is_err());
}

#[test]
fn a_template_must_listen_where_the_proxy_says_and_has_no_idle_companions() {
    let with = |squid: Value| {
        let mut config = config();
        config["squid"] = squid;
        configure(&config)
    };
    assert!(with(json!({ "template": "http_port {{port}}" })).is_ok());
    for (squid, fault) in [
        (json!({ "template": "http_port 3128" }), "{{port}}"),
        (json!({ "template": "http_port {{port}} {{ports}}" }), "{{ports}}"),
        (json!({ "template": "http_port {{port}} {{" }), "without }}"),
        (json!({ "template": "http_port {{port}}", "allowedClients": ["10.0.0.0/8"] }), "no effect"),
        (json!({ "template": "http_port {{port}}", "connectPorts": [443] }), "no effect"),
        (json!({ "template": "http_port {{port}}", "accessLog": "none" }), "no effect"),
        (json!({ "template": format!("{{{{port}}}}{}", "x".repeat(256 * 1024)) }), "262144"),
    ] {
        let faults = with(squid).unwrap_err();
        assert!(faults.iter().any(|it| it.contains(fault)), "{fault}: {faults:?}");
    }
}

/// What a reader knows at a path is told by the fault of an unknown key there.
fn known(config: &Value) -> Vec<String> {
    let faults = configure(config).unwrap_err();
    let fault = faults.iter().find(|fault| fault.contains("known here")).unwrap().clone();
    let mut known: Vec<String> = fault.rsplit_once(": ").unwrap().1.split(", ").map(str::to_owned).collect();
    known.sort();
    known
}

#[test]
fn the_schema_describes_what_is_read() {
    let schema = schema();
    let described = |pointer: &str| {
        let properties = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
        let mut keys: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(known(&json!({ "?": 1 })), described("/properties"));
    assert_eq!(known(&json!({ "squid": { "?": 1 } })), described("/properties/squid/properties"));
    assert_eq!(known(&json!({ "resources": { "?": 1 } })), described("/properties/resources/properties"));
    assert_eq!(
        known(&json!({ "tolerations": [{ "?": 1 }] })),
        described("/properties/tolerations/items/properties")
    );
}

#[test]
fn the_defaults_in_the_schema_are_those_that_hold() {
    let schema = schema();
    let default = |pointer: &str| schema.pointer(&format!("{pointer}/default")).unwrap().clone();
    let mut spelled_out = config();
    for key in ["namespace", "resources", "runAsUser", "runAsGroup"] {
        spelled_out[key] = default(&format!("/properties/{key}"));
    }
    for key in ["allowedClients", "allowEveryone", "connectPorts", "accessLog", "shutdownSeconds", "binary"] {
        spelled_out["squid"][key] = default(&format!("/properties/squid/properties/{key}"));
    }
    let read = |config: &Value| crate::config::Config::read(config).unwrap();
    assert_eq!(read(&spelled_out), read(&config()));
}

#[test]
fn the_page_for_people_lists_every_key_and_no_other() {
    let page = include_str!("../../../../docs/providers/kubernetes.md");
    let section = page.split("\n## ").find(|section| section.starts_with("Config\n")).unwrap();
    let first_cells =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|cell| cell.0);
    let listed: BTreeSet<String> =
        first_cells.flat_map(|cell| cell.split("`, `")).map(str::to_owned).collect();
    let schema = schema();
    let keys = |pointer: &str| schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned();
    let squid = keys("/properties/squid/properties").map(|key| format!("squid.{key}"));
    let described: BTreeSet<String> = keys("/properties").filter(|key| key != "squid").chain(squid).collect();
    assert_eq!(listed, described);
}

#[test]
fn the_profile_has_a_value_for_every_axis() {
    let profile = serde_json::to_value(KubernetesProvider::<Imports>::describe().profile).unwrap();
    assert_eq!(
        profile,
        json!({
            "readiness": "immediate",
            "ip-source": "assigned-at-create",
            "gc-mark": "native-labels",
            "created-at": "backend-timestamp",
            "quota": "detected",
            "not-found": "status-404",
            "primary-key": "name-is-key",
            "provisioning-state": "native",
            "secondary-resources": "explicit",
            "backend-test": "cluster-e2e",
        })
    );
}
