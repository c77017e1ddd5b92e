//! What is struck out of host calls before anybody writes them down.
//!
//! A recording leaves the machine that it was made on. Whoever makes one names the secrets that he knows:
//! user-data, and the credentials behind the capabilities. Other people's secrets stand in what a backend
//! answers, and nobody can name those: they are known by where they stand (a Secret's content, a field called
//! `token`) and by how they look (a private key, a signed token). Names, addresses and the rest stay: without
//! them a recording says nothing.

use std::{borrow::Cow, sync::Arc};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};
use egress_runtime::Scrubber;
use serde_json::{Map, Value};

use crate::{
    looks::strike_looks,
    recording::{Answer, Exchange},
};

/// What stands where a secret stood.
pub const STRUCK: &str = "[redacted]";
/// What the runtime puts there.
const BY_THE_RUNTIME: &str = "[user-data]";
/// A secret that is shorter stands everywhere, and says nothing.
const SHORTEST: usize = 6;
/// Fields whose value is a secret, whatever object they stand in: in small letters, without `-` and `_`.
const SECRET_FIELDS: [&str; 15] = [
    "token",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "idptoken",
    "password",
    "passwd",
    "passphrase",
    "clientkeydata",
    "clientsecret",
    "secretkey",
    "privatekey",
    "apikey",
    "authorization",
    "kubeconfig",
];
/// What the name of an environment variable says of its value.
const SECRET_NAMES: [&str; 6] = ["password", "passwd", "secret", "token", "apikey", "credential"];
/// What may stay of a Secret beside its metadata, and of a list or a refusal of Secrets.
const PLAIN_IN_SECRETS: [&str; 8] =
    ["apiVersion", "kind", "type", "immutable", "status", "code", "reason", "details"];
/// What may stay of a Secret's metadata, beside what is no text.
const PLAIN_METADATA: [&str; 11] = [
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "finalizers",
    "ownerReferences",
    "continue",
];

/// See the module.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Arc<Secret>>,
}

struct Secret {
    /// All of it, as it may be written down.
    whole: Vec<String>,
    /// Its lines.
    lines: Option<Scrubber>,
    /// Whether a text goes as a whole in which a line of it stands: its other lines may be too short to be known.
    greedy: bool,
}

impl Redactor {
    /// Also strikes this credential out: as it is, as it stands in JSON, and in base64.
    #[must_use]
    pub fn and(self, credential: &[u8]) -> Self {
        self.with(credential, false)
    }

    /// Also strikes this user-data out, and every text in which a line of it stands that has 12 bytes or more.
    #[must_use]
    pub fn and_user_data(self, user_data: &[u8]) -> Self {
        self.with(user_data, true)
    }

    fn with(mut self, bytes: &[u8], greedy: bool) -> Self {
        let secret = Secret { whole: forms(bytes), lines: Scrubber::new(bytes), greedy };
        if !secret.whole.is_empty() || secret.lines.is_some() {
            self.secrets.push(Arc::new(secret));
        }
        self
    }

    /// The value without secrets.
    pub fn clean(&self, mut value: Value) -> Value {
        self.strike(&mut value);
        strike_places(&mut value);
        value
    }

    /// The text without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        self.strike_text(&mut text);
        text
    }

    /// The exchange without secrets.
    pub fn exchange(&self, exchange: Exchange) -> Exchange {
        let secrets = is_about_secrets(&exchange);
        let clean = |value: Value, is_body: bool| {
            let mut value = self.clean(value);
            if secrets && is_body {
                strike_secret(&mut value);
            }
            value
        };
        let mut request = clean(exchange.request, false);
        leave_out(&mut request);
        if let Some(body) = request.get_mut("body").filter(|_| secrets) {
            strike_secret(body);
        }
        Exchange {
            about: self.text(&exchange.about),
            request,
            answer: match exchange.answer {
                Answer::Answer(value) => {
                    let mut value = clean(value, true);
                    leave_out(&mut value);
                    Answer::Answer(value)
                }
                // A refusal may quote what it refuses.
                Answer::Failure(value) => Answer::Failure(clean(value, false)),
            },
            ..exchange
        }
    }

    fn strike(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.strike_text(text),
            Value::Array(values) => match bytes(values) {
                Some(bytes) if self.is_in(&bytes) => *value = STRUCK.into(),
                Some(_) => {}
                None => values.iter_mut().for_each(|value| self.strike(value)),
            },
            Value::Object(object) => {
                let clean = std::mem::take(object).into_iter().map(|(mut key, mut value)| {
                    self.strike_text(&mut key);
                    self.strike(&mut value);
                    (key, value)
                });
                *object = clean.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.text(&text) != text
    }

    fn strike_text(&self, text: &mut String) {
        // The runtime has struck user-data out of it, and left the lines that are too short for it.
        if self.secrets.iter().any(|secret| secret.greedy) && text.contains(BY_THE_RUNTIME) {
            STRUCK.clone_into(text);
        }
        for secret in &self.secrets {
            secret.strike(text);
        }
        if let Cow::Owned(clean) = strike_looks(text) {
            *text = clean;
        }
    }
}

