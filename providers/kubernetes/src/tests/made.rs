//! What an instance is made of.

use provider_sdk::{Created, Provider};
use serde_json::{Value, json};

use super::{NAME, Proxy, UID, fake::Fake};

/// The Pod and the configuration that a config makes.
fn made(config: &Value, change: impl Fn(&mut Proxy<'_>)) -> (Value, String) {
    let fake = Fake::default();
    let mut proxy = Proxy::new(&fake);
    for (key, value) in config.as_object().unwrap() {
        proxy.config[key] = value.clone();
    }
    change(&mut proxy);
    proxy.begin();
    let find = |plural| {
        let name = fake.names().into_iter().find(|name| name.starts_with(plural)).unwrap();
        let parts: Vec<&str> = name.split('/').collect();
        fake.object(plural, parts[1], parts[2]).unwrap()
    };
    let map = find("configmaps");
    (find("pods"), map["data"]["squid.conf"].as_str().unwrap().to_owned())
}

#[test]
fn the_pod_keeps_the_restricted_pod_security_level() {
    let (pod, _) = made(&json!({}), |_| {});
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    assert_eq!(
        spec["securityContext"],
        json!({ "runAsNonRoot": true, "runAsUser": 13, "runAsGroup": 13, "seccompProfile": { "type": "RuntimeDefault" } })
    );
    assert_eq!(
        container["securityContext"],
        json!({ "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] } })
    );
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["enableServiceLinks"], false);
}

#[test]
fn the_mark_is_in_the_call_that_makes_each_object() {
    let (pod, _) = made(&json!({}), |_| {});
    let labels = &pod["metadata"]["labels"];
    for (key, value) in [
        ("managed", "true"),
        ("installation", "abc123"),
        ("uid", UID),
        ("incarnation", "1"),
        ("namespace", "team-a"),
        ("proxy", "web"),
    ] {
        assert_eq!(labels[format!("egressproxies.dev/{key}")], value);
    }
}

#[test]
fn a_proxy_owns_its_objects_in_its_own_cluster_and_namespace_alone() {
    let (pod, _) = made(&json!({}), |_| {});
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([{ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy", "name": "web", "uid": UID,
                 "controller": true, "blockOwnerDeletion": false }])
    );
    let (pod, _) = made(&json!({}), |proxy| proxy.fake.elsewhere.set(true));
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
    let (pod, _) = made(&json!({ "namespace": "egress" }), |_| {});
    assert_eq!(pod["metadata"]["namespace"], "egress");
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
}

#[test]
fn the_config_reaches_the_pod() {
    let (pod, _) = made(
        &json!({
            "image": "squid@sha256:1", "imagePullPolicy": "Never", "imagePullSecrets": ["pull"],
            "serviceAccountName": "proxy", "runAsUser": 100, "runAsGroup": 101,
            "resources": { "requests": { "cpu": 1, "memory": "64Mi" }, "limits": { "memory": "128Mi" } },
            "nodeSelector": { "pool": "egress" },
            "tolerations": [{ "key": "egress", "operator": "Exists", "effect": "NoSchedule" }],
            "squid": { "shutdownSeconds": 10, "binary": "/opt/squid" },
        }),
        |proxy| {
            proxy.spec.placement.zone = Some("zone-a".to_owned());
            proxy.spec.port = 8080;
        },
    );
    let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
    assert_eq!(container["image"], "squid@sha256:1");
    assert_eq!(container["imagePullPolicy"], "Never");
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "pull" }]));
    assert_eq!(spec["serviceAccountName"], "proxy");
    assert_eq!(spec["securityContext"]["runAsUser"], 100);
    assert_eq!(spec["securityContext"]["runAsGroup"], 101);
    assert_eq!(
        container["resources"],
        json!({ "requests": { "cpu": "1", "memory": "64Mi" }, "limits": { "memory": "128Mi" } })
    );
    assert_eq!(spec["nodeSelector"], json!({ "pool": "egress", "topology.kubernetes.io/zone": "zone-a" }));
    assert_eq!(
        spec["tolerations"],
        json!([{ "key": "egress", "operator": "Exists", "effect": "NoSchedule" }])
    );
    assert_eq!(
        container["command"],
        json!(["/opt/squid", "-N", "-d1", "-f", "/etc/egress-proxy/squid.conf"])
    );
    assert_eq!(container["ports"][0]["containerPort"], 8080);
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["tcpSocket"]["port"], 8080, "{probe}");
    }
    assert_eq!(spec["volumes"][0]["configMap"]["name"], NAME);
}

