//! What differs between two clusters without a difference between them: identities, versions, times.
//!
//! Identities and versions are numbered as they come, so whether two are the same still shows.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use egress_runtime::capability::KubernetesFailure;
use serde_json::{Map, Value, json};

/// What is set aside on both sides although it does differ, as the module's documentation says it.
pub const SET_ASIDE: &[&str] = &[
    "What the cluster's own controllers write has no entry in `managedFields`.",
    "A change of what must not change is refused without the diff of Go's fields.",
    "Whether a Pod that has ended still shows its address is a matter of chance on a real node; here it does.",
    "A patch after which an object can't be read is refused without the same quote of that object.",
    "How many restarts come before a real kubelet first shows a back-off depends on how busy its node is.",
];

#[derive(Default)]
pub struct Normal {
    namespace: String,
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
    generated: Vec<(String, String)>,
}

impl Normal {
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    pub fn failure(&mut self, failure: &KubernetesFailure) -> Value {
        json!({
            "kind": failure.kind.as_str(), "code": failure.code, "reason": failure.reason,
            "message": self.text(&failure.message), "details": self.value(&failure.details),
            "retryAfter": failure.retry_after.map(|wait| wait.as_secs()), "sent": failure.sent,
        })
    }

    pub fn value(&mut self, value: &Value) -> Value {
        self.note_generated(value);
        self.at(value)
    }

