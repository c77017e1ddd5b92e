//! The script, step by step.

use std::collections::BTreeMap;

use egress_runtime::capability::{Access, KubernetesFailure, Resource};
use serde_json::{Value, json};

use crate::{
    normal::Normal,
    sites::Site,
    step::{Call, Step},
};

/// How often a step is asked again, a tenth of a second apart: a busy node shows some things only after the third
/// or fourth round of a back-off that doubles.
const TRIES: usize = 2400;

/// All answers, in the form in which they are compared.
pub async fn run(site: &Site, script: Vec<Step>) -> Vec<(String, Value)> {
    let mut answered: BTreeMap<String, Value> = BTreeMap::new();
    let mut normal = Normal::new(&site.namespace);
    let mut answers = Vec::new();
    for step in script {
        let mut answer = ask_until(site, &answered, &step).await;
        if !step.status_matters
            && let Ok(Value::Object(fields)) = &mut answer
        {
            fields.remove("status");
        }
        let shown = match &answer {
            Ok(value) => json!({ "ok": normal.value(value) }),
            Err(failure) => json!({ "refused": normal.failure(failure) }),
        };
        if let Ok(value) = answer {
            answered.insert(step.name.to_owned(), value);
        }
        answers.push((step.name.to_owned(), shown));
    }
    answers
}

async fn ask_until(
    site: &Site,
    answered: &BTreeMap<String, Value>,
    step: &Step,
) -> Result<Value, KubernetesFailure> {
    let mut tries = 0;
    loop {
        let answer = ask(site, answered, step).await;
        let Some(holds) = step.until else { return answer };
        let seen = match &answer {
            Ok(value) => value.clone(),
            Err(failure) => json!({ "code": failure.code }),
        };
        tries += 1;
        if holds(&seen) {
            return answer;
        }
        assert!(tries < TRIES, "{} never holds; the last answer was {answer:#?}", step.name);
        site.wait().await;
    }
}

async fn ask(
    site: &Site,
    answered: &BTreeMap<String, Value>,
    step: &Step,
) -> Result<Value, KubernetesFailure> {
    let fill = |text: &str| filled(text, &site.namespace, answered);
    let api = if step.poor { &site.poor } else { &site.admin };
    let resource = Resource { api_version: step.api_version.to_owned(), plural: step.plural.to_owned() };
    let namespace = fill(step.namespace);
    let place = "lab";
    match &step.call {
        Call::About => {
            let about = api.about(place).await?;
            Ok(json!({ "version": about.version, "home": about.home, "user": about.user }))
        }
        Call::Allowed(verb) => {
            let access = Access { verb: (*verb).to_owned(), resource, namespace };
            Ok(json!(api.allowed(place, &access).await?))
        }
        Call::Get(name) => api.get(place, &resource, &namespace, &fill(name)).await,
        Call::List(options) => {
            api.list(place, &resource, &namespace, &Call::list_options(options, fill)).await
        }
        Call::Create(body) => api.create(place, &resource, &namespace, filled_in(body, &fill)).await,
        Call::Patch(name, kind, body) => {
            api.patch(place, &resource, &namespace, &fill(name), *kind, filled_in(body, &fill)).await
        }
        Call::Delete(name, uid, version, seconds) => {
            let options = Call::delete_options(*uid, *version, *seconds, fill);
            api.delete(place, &resource, &namespace, &fill(name), &options).await
        }
        Call::ExpireTokens => {
            site.expire_tokens().await;
            Ok(Value::Null)
        }
        Call::Becomes(image) => {
            site.becomes(image);
            Ok(Value::Null)
        }
    }
}

/// `$ns`, and `{step:/path}`.
fn filled(text: &str, namespace: &str, answered: &BTreeMap<String, Value>) -> String {
    let text = text.replace("$ns", namespace);
    let Some((before, rest)) = text.split_once('{').filter(|(_, rest)| rest.contains(":/")) else {
        return text;
    };
    let (reference, after) = rest.split_once('}').expect("a reference ends");
    let (step, path) = reference.rsplit_once(":/").expect("a step and a path");
    let found =
        answered.get(step).and_then(|answer| answer.pointer(&format!("/{path}"))).and_then(Value::as_str);
    let found = found.unwrap_or_else(|| panic!("no step {step} was answered with {path}"));
    format!("{before}{found}{after}")
}

fn filled_in(body: &Value, fill: &impl Fn(&str) -> String) -> Value {
    match body {
        Value::String(text) => fill(text).into(),
        Value::Array(items) => items.iter().map(|item| filled_in(item, fill)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), filled_in(value, fill))).collect()
        }
        other => other.clone(),
    }
}
