//! ResourceQuotas: what a namespace may hold, counted whenever something in it changes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    due::Due,
    json::{fields, list, put, text},
    kinds::Kind,
    quantity::Quantity,
    state::State,
    status::{Answer, status},
    store::Key,
};

type Amounts = BTreeMap<String, Quantity>;

/// How long the controller takes to see a change, and when it looks anyway.
const COUNT_MS: u64 = 100;
const RESYNC_MS: u64 = 300_000;

impl State {
    /// Takes up room for one more object, or refuses it. As at the API server, room stays taken up for a while
    /// where the object is not made after all.
    pub(super) fn charge_quota(&mut self, kind: &Kind, object: &Value) -> Answer<()> {
        let namespace = text(object, &["metadata", "namespace"]).to_owned();
        let quotas: Vec<(Key, Value)> = self
            .store
            .of("resourcequotas", &namespace)
            .map(|(key, quota)| (key.clone(), Value::clone(quota)))
            .collect();
        let asked = of_object(kind, object);
        for (key, quota) in &quotas {
            check(kind, object, &key.name, quota, &asked)?;
        }
        for (key, mut quota) in quotas {
            let mut used = amounts(&quota, &["status", "used"]);
            let mut changed = false;
            for (what, amount) in &asked {
                if let Some(sum) = used.get_mut(what) {
                    *sum = sum.plus(*amount);
                    changed = true;
                }
            }
            if changed {
                put(&mut quota, &["status", "used"], show(&used));
                self.write(&key, quota);
                self.agenda.plan(self.now_ms + RESYNC_MS, Due::CountQuota(namespace.clone()));
            }
        }
        Ok(())
    }

    /// Plans a count, where a namespace has a quota.
    pub(super) fn plan_count(&mut self, namespace: &str) {
        if !namespace.is_empty() && self.store.of("resourcequotas", namespace).next().is_some() {
            self.agenda.plan(self.now_ms + COUNT_MS, Due::CountQuota(namespace.to_owned()));
        }
    }

    /// Writes the status of a namespace's quotas, where it is not what it should be.
    pub(super) fn count_quota(&mut self, namespace: &str) {
        let quotas: Vec<Key> =
            self.store.of("resourcequotas", namespace).map(|(key, _)| key.clone()).collect();
        for key in quotas {
            let Some(quota) = self.store.get(&key) else { continue };
            let mut quota = Value::clone(quota);
            let hard = amounts(&quota, &["spec", "hard"]);
            let used = self.used(namespace, &hard);
            let was = quota.get("status").cloned();
            put(&mut quota, &["status", "hard"], show(&hard));
            put(&mut quota, &["status", "used"], show(&used));
            if quota.get("status") != was.as_ref() {
                self.write(&key, quota);
            }
        }
    }

    fn used(&self, namespace: &str, hard: &Amounts) -> Amounts {
        let mut used: Amounts = hard.keys().map(|what| (what.clone(), Quantity::default())).collect();
        for (key, object) in self.store.all().filter(|(key, _)| key.namespace == namespace) {
            let Some(kind) = self.kinds.by_key(&key.resource) else { continue };
            for (what, amount) in of_object(&kind, object) {
                if let Some(sum) = used.get_mut(&what) {
                    *sum = sum.plus(amount);
                }
            }
        }
        used
    }
}

fn check(kind: &Kind, object: &Value, quota_name: &str, quota: &Value, asked: &Amounts) -> Answer<()> {
    let name = text(object, &["metadata", "name"]);
    let refused = |why: String| {
        let message = format!("{} \"{name}\" is forbidden: {why}", kind.qualified());
        Err(status(403, "Forbidden", message, kind.details(name)))
    };
    // What was not counted yet does not count.
    let hard = amounts(quota, &["status", "hard"]);
    let used = amounts(quota, &["status", "used"]);
    let missing = missing(kind, object, &hard);
    if !missing.is_empty() {
        return refused(format!("failed quota: {quota_name}: must specify {missing}"));
    }
    let over: Vec<(&String, [Quantity; 3])> = hard
        .iter()
        .filter_map(|(what, hard)| {
            let (used, asked) = (*used.get(what)?, *asked.get(what)?);
            (used.plus(asked) > *hard).then_some((what, [asked, used, *hard]))
        })
        .collect();
    if over.is_empty() {
        return Ok(());
    }
    let show = |column: usize| {
        let amount = |amounts: &[Quantity; 3]| amounts.get(column).copied().unwrap_or_default();
        let parts: Vec<String> =
            over.iter().map(|(what, amounts)| format!("{what}={}", amount(amounts))).collect();
        parts.join(",")
    };
    refused(format!(
        "exceeded quota: {quota_name}, requested: {}, used: {}, limited: {}",
        show(0),
        show(1),
        show(2)
    ))
}

fn amounts(object: &Value, path: &[&str]) -> Amounts {
    let parse = |value: &Value| value.as_str().and_then(Quantity::parse);
    fields(object, path)
        .into_iter()
        .flatten()
        .filter_map(|(what, amount)| Some((what.clone(), parse(amount)?)))
        .collect()
}

fn show(amounts: &Amounts) -> Value {
    let fields: Map<String, Value> =
        amounts.iter().map(|(what, amount)| (what.clone(), amount.to_string().into())).collect();
    Value::Object(fields)
}

/// What one object takes up. A Pod that has ended takes up nothing but its own count.
fn of_object(kind: &Kind, object: &Value) -> Amounts {
    let mut amounts = Amounts::new();
    amounts.insert(format!("count/{}", kind.qualified()), Quantity::whole(1));
    if matches!(kind.qualified().as_str(), "services" | "secrets" | "configmaps" | "resourcequotas") {
        amounts.insert(kind.plural.to_string(), Quantity::whole(1));
    }
    if kind.kind != "Pod" || matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed") {
        return amounts;
    }
    amounts.insert("pods".to_owned(), Quantity::whole(1));
    for container in list(object, &["spec", "containers"]) {
        for (what, prefix) in [("requests", "requests."), ("limits", "limits.")] {
            for (name, amount) in self::amounts(container, &["resources", what]) {
                let mut add = |key: String| {
                    let sum = amounts.entry(key).or_default();
                    *sum = sum.plus(amount);
                };
                add(format!("{prefix}{name}"));
                if what == "requests" {
                    add(name);
                }
            }
        }
    }
    amounts
}

/// `limits.memory for: main; requests.cpu for: main`: what a quota counts, a Pod has to say.
fn missing(kind: &Kind, object: &Value, hard: &Amounts) -> String {
    if kind.kind != "Pod" {
        return String::new();
    }
    let mut parts = Vec::new();
    for what in hard.keys() {
        let (of, name) = match what.split_once('.') {
            Some((of @ ("requests" | "limits"), name)) => (of, name),
            None if matches!(what.as_str(), "cpu" | "memory") => ("requests", what.as_str()),
            _ => continue,
        };
        let silent: Vec<&str> = list(object, &["spec", "containers"])
            .iter()
            .filter(|container| text(container, &["resources", of, name]).is_empty())
            .map(|container| text(container, &["name"]))
            .collect();
        if !silent.is_empty() {
            parts.push(format!("{what} for: {}", silent.join(",")));
        }
    }
    parts.join("; ")
}
