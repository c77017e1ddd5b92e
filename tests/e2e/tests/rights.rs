//! The rights in deploy/ are enough, and none of them is too much: a whole life is lived with them and no more, over a way
//! that writes down what is asked, and whatever no request needed is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use k8s_openapi::api::{
    core::v1::{ConfigMap, ResourceQuota, Secret},
    rbac::v1::PolicyRule,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{
    Asked, Lab, Recorder, Site, Wanted, another_build, eventually, kubernetes_provider, role_rules,
};

/// Group, resource with its subresource, verb.
type Right = (String, String, String);

/// What no request needs, and why it is lent nevertheless.
const LENT_ALL_THE_SAME: [(&str, &str, &str); 1] = [
    // Asked for by the admission plugin OwnerReferencesPermissionEnforcement alone, which the lab's API server runs without.
    ("egressproxies.dev", "proxies/finalizers", "update"),
];

fn of_rules(rules: &[PolicyRule]) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                rights.extend(rule.verbs.iter().map(|verb| (group.clone(), resource.clone(), verb.clone())));
            }
        }
    }
    rights
}

/// What a request needs, as the API server reads it, and in which namespace.
fn of_request(asked: &Asked) -> Option<(Option<String>, Right)> {
    let mut parts = asked.path.trim_matches('/').split('/');
    let group = match parts.next()? {
        "api" => String::new(),
        "apis" => parts.next()?.to_owned(),
        _ => return None,
    };
    parts.next()?;
    let mut rest: Vec<&str> = parts.collect();
    let mut namespace = None;
    if rest.first() == Some(&"namespaces") && rest.len() > 2 {
        namespace = Some(rest[1].to_owned());
        rest.drain(..2);
    }
    let (resource, name, sub) = (*rest.first()?, rest.get(1), rest.get(2));
    let resource = sub.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
    let watches = asked.query.contains("watch=true") || asked.query.contains("watch=1");
    let verb = match (asked.method.as_str(), name) {
        ("GET", _) if watches => "watch",
        ("GET", None) => "list",
        ("GET", Some(_)) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", None) => "deletecollection",
        ("DELETE", Some(_)) => "delete",
        _ => return None,
    };
    Some((namespace, (group, resource, verb.to_owned())))
}

/// The same, and what goes with it: an apply of what was not there has made it.
fn needed(asked: &Asked) -> Vec<(Option<String>, Right)> {
    let Some((namespace, right)) = of_request(asked) else { return Vec::new() };
    let made = (right.2 == "patch" && asked.status == 201).then(|| {
        let (group, resource, _) = right.clone();
        (namespace.clone(), (group, resource, "create".to_owned()))
    });
    [(namespace, right)].into_iter().chain(made).collect()
}

/// Each role and what it is lent for: in the whole cluster, at home, or in a team's namespace.
fn lent() -> BTreeMap<&'static str, BTreeSet<Right>> {
    BTreeMap::from([
        ("ClusterRole egress-operator", of_rules(&role_rules("ClusterRole", "egress-operator"))),
        ("Role egress-operator", of_rules(&role_rules("Role", "egress-operator"))),
        ("ClusterRole egress-instances", of_rules(&role_rules("ClusterRole", "egress-instances"))),
        ("ClusterRole egress-user-data", of_rules(&role_rules("ClusterRole", "egress-user-data"))),
    ])
}

