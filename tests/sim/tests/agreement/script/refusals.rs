//! Rights, quotas, Pod Security, namespaces that end.

use serde_json::{Value, json};

use super::{is_gone, is_there, map, pod};
use crate::step::{Call, List, Step, apply, create, delete, get, json_patch, list, merge};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub fn steps() -> Vec<Step> {
    let mut steps = rights();
    steps.extend(quotas());
    steps.extend(security());
    steps.extend(ending());
    steps
}

fn rights() -> Vec<Step> {
    let rules = json!([
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"], "resourceNames": ["c"] },
        { "apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"] },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["patch"] },
    ]);
    let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "poor" });
    let subjects = json!([{ "kind": "ServiceAccount", "name": "poor", "namespace": "$ns" }]);
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "new" } });
    let allowed = |name, verb, plural| Step::new(name, plural, Call::Allowed(verb)).poor();
    vec![
        create("a ServiceAccount", "serviceaccounts", json!({ "metadata": { "name": "poor" } })),
        get("nothing is allowed at first", "pods", "x").poor(),
        create("a Role", "roles", json!({ "metadata": { "name": "poor" }, "rules": rules })).of(RBAC),
        create("a RoleBinding", "rolebindings", json!({ "metadata": { "name": "poor" }, "roleRef": reference, "subjects": subjects })).of(RBAC),
        merge("a bad label of a Role", "roles", "poor", json!({ "metadata": { "labels": { "x": "not ok!" } } })).of(RBAC),
        create("a RoleBinding to nothing", "rolebindings", json!({ "metadata": { "name": "bad" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "" } })).of(RBAC),
        merge("a RoleBinding to another Role", "rolebindings", "poor", json!({ "roleRef": { "name": "other" } })).of(RBAC),
        get("allowed: get", "pods", "x").poor().until(is_gone),
        list("not allowed: list", "pods", List::default()).poor(),
        list("not allowed: list everywhere", "pods", List::default()).poor().within(""),
        delete("not allowed: delete", "pods", "x").poor(),
        get("allowed: by name", "configmaps", "c").poor(),
        get("not allowed: another name", "configmaps", "d").poor(),
        merge("not allowed: patch", "pods", "x", json!({})).poor(),
        get("not allowed: another namespace", "pods", "x").poor().within("$ns-none"),
        get("not allowed: at the cluster's scope", "nodes", "x").poor().within(""),
        get("not allowed: the namespace itself", "namespaces", "$ns").poor().within(""),
        get("allowed: another group", "deployments", "x").of("apps/v1").poor(),
        create("allowed, but refused", "pods", json!({ "metadata": { "name": "x" }, "spec": {} })).poor(),
        create("not allowed, and bad besides", "secrets", json!({ "metadata": { "name": "BAD" } })).poor(),
        get("not allowed: a subresource", "pods/status", "x").poor(),
        get("not allowed: what nobody serves", "things", "x").poor(),
        get("not allowed: a group that nobody serves", "things", "x").of("egress.invalid/v1").poor(),
        create("not allowed: a namespace that is not there", "pods", pod("x", json!({}))).poor().within("$ns-none"),
        apply("an apply that may change, but not make", "secrets", "new", secret).poor(),
        apply("an apply that may change", "configmaps", "c", json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "poor": "1" } })).poor(),
        allowed("asked: create Pods", "create", "pods"),
        allowed("asked: list Pods", "list", "pods"),
        allowed("asked: get ConfigMaps, of which one is allowed", "get", "configmaps"),
        allowed("asked: create Pods everywhere", "create", "pods").within(""),
        allowed("asked: what nobody serves", "delete", "things"),
        allowed("asked: what nobody serves, in an allowed group", "delete", "things").of("apps/v1"),
        Step::new("asked by an administrator", "things", Call::Allowed("delete")),
        Step::new("about who may little", "version", Call::About).poor(),
    ]
}

