//! The Eviction API: a delete that a disruption budget can refuse.

use egress_runtime::capability::DeleteOptions;
use serde_json::{Value, json};

use super::{
    json::{at, fields, list, put, text},
    requests::Subject,
    state::State,
    status::{Answer, not_found, status},
    store::Key,
    time::stamp,
};

impl State {
    /// `subject` is the Pod's subresource.
    pub(super) fn evict_by_api(&mut self, subject: &Subject, name: &str, body: &Value) -> Answer<Value> {
        let key = Key { name: name.to_owned(), ..subject.key.clone() };
        let pod = self.store.get(&key).cloned().ok_or_else(|| not_found(&subject.kind, name))?;
        let wanted = |field: &str| {
            let wanted = text(body, &["deleteOptions", "preconditions", field]);
            (!wanted.is_empty()).then(|| wanted.to_owned())
        };
        let options = DeleteOptions {
            uid: wanted("uid"),
            resource_version: wanted("resourceVersion"),
            grace_seconds: at(body, &["deleteOptions", "gracePeriodSeconds"])
                .and_then(Value::as_u64)
                .and_then(|seconds| u32::try_from(seconds).ok()),
        };
        let subject = Subject { subresource: String::new(), key: key.clone(), ..subject.clone() };
        super::requests::check_preconditions(&subject.kind, &pod, &options)?;
        if let Some((budget, needs, has)) = self.budget(&pod) {
            let message =
                format!("The disruption budget {budget} needs {needs} healthy pods and has {has} currently");
            return Err(status(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                json!({ "causes": [{ "reason": "DisruptionBudget", "message": message }] }),
            ));
        }
        let mut marked = Value::clone(&pod);
        let mut conditions = list(&marked, &["status", "conditions"]).to_vec();
        conditions.push(json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": stamp(self.now_ms), "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }));
        put(&mut marked, &["status", "conditions"], conditions);
        self.write(&key, marked);
        self.delete(&subject, &DeleteOptions { uid: None, resource_version: None, ..options })?;
        Ok(json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 }))
    }

    /// The budget that an eviction of this Pod would break, with how many it needs and has. Only whole numbers
    /// count, no percentages.
    fn budget(&self, pod: &Value) -> Option<(String, u64, u64)> {
        let namespace = text(pod, &["metadata", "namespace"]);
        let selects = |budget: &Value, pod: &Value| {
            let labels = at(pod, &["metadata", "labels"]);
            fields(budget, &["spec", "selector", "matchLabels"]).is_some_and(|selector| {
                selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
            })
        };
        let healthy = |pod: &Value| {
            list(pod, &["status", "conditions"]).iter().any(|condition| {
                text(condition, &["type"]) == "Ready" && text(condition, &["status"]) == "True"
            })
        };
        if matches!(text(pod, &["status", "phase"]), "Pending" | "Succeeded" | "Failed") {
            return None;
        }
        self.store.of("poddisruptionbudgets.policy", namespace).find_map(|(key, budget)| {
            if !selects(budget, pod) {
                return None;
            }
            let all: Vec<_> =
                self.store.of("pods", namespace).filter(|(_, other)| selects(budget, other)).collect();
            let has = all.iter().filter(|(_, pod)| healthy(pod)).count() as u64;
            let needs = match at(budget, &["spec", "minAvailable"]).and_then(Value::as_u64) {
                Some(least) => least,
                None => {
                    let most = at(budget, &["spec", "maxUnavailable"]).and_then(Value::as_u64)?;
                    (all.len() as u64).saturating_sub(most)
                }
            };
            (healthy(pod) && has <= needs).then(|| (key.name.clone(), needs, has))
        })
    }
}
