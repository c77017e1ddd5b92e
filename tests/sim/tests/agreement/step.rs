//! One request of the script.

use egress_runtime::capability::{DeleteOptions, ListOptions, PatchKind};
use egress_sim::kubernetes::Image;
use serde_json::Value;

/// A request, and what it is compared by.
pub struct Step {
    pub name: &'static str,
    pub poor: bool,
    pub api_version: &'static str,
    pub plural: &'static str,
    pub namespace: &'static str,
    pub call: Call,
    /// Asked again until this holds: what controllers do takes its time.
    pub until: Option<fn(&Value) -> bool>,
    /// Whether the answer's status is compared.
    pub status_matters: bool,
}

/// In texts `$ns` is the script's namespace, and `{step:/path}` what an earlier step was answered.
pub enum Call {
    About,
    Allowed(&'static str),
    Get(&'static str),
    List(List),
    Create(Value),
    Patch(&'static str, PatchKind, Value),
    Delete(&'static str, Option<&'static str>, Option<&'static str>, Option<u32>),
    /// Lists that have begun come to their end.
    ExpireTokens,
    /// What becomes of the lab's Squid from now on, where nobody runs it for real.
    Becomes(Image),
}

#[derive(Default)]
pub struct List {
    pub labels: &'static str,
    pub fields: &'static str,
    pub limit: u32,
    pub token: &'static str,
}

impl Step {
    pub fn new(name: &'static str, plural: &'static str, call: Call) -> Self {
        let (api_version, namespace) = ("v1", "$ns");
        Self { name, poor: false, api_version, plural, namespace, call, until: None, status_matters: true }
    }

    /// As who may little.
    pub fn poor(self) -> Self {
        Self { poor: true, ..self }
    }

    pub fn within(self, namespace: &'static str) -> Self {
        Self { namespace, ..self }
    }

    pub fn of(self, api_version: &'static str) -> Self {
        Self { api_version, ..self }
    }

    pub fn until(self, holds: fn(&Value) -> bool) -> Self {
        Self { until: Some(holds), ..self }
    }

    /// For what goes to and fro: in which of two states it is met is a matter of chance.
    pub fn in_either_state(self) -> Self {
        Self { status_matters: false, ..self }
    }
}

pub fn get(name: &'static str, plural: &'static str, object: &'static str) -> Step {
    Step::new(name, plural, Call::Get(object))
}

pub fn list(name: &'static str, plural: &'static str, options: List) -> Step {
    Step::new(name, plural, Call::List(options))
}

pub fn create(name: &'static str, plural: &'static str, body: Value) -> Step {
    Step::new(name, plural, Call::Create(body))
}

pub fn merge(name: &'static str, plural: &'static str, object: &'static str, body: Value) -> Step {
    Step::new(name, plural, Call::Patch(object, PatchKind::Merge, body))
}

pub fn json_patch(name: &'static str, plural: &'static str, object: &'static str, body: Value) -> Step {
    Step::new(name, plural, Call::Patch(object, PatchKind::Json, body))
}

pub fn apply(name: &'static str, plural: &'static str, object: &'static str, body: Value) -> Step {
    Step::new(name, plural, Call::Patch(object, PatchKind::Apply, body))
}

pub fn delete(name: &'static str, plural: &'static str, object: &'static str) -> Step {
    Step::new(name, plural, Call::Delete(object, None, None, None))
}

pub fn delete_if(
    name: &'static str,
    plural: &'static str,
    object: &'static str,
    uid: Option<&'static str>,
    version: Option<&'static str>,
) -> Step {
    Step::new(name, plural, Call::Delete(object, uid, version, None))
}

pub fn delete_within(name: &'static str, plural: &'static str, object: &'static str, seconds: u32) -> Step {
    Step::new(name, plural, Call::Delete(object, None, None, Some(seconds)))
}

impl Call {
    pub fn list_options(list: &List, fill: impl Fn(&str) -> String) -> ListOptions {
        ListOptions {
            label_selector: list.labels.to_owned(),
            field_selector: fill(list.fields),
            limit: list.limit,
            continue_token: Some(fill(list.token)).filter(|token| !token.is_empty()),
        }
    }

    pub fn delete_options(
        uid: Option<&str>,
        version: Option<&str>,
        seconds: Option<u32>,
        fill: impl Fn(&str) -> String,
    ) -> DeleteOptions {
        DeleteOptions { uid: uid.map(&fill), resource_version: version.map(&fill), grace_seconds: seconds }
    }
}
