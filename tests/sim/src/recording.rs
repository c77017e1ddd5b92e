//! What is written down of host calls, so that they can be answered again.
//!
//! A recording leaves the machine it was made on, so it is clean from the start: user-data and whatever else
//! is named as secret are struck out, and so is the content of Secrets and of tokens. Who compares a live
//! request with a recorded one cleans it first.

use std::sync::{Arc, Mutex, PoisonError};

use egress_runtime::Scrubber;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stands where a secret stood.
const STRUCK: &str = "[redacted]";
/// Fields whose value is a secret, whatever object they stand in.
const SECRET_FIELDS: [&str; 6] =
    ["token", "password", "client-key-data", "authorization", "privateKey", "kubeconfig"];

/// One host call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// As in the journal.
    pub number: u64,
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// `kubernetes`.
    pub capability: String,
    /// `get`.
    pub function: String,
    /// Its arguments, by name.
    pub request: Value,
    /// What came back.
    #[serde(flatten)]
    pub answer: Answer,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// As asked.
    Answer(Value),
    /// A failure, in the capability's terms.
    Failure(Value),
}

/// Strikes secrets out.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<Arc<Scrubber>>,
}

impl Redactor {
    /// Also strikes this out, be it user-data or a credential: each of its lines of 12 bytes and more, also in
    /// base64.
    pub fn and(mut self, secret: &[u8]) -> Self {
        self.secrets.extend(Scrubber::new(secret).map(Arc::new));
        self
    }

    /// The value without secrets.
    pub fn clean(&self, mut value: Value) -> Value {
        for secret in &self.secrets {
            secret.json(&mut value);
        }
        strike_fields(&mut value);
        value
    }
}

fn strike_fields(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let is_secret = object.get("kind").is_some_and(|kind| kind == "Secret");
            for (key, value) in object.iter_mut() {
                let content = is_secret && matches!(key.as_str(), "data" | "stringData");
                match value {
                    Value::Object(data) if content => {
                        data.values_mut().for_each(|value| *value = STRUCK.into())
                    }
                    Value::String(text) if SECRET_FIELDS.contains(&key.as_str()) => STRUCK.clone_into(text),
                    other => strike_fields(other),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(strike_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Keeps what was said. Clones are the same recording.
#[derive(Clone, Default)]
pub struct Recorder {
    redactor: Redactor,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    /// Nothing yet.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, exchanges: Arc::default() }
    }

    /// What it strikes out.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(crate) fn keep(&self, exchange: Exchange) {
        let clean = |value| self.redactor.clean(value);
        let exchange = Exchange {
            request: clean(exchange.request),
            answer: match exchange.answer {
                Answer::Answer(value) => Answer::Answer(clean(value)),
                Answer::Failure(value) => Answer::Failure(clean(value)),
            },
            ..exchange
        };
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
    }

    /// All of it so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_secret_is_written_down() {
        let redactor = Redactor::default().and(b"password: hunter2-hunter2\n").and(b"Bearer abcdefgh-ijkl");
        let clean = redactor.clean(json!({
            "kind": "List",
            "items": [
                { "kind": "Secret", "metadata": { "name": "s" }, "data": { "key": "aGVsbG8=" } },
                { "kind": "ConfigMap", "data": { "init": "x: password: hunter2-hunter2" } },
            ],
            "status": { "token": "abc" },
            "message": "sent Bearer abcdefgh-ijkl",
            "blob": "cGFzc3dvcmQ6IGh1bnRlcjItaHVudGVyMgo=",
        }));
        let text = clean.to_string();
        for secret in ["hunter2", "aGVsbG8", "\"abc\"", "abcdefgh", "cGFzc3dvcmQ6"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("\"name\":\"s\""), "{text}");
    }

    #[test]
    fn an_exchange_comes_back_from_its_file() {
        let exchange = Exchange {
            number: 3,
            at_ms: 250,
            capability: "kubernetes".to_owned(),
            function: "get".to_owned(),
            request: json!({ "cluster": "home" }),
            answer: Answer::Failure(json!({ "kind": "status", "code": 404 })),
        };
        let text = serde_json::to_string(&exchange).unwrap();
        assert!(text.contains("\"failure\":{"), "{text}");
        assert_eq!(serde_json::from_str::<Exchange>(&text).unwrap(), exchange);
    }
}