/// One life after the other, until everything that the operator does was done once.
async fn live(site: &Site, asked: &Arc<Mutex<Vec<Asked>>>) {
    let kubeconfig = site.operator_kubeconfig().await;
    let way = Recorder::asking(&site.lab, "rights", &kubeconfig, asked).await;
    site.put_module(&kubernetes_provider()).await;
    let mut entry = site.kubernetes_entry();
    entry["collect"] = json!({ "intervalSeconds": 2, "graceSeconds": 1 });
    site.put_entry(&entry).await;
    let mut epo = site.start_as(&site.system.name, &way.kubeconfig, &[]);
    epo.ready().await;
    site.active(&kubernetes_provider()).await;

    // A Proxy comes, is changed, its provider is swapped, and it is looked at by both.
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    let port = json!({ "spec": { "port": 3129 } });
    site.proxies(0).patch("web", &PatchParams::default(), &Patch::Merge(port)).await.unwrap();
    let second = another_build(&kubernetes_provider(), "second");
    site.put_module(&second).await;
    site.active(&second).await;
    site.ready(0, "web").await;

    // User-data is read where it stands, though this provider takes none.
    for (name, kind) in [("of-secret", "secretRef"), ("of-config-map", "configMapRef")] {
        let data = json!({ "metadata": { "name": name }, "stringData": { "user-data": "#cloud-config\n" } });
        if kind == "secretRef" {
            site.lab.apply::<Secret>(&site.teams[0].api(), data).await;
        } else {
            let data = json!({ "metadata": { "name": name }, "data": { "user-data": "#cloud-config\n" } });
            site.lab.apply::<ConfigMap>(&site.teams[0].api(), data).await;
        }
        let cloud_init = Some(json!({ kind: { "name": name, "key": "user-data" } }));
        site.create(0, name, Wanted { cloud_init, ..Wanted::default() }).await;
        failed(site, name, "unsupported").await;
        site.delete(0, name).await;
    }

    // One whose ConfigMap is made and whose Pod is not, and whose config changes meanwhile.
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } } });
    site.lab.apply::<ResourceQuota>(&site.teams[1].api(), quota).await;
    site.create(1, "late", Wanted::default()).await;
    failed(site, "late", "quota").await;
    let before = active(site, None).await;
    entry["config"]["squid"]["accessLog"] = json!("stdout");
    site.put_entry(&entry).await;
    active(site, Some(&before)).await;
    let quotas: Api<ResourceQuota> = site.teams[1].api();
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    let retry = json!({ "metadata": { "annotations": { "egressproxies.dev/retry": "now" } } });
    site.proxies(1).patch("late", &PatchParams::default(), &Patch::Merge(retry)).await.unwrap();
    site.ready(1, "late").await;

    // More revisions than are kept, and one refusal told twice.
    for seconds in 2..=13 {
        let before = active(site, None).await;
        entry["config"]["squid"]["shutdownSeconds"] = json!(seconds);
        site.put_entry(&entry).await;
        active(site, Some(&before)).await;
    }
    for _ in 0..2 {
        let mut broken = entry.clone();
        broken["config"]["image"] = json!("a b");
        site.put_entry(&broken).await;
        site.health(&site.entry, "it is refused", |status| status.refusal.clone()).await;
        site.put_entry(&entry).await;
        site.health(&site.entry, "it is not refused", |status| status.refusal.is_none().then_some(())).await;
    }

    // A rollback is a hold, and it ends when the source offers something new.
    let hold = site
        .health(&site.entry, "an earlier revision is kept", |status| {
            Some(
                json!({ "revision": status.history.first()?.revision, "insteadOf": status.offered.clone()? }),
            )
        })
        .await;
    let healths: Api<egress_operator::api::ProviderHealth> = Api::all(site.lab.client.clone());
    let patch = Patch::Merge(json!({ "spec": { "hold": hold } }));
    healths.patch(&site.entry, &PatchParams::default(), &patch).await.unwrap();
    site.health(&site.entry, "the hold holds", |status| {
        (status.active.as_ref()?.revision == hold["revision"].as_str()?).then_some(())
    })
    .await;
    entry["config"]["squid"]["shutdownSeconds"] = json!(1);
    site.put_entry(&entry).await;
    eventually("the hold is over", async || {
        let health = healths.get(&site.entry).await.map_err(|e| e.to_string())?;
        health.spec.hold.map_or(Ok(()), |hold| Err(format!("{hold:?}")))
    })
    .await;

    // Something of ours that no Proxy owns is collected.
    let name = site.proxies(1).get("late").await.unwrap().status.unwrap().instance.unwrap().name;
    let free = json!({ "metadata": { "finalizers": null } });
    site.proxies(1).delete("late", &DeleteParams::default()).await.unwrap();
    let _ = site.proxies(1).patch("late", &PatchParams::default(), &Patch::Merge(free)).await;
    eventually("what nobody owns is gone", async || {
        let there = site.objects().await;
        if there.iter().any(|object| object.ends_with(&name)) { Err(there) } else { Ok(()) }
    })
    .await;
    site.delete(0, "web").await;
    site.put_entries([]).await;
    eventually("the entry's health is gone", async || {
        let found = healths.get_opt(&site.entry).await.map_err(|e| e.to_string())?;
        found.map_or(Ok(()), |found| Err(format!("{:?}", found.status)))
    })
    .await;
    assert!(epo.terminate().await.success());
    // The second start reads what the first one minted.
    let mut epo = site.start_as(&site.system.name, &way.kubeconfig, &[]);
    epo.ready().await;
    assert!(epo.terminate().await.success());
}