fn quotas() -> Vec<Step> {
    let sized = |name: &str, requests: Value, limits: Value| {
        let resources = json!({ "requests": requests, "limits": limits });
        pod(name, json!({ "containers": [{ "name": "main", "image": "squid:6", "resources": resources }] }))
    };
    let within = |step: Step| step.within("$ns-q");
    let counted = |answer: &Value| answer["status"]["used"].is_object();
    vec![
        create("a namespace with a quota", "namespaces", json!({ "metadata": { "name": "$ns-q" } }))
            .within(""),
        within(get("its ServiceAccount", "serviceaccounts", "default").until(is_there)),
        within(get("its certificate", "configmaps", "kube-root-ca.crt").until(is_there)),
        within(create(
            "a quota",
            "resourcequotas",
            json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "1", "count/configmaps": "3" } } }),
        )),
        within(create(
            "a quota of unknown things",
            "resourcequotas",
            json!({ "metadata": { "name": "bad" }, "spec": { "hard": { "foo": "1" } } }),
        )),
        within(create(
            "a quota that is no quantity",
            "resourcequotas",
            json!({ "metadata": { "name": "bad" }, "spec": { "hard": { "pods": "x" } } }),
        )),
        within(get("the quota is counted", "resourcequotas", "q").until(counted)),
        within(create("the first Pod", "pods", pod("a", json!({})))),
        within(get("the quota is used up", "resourcequotas", "q")),
        within(create("the second Pod", "pods", pod("b", json!({})))),
        within(create("the first Pod again, with the quota full", "pods", pod("a", json!({})))),
        within(create("a bad Pod, with the quota full", "pods", pod("B_", json!({})))),
        within(create("a ConfigMap within the quota", "configmaps", map("a", json!({})))),
        within(create("another ConfigMap within the quota", "configmaps", map("b", json!({})))),
        within(create("a ConfigMap beyond the quota", "configmaps", map("c", json!({})))),
        within(apply(
            "an apply beyond the quota",
            "configmaps",
            "c",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } }),
        )),
        within(delete("the first Pod goes", "pods", "a")),
        within(
            get("the quota is free again", "resourcequotas", "q")
                .until(|answer| answer["status"]["used"]["pods"] == "0"),
        ),
        within(merge(
            "a quota of processors",
            "resourcequotas",
            "q",
            json!({ "spec": { "hard": { "pods": "9", "requests.cpu": "1", "limits.memory": "1Gi" } } }),
        )),
        within(
            get("processors are counted", "resourcequotas", "q")
                .until(|answer| answer["status"]["used"]["requests.cpu"].is_string()),
        ),
        within(create("a Pod that asks for nothing", "pods", pod("c", json!({})))),
        within(create(
            "a Pod that asks for too much",
            "pods",
            sized("c", json!({ "cpu": "2", "memory": "1Gi" }), json!({ "memory": "2Gi" })),
        )),
        within(create(
            "a Pod that asks for half",
            "pods",
            sized("c", json!({ "cpu": "500m" }), json!({ "memory": "0.5Gi" })),
        )),
        within(get("half is used", "resourcequotas", "q")),
        within(create(
            "a Pod that asks for more than is left",
            "pods",
            sized("d", json!({ "cpu": "0.6" }), json!({ "memory": "1Mi" })),
        )),
        within(delete("the quota goes", "resourcequotas", "q")),
        delete("the namespace with a quota goes", "namespaces", "$ns-q").within(""),
    ]
}

