//! `epo describe`: one object for people, with what was told about it.

use egress_standalone::Look;
use jiff::Timestamp;
use serde_json::Value;

use super::{Kind, Where, columns::age, name_of, text_at};
use crate::{failure::Failure, output};

/// See the module.
#[derive(clap::Args)]
pub struct Describe {
    /// Of what
    #[arg(value_enum)]
    kind: Kind,
    /// Which
    name: String,
    #[command(flatten)]
    at: Where,
    /// The Proxy's namespace
    #[arg(short, long, env = "EPO_NAMESPACE", default_value = "default")]
    namespace: String,
}

/// Of the metadata, what says nothing to people.
const UNTOLD: [&str; 4] = ["resourceVersion", "name", "namespace", "creationTimestamp"];

impl Describe {
    pub fn run(self) -> Result<(), Failure> {
        let look = Look::at(self.at.path())?;
        let found = match self.kind {
            Kind::Proxies => look.proxies()?,
            Kind::Providerhealths => look.health()?,
        };
        let is_it = |object: &&Value| {
            let within =
                self.kind != Kind::Proxies || text_at(object, "/metadata/namespace") == self.namespace;
            within && name_of(object) == self.name
        };
        let Some(object) = found.iter().find(is_it) else {
            let which = format!("{}: there is no {} of {:?}", self.at.path().display(), self.name, self.kind);
            return Err(Failure::Found(format!("{which}; see: epo get --dir {}", self.at.path().display())));
        };
        let events = look.events(text_at(object, "/metadata/uid"))?;
        output::print(text(object, &events, Timestamp::now())?.as_bytes())?;
        for note in look.notes() {
            output::tell(&note);
        }
        Ok(())
    }
}

fn text(object: &Value, events: &[Value], now: Timestamp) -> Result<String, Failure> {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{:<12}{value}\n", format!("{name}:")));
        }
    };
    line("Name", name_of(object));
    line("Namespace", text_at(object, "/metadata/namespace"));
    line("Kind", text_at(object, "/kind"));
    line("Age", &age(text_at(object, "/metadata/creationTimestamp"), now));
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        line("Deleting", &format!("for {}", age(text_at(object, "/metadata/deletionTimestamp"), now)));
    }
    let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata: Value = metadata
        .filter(|(field, _)| !UNTOLD.contains(&field.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for (name, part) in
        [("Metadata", Some(&metadata)), ("Spec", object.get("spec")), ("Status", object.get("status"))]
    {
        let Some(part) = part.filter(|part| part.as_object().is_some_and(|fields| !fields.is_empty())) else {
            continue;
        };
        text.push_str(&format!("{name}:\n"));
        for line in output::yaml(part)?.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    if events.is_empty() {
        text.push_str("Events:     none\n");
        return Ok(text);
    }
    text.push_str("Events:\n");
    let row = |event: &Value| {
        let last = match text_at(event, "/series/lastObservedTime") {
            "" => text_at(event, "/eventTime"),
            last => last,
        };
        let count = event.pointer("/series/count").and_then(Value::as_u64);
        let age = age(last, now);
        let age = count.map_or_else(|| age.clone(), |count| format!("{age} (x{count})"));
        let cells = ["/type", "/reason", "/note"].map(|path| text_at(event, path).to_owned());
        let [kind, reason, note] = cells;
        vec![format!("  {kind}"), reason, age, note]
    };
    let head = ["  TYPE", "REASON", "AGE", "MESSAGE"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(events.iter().map(row)).collect();
    text.push_str(&super::columns::table(&rows));
    Ok(text)
}