#[test]
fn a_stopped_squid_is_given_longer_than_it_gives_its_clients() {
    for seconds in [1, 3, 600] {
        let (pod, conf) = made(&json!({ "squid": { "shutdownSeconds": seconds } }), |_| {});
        assert!(conf.contains(&format!("shutdown_lifetime {seconds} seconds\n")), "{conf}");
        assert!(pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap() > seconds);
    }
}

#[test]
fn a_low_port_can_be_listened_at_without_capabilities() {
    let (pod, _) = made(&json!({}), |proxy| proxy.spec.port = 80);
    let sysctls = &pod["spec"]["securityContext"]["sysctls"];
    assert_eq!(*sysctls, json!([{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }]));
}

#[test]
fn squid_answers_private_networks_unless_told_otherwise_and_never_everyone() {
    let (_, conf) = made(&json!({}), |_| {});
    assert!(
        conf.contains("acl clients src 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7\n"),
        "{conf}"
    );
    let rules: Vec<&str> = conf.lines().filter(|line| line.starts_with("http_access")).collect();
    assert_eq!(
        rules,
        [
            "http_access deny manager",
            "http_access deny tunnel !tunnel_ports",
            "http_access deny !tunnel !web_ports",
            "http_access deny inside",
            "http_access allow clients",
            "http_access deny all",
        ]
    );
    assert!(conf.contains("acl tunnel_ports port 443\n"), "{conf}");
    assert!(conf.contains("http_port 3128\n") && conf.contains("access_log none\n"), "{conf}");
}

#[test]
fn an_empty_list_of_clients_or_ports_allows_nobody_and_nothing() {
    let (_, conf) = made(&json!({ "squid": { "allowedClients": [], "connectPorts": [] } }), |_| {});
    assert!(!conf.contains("allow clients") && !conf.contains("acl clients"), "{conf}");
    assert!(conf.contains("http_access deny tunnel\n") && conf.contains("http_access deny all\n"), "{conf}");
}

#[test]
fn clients_ports_and_log_are_the_entrys_to_say() {
    let (_, conf) = made(
        &json!({ "squid": { "allowedClients": ["192.0.2.0/24", "2001:db8::1"], "connectPorts": [443, 8443], "accessLog": "stdout" } }),
        |_| {},
    );
    assert!(conf.contains("acl clients src 192.0.2.0/24 2001:db8::1/128\n"), "{conf}");
    assert!(conf.contains("acl tunnel_ports port 443 8443\n"), "{conf}");
    assert!(conf.contains("access_log stdio:/dev/stdout logformat=squid asked\n"), "{conf}");
}

#[test]
fn a_template_of_the_entry_is_used_whole() {
    let template = "http_port {{port}}\nacl c src {{allowedClients}}\nhttp_access allow c\n";
    let (_, conf) = made(
        &json!({ "squid": { "template": template, "allowedClients": ["10.0.0.0/8", "fd00::/8"] } }),
        |proxy| proxy.spec.port = 8080,
    );
    assert_eq!(conf, "http_port 8080\nacl c src 10.0.0.0/8 fd00::/8\nhttp_access allow c\n");
}

#[test]
fn two_proxies_of_one_name_in_two_namespaces_dont_meet() {
    let fake = Fake::default();
    let mut one = Proxy::new(&fake);
    let mut two = Proxy::new(&fake);
    // The host derives the names from the UIDs, so one namespace for all would do as well.
    two.target.namespace = "team-b".to_owned();
    two.target.uid = "another".to_owned();
    two.target.name = "proxy-web-abc123-zzzz2345".to_owned();
    one.create().unwrap();
    two.create().unwrap();
    assert_eq!(fake.names().len(), 4);
    one.delete().unwrap();
    assert!(matches!(two.create_step().unwrap(), Created::Done(_)));
    assert!(two.provider().get(&two.target).is_ok());
}
