//! The entry's own firewall rule: who may reach the proxies at their port.
//!
//! A rule bears no labels, so its name says whose it is, and what it says decides its name: a rule is never changed,
//! another config makes another rule. Instances have the rule's name as a network tag and as a label; a rule whose
//! label no instance bears is a leftover. One that is young is none yet: a list may lag behind its first instance.

use provider_sdk::{Clock, Context, Deleted, Error, Pending, Target, http::Method, reason, time};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    Host,
    api::Api,
    config::{Config, Firewall},
    failure::Trouble,
    instance::text,
    list, mark,
    operation::Operation,
    progress::{Progress, What},
    request_id,
};

/// So old is a rule whose instances every list shows.
const YOUNG_MS: u64 = 3_600_000;
const POLL_MS: u32 = 2_000;

/// What the names of an entry's rules begin with.
pub fn prefix(installation: &str, entry: &str) -> String {
    format!("proxy-base-{installation}-{entry}-")
}

/// The rule that lets clients in at this port; none where the config has none.
pub fn name<H: Context>(host: &H, config: &Config, port: u16) -> Option<String> {
    let rule = config.firewall.as_ref()?;
    let mut hash = Sha256::new();
    for word in
        [&config.network, &port.to_string(), &rule.priority.to_string(), &rule.source_ranges.join(",")]
    {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    let hash: String = hash.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}{hash}", prefix(&host.installation(), &host.entry())))
}

/// How the rule is.
pub enum Rule {
    Stands,
    /// It is being made.
    Begun(Box<Operation>),
}

/// Makes the rule unless it stands.
pub fn ensure<H: Host>(
    api: &Api<'_, H>,
    name: &str,
    rule: &Firewall,
    port: u16,
    attempt: u32,
) -> Result<Rule, Error> {
    let wanted = document(api, name, rule, port);
    match api.read(&["global", "firewalls", name], &[]) {
        Ok(found) => same(api, name, &found, &wanted),
        Err(trouble) if trouble.is_not_found() => {
            let id = request_id::derive(&["firewall", name, &attempt.to_string()]);
            match api.begin(Method::Post, &["global", "firewalls"], &id, Some(&wanted)) {
                Ok(operation) => Ok(Rule::Begun(Box::new(operation))),
                // Another instance's create was faster.
                Err(trouble) if trouble.is_already_exists() => Ok(Rule::Stands),
                Err(trouble) => Err(api.asked(format!("make the firewall rule {name}")).error(&trouble)),
            }
        }
        Err(trouble) => Err(api.asked(format!("look up the firewall rule {name}")).error(&trouble)),
    }
}

fn document<H: Host>(api: &Api<'_, H>, name: &str, rule: &Firewall, port: u16) -> Value {
    let config = api.config();
    let network = match config.network.contains('/') {
        true => config.network.clone(),
        false => format!("projects/{}/global/networks/{}", config.project, config.network),
    };
    json!({
        "name": name,
        "description": format!("lets clients in to the egress proxies of {} ({name})", api.host().entry()),
        "network": network,
        "direction": "INGRESS",
        "priority": rule.priority,
        "allowed": [{ "IPProtocol": "tcp", "ports": [port.to_string()] }],
        "sourceRanges": rule.source_ranges,
        "targetTags": [name],
    })
}

/// What a rule lets in is what its name says, unless somebody changed it since.
fn same<H: Host>(api: &Api<'_, H>, name: &str, found: &Value, wanted: &Value) -> Result<Rule, Error> {
    if text(found, "/kind") != "compute#firewall" || text(found, "/name") != name {
        let garbled = Trouble::Garbled("the answer is not that rule".to_owned());
        return Err(api.asked(format!("look up the firewall rule {name}")).error(&garbled));
    }
    let sorted = |value: &Value, key: &str| {
        let all = value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut all: Vec<String> = all.iter().map(Value::to_string).collect();
        all.sort();
        all
    };
    let differs = ["allowed", "sourceRanges", "targetTags"]
        .into_iter()
        .filter(|key| sorted(found, key) != sorted(wanted, key))
        .chain(Some("disabled").filter(|_| found.get("disabled") == Some(&Value::Bool(true))))
        .collect::<Vec<_>>();
    if differs.is_empty() {
        return Ok(Rule::Stands);
    }
    Err(Error::permanent(
        "firewall-changed",
        api.asked(format!("use the firewall rule {name}")).told(
            &format!("somebody changed it ({})", differs.join(", ")),
            "delete it, and it is made anew; what is to be let in stands in the entry's config",
        ),
    ))
}