    fn at(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let is_list = fields.contains_key("items") && fields.contains_key("metadata");
                let mut shown = Map::new();
                for (key, value) in fields {
                    let value = match (key.as_str(), value) {
                        ("managedFields", value) => match self.managers(value) {
                            Some(managers) => managers,
                            None => continue,
                        },
                        ("metadata", Value::Object(metadata)) if is_list => self.list_metadata(metadata),
                        ("resourceVersion", Value::String(version)) => self.version(version).into(),
                        ("ca.crt", _) => json!("<certificate>"),
                        ("containerID" | "imageID", Value::String(id)) if !id.is_empty() => json!("<id>"),
                        ("podIP" | "podIPs", _) if has_ended(fields) => continue,
                        ("hostIP" | "podIP" | "ip", Value::String(_)) => json!("<address>"),
                        ("nodeName", Value::String(node)) if node != "ghost" => json!("<node>"),
                        // What the kernel gave, which is no word of the kubelet's.
                        ("resources", Value::Object(_)) if fields.contains_key("phase") => continue,
                        ("clusterIP" | "clusterIPs", value) => without_addresses(value),
                        ("restartCount", value) if value != 0 && backs_off(fields) => json!("<restarts>"),
                        (_, value) => self.at(value),
                    };
                    shown.insert(self.text(key), value);
                }
                Value::Object(shown)
            }
            Value::Array(items) => items.iter().map(|item| self.at(item)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    /// Without the cluster's own controllers: in which order they get to something is a matter of chance.
    fn managers(&mut self, value: &Value) -> Option<Value> {
        let own = |entry: &&Value| !entry["manager"].as_str().unwrap_or_default().starts_with("kube");
        let entries: Vec<Value> = value.as_array().into_iter().flatten().filter(own).cloned().collect();
        (!entries.is_empty()).then(|| self.at(&entries.into()))
    }

    /// Others write to a cluster, too: only whether a list goes on, and where, can be the same.
    fn list_metadata(&mut self, metadata: &Map<String, Value>) -> Value {
        let mut shown = metadata.clone();
        shown.insert("resourceVersion".to_owned(), json!("<now>"));
        if let Some(Value::String(token)) = shown.get("continue") {
            let token = URL_SAFE_NO_PAD
                .decode(token)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let start = token.as_ref().and_then(|token| token["start"].as_str()).unwrap_or("no token");
            let start = self.text(start);
            shown.insert("continue".to_owned(), json!(format!("<behind {start:?}>")));
        }
        Value::Object(shown)
    }

    fn version(&mut self, version: &str) -> String {
        let next = self.versions.len() + 1;
        format!("<version {}>", self.versions.entry(version.to_owned()).or_insert(next))
    }

    /// Names that somebody else chose the end of.
    fn note_generated(&mut self, value: &Value) {
        let mut hashes = Vec::new();
        let mut note = |name: Option<&str>, prefix: &str| {
            if let Some(name) = name.filter(|name| name.starts_with(prefix) && name.len() == prefix.len() + 5)
            {
                self.generated.push((name.to_owned(), format!("{prefix}<generated>")));
            }
        };
        for item in value["items"].as_array().into_iter().flatten().chain([value]) {
            if let Some(hash) = item["metadata"]["labels"]["pod-template-hash"].as_str() {
                hashes.push(hash.to_owned());
            }
        }
        if let Some(prefix) = value["metadata"]["generateName"].as_str() {
            note(value["metadata"]["name"].as_str(), prefix);
        }
        for volume in value["spec"]["volumes"].as_array().into_iter().flatten() {
            note(volume["name"].as_str(), "kube-api-access-");
        }
        self.generated.extend(hashes.into_iter().map(|hash| (hash, "<hash>".to_owned())));
    }

    fn text(&mut self, text: &str) -> String {
        if is_time(text) {
            return "<time>".to_owned();
        }
        let mut text = text.replace(&self.namespace, "<ns>");
        for (name, shown) in &self.generated {
            text = text.replace(name, shown);
        }
        text = self.uids_in(&text);
        // What two Go values differ in is told as a diff of their fields.
        if let Some((before, _)) = text.split_once("\n@@") {
            text = before.to_owned();
        }
        // An object that can't be read is quoted as a whole.
        if let (Some(from), Some(to)) = (text.find("Invalid value: \"{"), text.rfind("}\": ")) {
            text = format!("{}Invalid value: <object>: {}", &text[..from], &text[to + 4..]);
        }
        // Why a registry does not answer is its own affair.
        if let Some((before, rest)) = text.split_once("failed to resolve reference ")
            && let Some((reference, _)) = rest.split_once(": ")
        {
            text = format!("{before}failed to resolve reference {reference}: <cause>");
        }
        if let Some((before, rest)) = text.split_once("ResourceVersion in record (")
            && let Some((version, after)) = rest.split_once(')')
        {
            text = format!("{before}ResourceVersion in record ({}){after}", self.version(version));
        }
        let backing_off = text.strip_prefix("back-off ").and_then(|rest| rest.split_once(" restarting "));
        if let Some((_, rest)) = backing_off {
            text = format!("back-off <wait> restarting {rest}");
        }
        if let Some((before, _)) =
            text.split_once(", current: ").filter(|_| text.contains("resource version"))
        {
            text = format!("{before}, current: <now>");
        }
        text
    }

    fn uids_in(&mut self, text: &str) -> String {
        let mut shown = String::new();
        let mut rest = text;
        while let Some(at) = (0..rest.len()).find(|at| rest.get(*at..at + 36).is_some_and(is_uid)) {
            let next = self.uids.len() + 1;
            let number = *self.uids.entry(rest[at..at + 36].to_owned()).or_insert(next);
            shown.push_str(&format!("{}<uid {number}>", &rest[..at]));
            rest = &rest[at + 36..];
        }
        shown + rest
    }
}

fn has_ended(status: &Map<String, Value>) -> bool {
    status.get("phase").is_some_and(|phase| phase == "Succeeded" || phase == "Failed")
}

/// Whether this is the status of a container that waits for its next start.
fn backs_off(status: &Map<String, Value>) -> bool {
    status.get("state").is_some_and(|state| state["waiting"]["reason"] == "CrashLoopBackOff")
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
    })
}

fn is_time(text: &str) -> bool {
    text.len() == 20
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            10 => byte == b'T',
            13 | 16 => byte == b':',
            19 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

fn without_addresses(value: &Value) -> Value {
    match value {
        Value::String(address) if address.starts_with("10.") => json!("<address>"),
        Value::Array(items) => items.iter().map(without_addresses).collect(),
        other => other.clone(),
    }
}
