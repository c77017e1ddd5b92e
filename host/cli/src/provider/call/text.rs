//! An answer, for people.

use std::time::Duration;

use egress_conformance::call::{Answer, Call, state};
use egress_contract::{Created, Deleted, Description, Error, Health, Instance, Item, Mark, Page, Pending};
use serde_json::Value;

use crate::output::columns;

type Row = [String; 2];

/// What was called, and what it answered: a line, and what belongs to it below.
pub fn answer(call: &Call, answer: &Answer) -> String {
    let (outcome, rows) = match answer {
        Answer::Created(Created::Done(id)) => ("done".to_owned(), vec![row("id", id)]),
        Answer::Deleted(Deleted::Done) => ("done, nothing is left".to_owned(), Vec::new()),
        Answer::Created(Created::Pending(step)) | Answer::Deleted(Deleted::Pending(step)) => pending(step),
        Answer::Instance(instance) => self::instance(instance),
        Answer::Page(page) => self::page(page),
        Answer::Health(health) => self::health(health),
        Answer::Failed(error) => failed(error),
    };
    block(&format!("{} {}: {outcome}", call.export(), call.subject()), rows)
}

/// What `describe` answers, as far as it is short; inspect shows all of it.
pub fn description(description: &Description) -> String {
    let Description { name, version, contract, profile, .. } = description;
    let mut rows = vec![row("contract", contract)];
    if let Value::Object(profile) = profile {
        rows.extend(profile.iter().map(|(axis, value)| row(axis, &plain(value))));
    }
    block(&format!("describe: {name} {version}"), rows)
}

/// What `configure` answers.
pub fn places(places: &[String]) -> String {
    block("configure: the config is good", vec![row("places", &places.join(", "))])
}

fn block(head: &str, rows: Vec<Row>) -> String {
    let there: Vec<Row> = rows.into_iter().filter(|[_, value]| !value.is_empty()).collect();
    format!("{head}\n{}", columns(&there))
}

fn row(name: &str, value: &str) -> Row {
    [format!("  {name}"), value.to_owned()]
}

fn pending(step: &Pending) -> (String, Vec<Row>) {
    let Pending { id, progress, poll, message } = step;
    let rows = vec![
        row("id", id.as_deref().unwrap_or_default()),
        row("progress", progress),
        row("message", message),
    ];
    (format!("pending, to be called again after {}", ms(*poll)), rows)
}

fn instance(instance: &Instance) -> (String, Vec<Row>) {
    let Instance { id, state: of, addresses, mark, created_ms, reason, message, details } = instance;
    let addresses: Vec<String> =
        addresses.iter().map(|address| format!("{} ({})", address.ip, address.kind)).collect();
    let rows = vec![
        row("id", id),
        row("addresses", &addresses.join(", ")),
        row("mark", &pairs(mark)),
        row("created", &time(*created_ms)),
        row("reason", reason),
        row("message", message),
        row("details", &object(details)),
    ];
    (state(*of).to_owned(), rows)
}

fn page(page: &Page) -> (String, Vec<Row>) {
    let Page { items, unread, next } = page;
    let item = |item: &Item| {
        let Item { id, name, leftover, mark, created_ms } = item;
        let what = leftover.as_deref().unwrap_or("instance");
        [row(what, id), row("", &format!("of {name}, created {}", time(*created_ms))), row("", &pairs(mark))]
    };
    let mut rows: Vec<Row> = items.iter().flat_map(item).collect();
    rows.extend(unread.iter().map(|cause| row("unread", cause)));
    rows.push(row("goes on at", next.as_deref().unwrap_or_default()));
    (format!("{} found", items.len()), rows)
}

fn health(health: &Health) -> (String, Vec<Row>) {
    let Health { ready, reason, message, details } = health;
    let ready = if *ready { "ready" } else { "not ready" };
    (format!("{ready}, {reason}"), vec![row("message", message), row("details", &object(details))])
}

fn failed(error: &Error) -> (String, Vec<Row>) {
    let Error { class, reason, message, retry_after, details, progress } = error;
    let rows = vec![
        row("message", message),
        row("retry", &retry_after.map(|wait| format!("after {}", ms(wait))).unwrap_or_default()),
        row("details", &object(details)),
        row("progress", progress.as_deref().unwrap_or_default()),
    ];
    (format!("failed, {} {reason}", class.as_str()), rows)
}

fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

fn time(ms: Option<u64>) -> String {
    let stamp = ms.and_then(|ms| jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok());
    stamp.map_or_else(|| "at a time that is not known".to_owned(), |stamp| stamp.to_string())
}

fn pairs(mark: &Mark) -> String {
    mark.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn object(details: &Value) -> String {
    let Value::Object(details) = details else { return details.to_string() };
    details.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join(", ")
}

/// A string without its quotes; else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
