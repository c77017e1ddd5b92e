//! Spans under the names that OpenTelemetry's semantic conventions give things.
//!
//! Where spans are made they bear the project's own words, which its log shows. They are translated when they leave,
//! so that nothing of this costs anything while nobody asks for traces.

use std::borrow::Cow;

use opentelemetry::{
    Key, KeyValue, Value,
    trace::{SpanKind, Status},
};
use opentelemetry_sdk::trace::SpanData;

/// One call of a capability.
const HOST_CALL: &str = "host.call";
const ERROR_TYPE: &str = "error.type";

/// A field of ours, and what it is called outside. Whatever has a dot is called so already.
const FIELDS: [(&str, &str); 13] = [
    ("call", "egress.host_call"),
    ("digest", "egress.component.digest"),
    ("entry", "egress.entry"),
    ("fields", "egress.fields"),
    ("instance", "egress.instance"),
    ("outcome", "egress.outcome"),
    ("phase", "egress.phase"),
    ("place", "egress.place"),
    ("proxy", "egress.proxy"),
    ("reason", "egress.reason"),
    ("revision", "egress.revision"),
    ("stage", "egress.stage"),
    ("step", "egress.step"),
];

/// Translates one.
pub fn span(span: &mut SpanData) {
    let text = |span: &SpanData, name: &str| {
        let of = span.attributes.iter().find(|pair| pair.key.as_str() == name);
        of.map(|pair| pair.value.as_str().into_owned()).unwrap_or_default()
    };
    let (outcome, reason) = (text(span, "outcome"), text(span, "reason"));
    if span.name == HOST_CALL {
        let call = text(span, "call");
        span.span_kind = SpanKind::Client;
        if let Some(method) = call.strip_prefix("libvirt.") {
            span.attributes.push(KeyValue::new("rpc.system.name", "libvirt"));
            span.attributes.push(KeyValue::new("rpc.method", method.to_owned()));
        }
        span.name = Cow::Owned(call);
    }
    if !matches!(outcome.as_str(), "" | "ok") {
        let kind = if reason.is_empty() { outcome } else { reason };
        span.attributes.push(KeyValue::new(ERROR_TYPE, kind.clone()));
        // What is not there is an answer.
        if kind != "not-found" {
            span.status = Status::error(kind);
        }
    }
    // Spans have a duration of their own, and an empty word says nothing.
    let is_said = |pair: &KeyValue| {
        pair.key.as_str() != "ms" && !matches!(&pair.value, Value::String(text) if text.as_str().is_empty())
    };
    span.attributes.retain(is_said);
    span.attributes.iter_mut().for_each(rename);
    for event in &mut span.events.events {
        event.attributes.iter_mut().for_each(rename);
    }
}

fn rename(pair: &mut KeyValue) {
    if let Some((_, name)) = FIELDS.iter().find(|(field, _)| *field == pair.key.as_str()) {
        pair.key = Key::from_static_str(name);
    }
}