impl Secret {
    fn strike(&self, text: &mut String) {
        for whole in &self.whole {
            if text.contains(whole.as_str()) {
                *text = text.replace(whole.as_str(), STRUCK);
            }
        }
        if let Some(Cow::Owned(clean)) = self.lines.as_ref().map(|lines| lines.text(text)) {
            *text = if self.greedy { STRUCK.to_owned() } else { clean };
        }
    }
}

/// What a list of numbers stands for, if they are bytes: some write texts down so.
fn bytes(values: &[Value]) -> Option<Vec<u8>> {
    if values.len() < SHORTEST {
        return None;
    }
    values.iter().map(|value| value.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect()
}

/// Every way in which all of it may be written down; none of what is too short.
fn forms(bytes: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    let trimmed = bytes.trim_ascii();
    if trimmed.len() < SHORTEST {
        return forms;
    }
    for bytes in [bytes, trimmed] {
        if let Ok(text) = std::str::from_utf8(bytes) {
            forms.push(text.to_owned());
            let quoted = Value::from(text).to_string();
            forms.extend(quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).map(str::to_owned));
        }
        forms.extend([STANDARD, URL_SAFE].map(|engine| engine.encode(bytes)));
        forms.extend([STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|engine| engine.encode(bytes)));
    }
    // The longest first: what is left of it would not be known any more.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    forms
}

