//! Which node a Pod goes to: node selector, room, and how many Pods there are.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    json::{fields, list, text},
    node::Node,
    quantity::Quantity,
    store::Store,
};

/// What a Pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    cpu_milli: u64,
    memory: u64,
}

/// The node, or why there is none.
pub(super) fn choose(store: &Store, nodes: &[Node], pod: &Value) -> Result<String, String> {
    if nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let wanted = room(pod);
    let selector = fields(pod, &["spec", "nodeSelector"]);
    let mut reasons: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut best: Option<(usize, &Node)> = None;
    for node in nodes {
        let there: Vec<&Value> = pods_on(store, &node.name).collect();
        let fault = fault(node, &there, wanted, selector);
        match fault {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None if best.is_none_or(|(pods, _)| there.len() < pods) => best = Some((there.len(), node)),
            None => {}
        }
    }
    best.map(|(_, node)| node.name.clone()).ok_or_else(|| refusal(nodes.len(), &reasons))
}

fn fault(
    node: &Node,
    there: &[&Value],
    wanted: Room,
    selector: Option<&serde_json::Map<String, Value>>,
) -> Option<&'static str> {
    if !node.up {
        return Some("node(s) had untolerated taint(s)");
    }
    let labels = node.all_labels();
    let fits = |(key, value): (&String, &Value)| labels.get(key).is_some_and(|label| value == label);
    if !selector.is_none_or(|selector| selector.iter().all(fits)) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    if there.len() >= node.pods {
        return Some("Too many pods");
    }
    let used = there.iter().map(|pod| room(pod)).fold(Room::default(), |sum, room| Room {
        cpu_milli: sum.cpu_milli + room.cpu_milli,
        memory: sum.memory + room.memory,
    });
    if used.cpu_milli + wanted.cpu_milli > node.cpu_milli {
        return Some("Insufficient cpu");
    }
    (used.memory + wanted.memory > node.memory).then_some("Insufficient memory")
}

fn refusal(nodes: usize, reasons: &BTreeMap<&'static str, usize>) -> String {
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    let helpless: usize = reasons.values().sum();
    format!(
        "0/{nodes} nodes are available: {}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: \
         {helpless} Preemption is not helpful for scheduling.",
        parts.join(", ")
    )
}

fn pods_on<'a>(store: &'a Store, node: &'a str) -> impl Iterator<Item = &'a Value> {
    store.of("pods", "").map(|(_, pod)| pod.as_ref()).filter(move |pod| {
        text(pod, &["spec", "nodeName"]) == node
            && !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
    })
}

fn room(pod: &Value) -> Room {
    list(pod, &["spec", "containers"]).iter().fold(Room::default(), |sum, container| {
        let asked = |what: &str| {
            let amount =
                Quantity::parse(text(container, &["resources", "requests", what])).unwrap_or_default();
            u64::try_from(amount.milli()).unwrap_or_default()
        };
        Room { cpu_milli: sum.cpu_milli + asked("cpu"), memory: sum.memory + asked("memory") / 1000 }
    })
}
