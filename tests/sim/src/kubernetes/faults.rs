//! What is wrong with an object: 422, with every fault at once.

use std::collections::BTreeSet;

use egress_runtime::capability::KubernetesFailure;
use serde_json::{Value, json};

use super::{
    json::enter,
    kinds::Kind,
    status::{Answer, status},
};

/// One fault in one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    reason: &'static str,
    field: String,
    message: String,
}

/// All that is wrong, in the order in which the API server finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    fn push(&mut self, reason: &'static str, field: impl Into<String>, message: String) {
        self.0.push(Fault { reason, field: field.into(), message });
    }

    pub(super) fn required(&mut self, field: impl Into<String>) {
        self.push("FieldValueRequired", field, "Required value".to_owned());
    }

    pub(super) fn required_for(&mut self, field: impl Into<String>, why: &str) {
        self.push("FieldValueRequired", field, format!("Required value: {why}"));
    }

    pub(super) fn invalid(&mut self, field: impl Into<String>, value: impl Into<Value>, why: &str) {
        self.push("FieldValueInvalid", field, format!("Invalid value: {}: {why}", value.into()));
    }

    /// The same where the value is no JSON of ours: the API server shows fields in their Go order.
    pub(super) fn invalid_shown(&mut self, field: impl Into<String>, shown: &str, why: &str) {
        self.push("FieldValueInvalid", field, format!("Invalid value: {shown}: {why}"));
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &str) {
        self.push("FieldValueDuplicate", field, format!("Duplicate value: {}", Value::from(value)));
    }

    pub(super) fn not_found(&mut self, field: impl Into<String>, value: &str) {
        self.push("FieldValueNotFound", field, format!("Not found: {}", Value::from(value)));
    }

    pub(super) fn unsupported(&mut self, field: impl Into<String>, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|value| format!("\"{value}\"")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", Value::from(value), supported.join(", "));
        self.push("FieldValueNotSupported", field, message);
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, why: &str) {
        self.push("FieldValueForbidden", field, format!("Forbidden: {why}"));
    }

    pub(super) fn too_long(&mut self, field: impl Into<String>, most: usize) {
        self.push("FieldValueTooLong", field, format!("Too long: may not be more than {most} bytes"));
    }

    /// Found twice, by two parts of the API server: told once, but with two causes.
    pub(super) fn twice(&mut self) {
        self.0.extend(self.0.clone());
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing, or the refusal of an object of that name.
    pub(super) fn refuse(self, kind: &Kind, name: &str) -> Answer<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(self.status(&kind.qualified_kind(), name, kind.details_by_kind(name)))
    }

    pub(super) fn status(self, kind: &str, name: &str, mut details: Value) -> KubernetesFailure {
        let mut told = BTreeSet::new();
        let messages: Vec<String> = self
            .0
            .iter()
            .map(|fault| format!("{}: {}", fault.field, fault.message))
            .filter(|message| told.insert(message.clone()))
            .collect();
        let why = match messages.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let causes: Vec<Value> = self
            .0
            .iter()
            .map(|fault| json!({ "reason": fault.reason, "message": fault.message, "field": fault.field }))
            .collect();
        enter(&mut details).insert("causes".to_owned(), causes.into());
        status(422, "Invalid", format!("{kind} \"{name}\" is invalid: {why}"), details)
    }
}