/// Whether a rule that was listed could be one that nothing uses.
pub fn is_old<H: Clock>(host: &H, rule: &Value) -> bool {
    let made = time::rfc3339_ms(&text(rule, "/creationTimestamp"));
    made.is_some_and(|made| host.now_ms().saturating_sub(made) > YOUNG_MS)
}

/// Whether an instance bears its label; an error where that could not be read to the end.
pub fn is_used<H: Host>(api: &Api<'_, H>, name: &str) -> Result<bool, Error> {
    let filter = format!("(labels.{}={name})", mark::FIREWALL);
    let asked = || api.asked(format!("look whether an instance uses the firewall rule {name}"));
    let mut token = None;
    loop {
        let part =
            list::aggregated(api, &filter, token.as_deref()).map_err(|trouble| asked().error(&trouble))?;
        if !part.instances.is_empty() {
            return Ok(true);
        }
        if let Some(unread) = part.unread.first() {
            return Err(Error::transient(reason::BACKEND, asked().told(unread, "it stays meanwhile")));
        }
        match part.next {
            Some(next) => token = Some(next),
            None => return Ok(false),
        }
    }
}

/// One that the collector hands back: it goes if nothing uses it.
pub fn delete<H: Host>(api: &Api<'_, H>, target: &Target, name: &str) -> Result<Deleted, Error> {
    let host = api.host();
    if name != target.name || !name.starts_with(&prefix(&host.installation(), &host.entry())) {
        return Err(Error::permanent(
            reason::FOREIGN,
            format!(
                "project {}: {name} is not the firewall rule {} of this installation and entry",
                api.config().project,
                target.name
            ),
        ));
    }
    let asked = || api.asked(format!("delete the firewall rule {name}"));
    let progress = Progress::read(target.progress.as_deref());
    if let Some(running) = progress.running.as_ref().filter(|running| running.what == What::Delete)
        && let Some(operation) = api.global_operation(&running.operation)?
    {
        match operation.failed {
            _ if !operation.done => return Ok(pending(&progress, name)),
            Some(failed) if !failed.is_not_found() => {
                return Err(Error { progress: Some(progress.anew().write()), ..failed.error(&asked()) });
            }
            _ => return Ok(Deleted::Done),
        }
    }
    let found = match api.read(&["global", "firewalls", name], &[]) {
        Ok(found) => found,
        Err(trouble) if trouble.is_not_found() => return Ok(Deleted::Done),
        Err(trouble) => return Err(asked().error(&trouble)),
    };
    if is_used(api, name)? {
        return Err(Error::transient(reason::BUSY, asked().told("an instance uses it", "it stays")));
    }
    let id =
        request_id::derive(&["delete-firewall", name, &text(&found, "/id"), &progress.attempt.to_string()]);
    match api.begin(Method::Delete, &["global", "firewalls", name], &id, None) {
        Ok(operation) => Ok(pending(&progress.running(What::Delete, &operation.name), name)),
        Err(trouble) if trouble.is_not_found() => Ok(Deleted::Done),
        Err(trouble) => Err(asked().error(&trouble)),
    }
}

fn pending(progress: &Progress, name: &str) -> Deleted {
    Deleted::Pending(Pending {
        id: None,
        progress: progress.write(),
        poll_ms: POLL_MS,
        message: format!("deletes the firewall rule {name}"),
    })
}