fn security() -> Vec<Step> {
    let label = |level: &str| json!({ "pod-security.kubernetes.io/enforce": level });
    let safe = json!({
        "name": "main", "image": "squid:6",
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "runAsNonRoot": true,
                             "seccompProfile": { "type": "RuntimeDefault" } },
    });
    let bold = json!({
        "name": "main", "image": "squid:6", "ports": [{ "containerPort": 80, "hostPort": 80 }],
        "securityContext": { "privileged": true, "capabilities": { "add": ["NET_ADMIN"] }, "seccompProfile": { "type": "Unconfined" } },
    });
    let bad = json!({ "containers": [
        { "name": "a", "image": "i", "securityContext": { "runAsNonRoot": false, "seccompProfile": { "type": "Unconfined" } } },
        { "name": "b", "image": "i" },
    ] });
    let mut by_pod = bad.clone();
    by_pod["securityContext"] =
        json!({ "runAsNonRoot": false, "runAsUser": 0, "seccompProfile": { "type": "Unconfined" } });
    let within = |step: Step| step.within("$ns-p");
    let open = json!({ "hostNetwork": true, "hostPID": true, "volumes": [{ "name": "h", "hostPath": { "path": "/" } }], "containers": [bold] });
    let mut two = open.clone();
    two["containers"] = json!([{ "name": "a", "image": "i" }, { "name": "b", "image": "i", "securityContext": { "runAsUser": 0 } }]);
    two["securityContext"] = json!({ "sysctls": [{ "name": "kernel.shm_rmid_forced", "value": "1" }] });
    vec![
        create(
            "a restricted namespace",
            "namespaces",
            json!({ "metadata": { "name": "$ns-p", "labels": label("restricted") } }),
        )
        .within(""),
        within(
            get("a ServiceAccount of the restricted namespace", "serviceaccounts", "default").until(is_there),
        ),
        within(create("an ordinary Pod where only safe ones may be", "pods", pod("a", json!({})))),
        within(create("a safe Pod", "pods", pod("a", json!({ "containers": [safe] })))),
        within(create("a bold Pod where only safe ones may be", "pods", pod("b", open.clone()))),
        within(create("two containers where only safe ones may be", "pods", pod("b", two))),
        within(create("what is set badly where only safe ones may be", "pods", pod("b", bad.clone()))),
        within(create("what is set badly by the Pod where only safe ones may be", "pods", pod("b", by_pod))),
        within(create("a bad Pod where only safe ones may be", "pods", pod("B_", json!({})))),
        merge(
            "a baseline namespace",
            "namespaces",
            "$ns-p",
            json!({ "metadata": { "labels": label("baseline") } }),
        )
        .within(""),
        within(
            create("an ordinary Pod where bold ones may not be", "pods", pod("c", json!({})))
                .until(|answer| answer["metadata"].is_object() || answer["code"] == 409),
        ),
        within(create("a bold Pod where bold ones may not be", "pods", pod("b", open))),
        merge(
            "a bad label of a namespace",
            "namespaces",
            "$ns-p",
            json!({ "metadata": { "labels": { "x": "not ok!" } } }),
        )
        .within(""),
        merge(
            "a namespace of no known level",
            "namespaces",
            "$ns-p",
            json!({ "metadata": { "labels": label("bogus") } }),
        )
        .within(""),
        delete("the baseline namespace goes", "namespaces", "$ns-p").within(""),
    ]
}

fn ending() -> Vec<Step> {
    let mut held = map("held", json!({}));
    held["metadata"]["finalizers"] = json!(["a.b/c"]);
    let within = |step: Step| step.within("$ns-e");
    vec![
        create("a namespace that is to end", "namespaces", json!({ "metadata": { "name": "$ns-e" } }))
            .within(""),
        within(get("a certificate in it", "configmaps", "kube-root-ca.crt").until(is_there)),
        within(get("a ServiceAccount in it", "serviceaccounts", "default").until(is_there)),
        within(create("something that is held in it", "configmaps", held)),
        within(create("something that is free in it", "configmaps", map("free", json!({})))),
        delete("the namespace begins to end", "namespaces", "$ns-e").within(""),
        delete("it is told again", "namespaces", "$ns-e").within(""),
        within(create("too late", "configmaps", map("late", json!({})))),
        within(create("too late for a bad name", "configmaps", map("LATE_", json!({})))),
        within(create("too late for a Pod", "pods", json!({ "metadata": { "name": "late" }, "spec": {} }))),
        within(apply(
            "too late to be applied",
            "configmaps",
            "late",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "late" } }),
        )),
        within(merge("a change is not too late", "configmaps", "held", json!({ "data": { "a": "b" } }))),
        within(get("what was free is gone", "configmaps", "free").until(is_gone)),
        within(
            get("what is held is being deleted", "configmaps", "held")
                .until(|answer| !answer["metadata"]["deletionTimestamp"].is_null()),
        ),
        get("the namespace says what it waits for", "namespaces", "$ns-e")
            .within("")
            .until(|answer| answer["status"]["conditions"][3]["status"] == "True"),
        within(json_patch(
            "the last that was held goes",
            "configmaps",
            "held",
            json!([{ "op": "remove", "path": "/metadata/finalizers" }]),
        )),
        get("the namespace has ended", "namespaces", "$ns-e").within("").until(is_gone),
    ]
}