async fn failed(site: &Site, name: &str, reason: &str) {
    let team = usize::from(name == "late");
    let proxies = site.proxies(team);
    eventually(&format!("{name} fails, {reason}"), async || {
        let status = proxies.get(name).await.map_err(|e| e.to_string())?.status.unwrap_or_default();
        let is = status.failure.as_ref().is_some_and(|failure| failure.reason == reason);
        if is { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
}

/// The revision that is active, once it is another than before.
async fn active(site: &Site, before: Option<&str>) -> String {
    site.health(&site.entry, "another revision is active", |status| {
        let active = status.active.as_ref()?.revision.clone();
        (Some(active.as_str()) != before && status.offered.as_ref() == Some(&active)).then_some(active)
    })
    .await
}

#[tokio::test]
async fn the_operator_lives_with_the_rights_of_deploy_and_needs_each_of_them() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "rights", 2).await;
    let asked = Arc::default();
    live(&site, &asked).await;

    let asked = asked.lock().unwrap().clone();
    let refused: BTreeSet<String> = asked
        .iter()
        .filter(|asked| asked.status == 403 && !asked.said.contains("exceeded quota"))
        .map(|asked| format!("{} {}: {}", asked.method, asked.path, asked.said))
        .collect();
    assert!(refused.is_empty(), "not enough: {refused:#?}");

    let mut used: BTreeMap<&str, BTreeSet<Right>> = BTreeMap::new();
    let done = asked.iter().filter(|asked| asked.status < 400 || asked.status == 409);
    for (namespace, right) in done.flat_map(needed) {
        let team = site.teams.iter().any(|team| Some(&team.name) == namespace.as_ref());
        let home = namespace.as_ref() == Some(&site.system.name);
        let is_user_data = |asked: &str| matches!(asked, "secrets" | "configmaps");
        used.entry("ClusterRole egress-operator").or_default().insert(right.clone());
        if home {
            used.entry("Role egress-operator").or_default().insert(right.clone());
        }
        if team {
            used.entry("ClusterRole egress-instances").or_default().insert(right.clone());
            if is_user_data(&right.1) {
                used.entry("ClusterRole egress-user-data").or_default().insert(right);
            }
        }
    }
    let mut superfluous = Vec::new();
    for (role, rights) in lent() {
        let used = used.get(role).cloned().unwrap_or_default();
        for (group, resource, verb) in rights {
            let known = LENT_ALL_THE_SAME.contains(&(group.as_str(), resource.as_str(), verb.as_str()));
            if !known && !used.contains(&(group.clone(), resource.clone(), verb.clone())) {
                superfluous.push(format!("{role}: {verb} {resource} of {group:?}"));
            }
        }
    }
    assert!(
        superfluous.is_empty(),
        "nobody asked for these: {superfluous:#?}; all that was asked: {used:#?}"
    );
}

#[test]
fn a_request_is_read_as_the_api_server_reads_it() {
    let read = |method: &str, path: &str, query: &str| {
        let asked =
            Asked { method: method.into(), path: path.into(), query: query.into(), ..Asked::default() };
        of_request(&asked).map(|(namespace, (group, resource, verb))| {
            format!("{} {group} {resource} {verb}", namespace.unwrap_or_default())
        })
    };
    for (method, path, query, wanted) in [
        ("GET", "/api/v1/namespaces/a/pods", "limit=5", "a  pods list"),
        ("GET", "/api/v1/namespaces/a/pods/b", "", "a  pods get"),
        ("GET", "/api/v1/namespaces/kube-system", "", "  namespaces get"),
        ("GET", "/apis/g/v1/proxies", "watch=true", " g proxies watch"),
        ("PATCH", "/apis/g/v1/namespaces/a/proxies/b/status", "", "a g proxies/status patch"),
        ("DELETE", "/apis/g/v1/namespaces/a/proxies", "", "a g proxies deletecollection"),
    ] {
        assert_eq!(read(method, path, query).as_deref(), Some(wanted), "{path}");
    }
    assert_eq!(read("GET", "/version", ""), None);
    let value: Value = json!(of_rules(&[PolicyRule {
        api_groups: Some(vec!["".into()]),
        resources: Some(vec!["pods".into()]),
        verbs: vec!["get".into(), "list".into()],
        ..PolicyRule::default()
    }]));
    assert_eq!(value, json!([["", "pods", "get"], ["", "pods", "list"]]));
}