fn strike_places(value: &mut Value) {
    match value {
        Value::Object(object) => {
            match object.get("kind").and_then(Value::as_str) {
                Some("Secret") => return strike_secret_object(object),
                // What is in a list does not say again what it is.
                Some("SecretList") => {
                    for item in object.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
                        strike_secret(item);
                    }
                    return;
                }
                _ => {}
            }
            if is_secret_variable(object)
                && let Some(value) = object.get_mut("value")
            {
                *value = STRUCK.into();
            }
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(text) if is_secret_field(key) => STRUCK.clone_into(text),
                    other => strike_places(other),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(strike_places),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Who wrote which field of an object is half of it, and nothing that a provider looks at.
fn leave_out(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            object.values_mut().for_each(leave_out);
        }
        Value::Array(values) => values.iter_mut().for_each(leave_out),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_secret_field(key: &str) -> bool {
    let plain: String =
        key.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_FIELDS.contains(&plain.as_str())
}

/// `{ name: DB_PASSWORD, value: .. }`, as containers have it.
fn is_secret_variable(object: &Map<String, Value>) -> bool {
    let Some(name) = object.get("name").and_then(Value::as_str) else { return false };
    let name: String = name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect();
    object.get("value").is_some_and(Value::is_string) && SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn is_about_secrets(exchange: &Exchange) -> bool {
    let plural = exchange.request.pointer("/resource/plural").and_then(Value::as_str).unwrap_or_default();
    plural.split('/').next() == Some("secrets")
}

/// A Secret, a patch of one, or a list of them: what is not known to be plain goes.
fn strike_secret(value: &mut Value) {
    match value {
        Value::Object(object) => strike_secret_object(object),
        // A list, or the operations of a JSON patch.
        Value::Array(values) => values.iter_mut().for_each(strike_secret),
        Value::String(_) | Value::Number(_) => *value = STRUCK.into(),
        Value::Null | Value::Bool(_) => {}
    }
}

fn strike_secret_object(object: &mut Map<String, Value>) {
    for (key, value) in object.iter_mut() {
        match key.as_str() {
            "metadata" => strike_metadata(value),
            // Of a JSON patch: what is done, and where.
            "op" | "path" | "from" => {}
            key if PLAIN_IN_SECRETS.contains(&key) => {}
            _ => strike_secret(value),
        }
    }
}

/// Annotations may hold the whole object again.
fn strike_metadata(metadata: &mut Value) {
    let Value::Object(metadata) = metadata else { return strike_secret(metadata) };
    for (key, value) in metadata.iter_mut() {
        if !PLAIN_METADATA.contains(&key.as_str()) {
            strike_secret(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn about(plural: &str, request: Value, answer: Answer) -> Exchange {
        let mut request = request;
        request["resource"] = json!({ "apiVersion": "v1", "plural": plural });
        Exchange {
            number: 1,
            at_ms: 0,
            capability: "kubernetes".to_owned(),
            function: "get".to_owned(),
            about: String::new(),
            request,
            more: 0,
            answer,
        }
    }

    #[track_caller]
    fn assert_clean(text: &str, secrets: &[&str], kept: &[&str]) {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        for kept in kept {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }

    #[test]
    fn what_is_named_is_struck_out_however_it_is_written() {
        let redactor = Redactor::default().and(b"Bearer abcdefgh-ijkl").and(b"short!");
        let clean = redactor.clean(json!({
            "message": "sent Bearer abcdefgh-ijkl and short!",
            "blob": "c2hvcnQh",
            "short!": 1,
        }));
        assert_clean(&clean.to_string(), &["abcdefgh", "short!", "c2hvcnQh"], &["sent "]);
    }

    #[test]
    fn of_user_data_not_even_the_short_lines_stay() {
        let user_data = b"#cloud-config\npw: abc\npassword: hunter2-hunter2\n";
        let redactor = Redactor::default().and_user_data(user_data);
        let indented = "write_files:\n  #cloud-config\n  pw: abc\n  password: hunter2-hunter2\n";
        let clean = redactor.clean(json!({
            "verbatim": String::from_utf8_lossy(user_data),
            "indented": indented,
            "seed": STANDARD.encode(user_data),
            "message": "refused: password: hunter2-hunter2",
            "scrubbed": "it said [user-data] pw: abc",
            "bytes": user_data.to_vec(),
            "name": "web",
        }));
        let secrets = ["hunter2", "pw: abc", "I2Nsb3Vk", "#cloud", "35,99,108"];
        assert_clean(&clean.to_string(), &secrets, &["\"name\":\"web\""]);
    }

    #[test]
    fn of_a_secret_the_names_stay() {
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        let secret = json!({
            "kind": "Secret", "type": "Opaque",
            "metadata": { "name": "s", "labels": { "app": "squid" }, "annotations": { applied: "{\"data\":\"aGVsbG8=\"}" } },
            "data": { "key": "aGVsbG8=" }, "stringData": { "key": "hello-world" },
        });
        let secrets = ["aGVsbG8", "hello-world"];
        let kept = ["\"name\":\"s\"", "\"app\":\"squid\"", "\"key\":", "Opaque"];
        let clean = Redactor::default().clean(json!({ "kind": "List", "items": [secret.clone()] }));
        assert_clean(&clean.to_string(), &secrets, &kept);

        let mut item = secret.clone();
        item.as_object_mut().unwrap().remove("kind");
        let list = json!({ "kind": "SecretList", "metadata": { "continue": "next" }, "items": [item] });
        assert_clean(&Redactor::default().clean(list.clone()).to_string(), &secrets, &kept);
        let mut bare = list;
        bare.as_object_mut().unwrap().remove("kind");
        let listed = Redactor::default().exchange(about("secrets", json!({}), Answer::Answer(bare)));
        let text = serde_json::to_string(&listed).unwrap();
        assert_clean(&text, &secrets, &kept);
        assert_clean(&text, &[], &["\"continue\":\"next\""]);
    }

    #[test]
    fn a_patch_of_a_secret_says_where_and_not_what() {
        let request =
            json!({ "name": "s", "body": [{ "op": "add", "path": "/data/key", "value": "aGVsbG8=" }] });
        let patched = Redactor::default().exchange(about("secrets", request, Answer::Answer(Value::Null)));
        assert_clean(
            &serde_json::to_string(&patched).unwrap(),
            &["aGVsbG8"],
            &["/data/key", "\"op\":\"add\""],
        );
        let request = json!({ "name": "s", "body": { "data": { "key": "aGVsbG8=" } } });
        let merged = Redactor::default().exchange(about("secrets", request, Answer::Answer(Value::Null)));
        assert_clean(&serde_json::to_string(&merged).unwrap(), &["aGVsbG8"], &["\"name\":\"s\""]);
    }

    #[test]
    fn who_wrote_a_field_is_left_out() {
        let pod = json!({ "kind": "Pod", "metadata": { "name": "p", "managedFields": [{ "manager": "kubelet" }] } });
        let answer = Answer::Answer(json!({ "items": [pod] }));
        let text =
            serde_json::to_string(&Redactor::default().exchange(about("pods", json!({}), answer))).unwrap();
        assert_clean(&text, &["managedFields"], &["\"name\":\"p\""]);
    }

    #[test]
    fn fields_and_variables_that_hold_secrets_are_known_by_their_names() {
        let clean = Redactor::default().clean(json!({
            "status": { "token": "abc", "client-key-data": "def", "accessToken": "ghi" },
            "env": [{ "name": "DB_PASSWORD", "value": "jkl" }, { "name": "PORT", "value": "3128" }],
            "volumes": [{ "name": "token", "projected": { "sources": [] } }],
        }));
        let text = clean.to_string();
        let kept = ["3128", "\"name\":\"token\"", "sources"];
        assert_clean(&text, &["\"abc\"", "\"def\"", "\"ghi\"", "\"jkl\""], &kept);
    }
}
