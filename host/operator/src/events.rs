//! Events: what people should see once.
//!
//! An Event's name is made of what it says, so the same words about the same object are one Event that is
//! counted, also after a restart. kube's own recorder merges by reason alone: a second refusal would be told
//! in the words of the first one.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use sha2::{Digest, Sha256};
use tracing::debug;

use crate::{
    cluster::{CallError, call},
    core::store::Notice,
};

const CONTROLLER: &str = "egressproxies.dev/operator";
/// The API server takes no longer ones.
const LONGEST_NOTE: usize = 1024;
/// A name of an object may have 253 characters; a dot and 16 more follow it.
const LONGEST_PREFIX: usize = 230;

/// Publishes Events.
#[derive(Clone)]
pub struct Events {
    client: Client,
    /// Which process tells it.
    instance: String,
}

impl Events {
    /// `instance` is the Pod's name, for people.
    pub fn new(client: Client, instance: impl Into<String>) -> Self {
        let instance: String = instance.into();
        let instance = if instance.is_empty() { "operator".to_owned() } else { instance };
        Self { client, instance: cut(&instance, 128).to_owned() }
    }

    /// Never fails its caller: an Event that can't be told is logged.
    pub async fn publish(&self, regarding: &ObjectReference, action: &'static str, notice: &Notice) {
        if let Err(error) = self.try_publish(regarding, action, notice).await {
            debug!(reason = notice.reason, %error, "an Event was not told");
        }
    }

    async fn try_publish(
        &self,
        regarding: &ObjectReference,
        action: &'static str,
        notice: &Notice,
    ) -> Result<(), CallError> {
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let event = self.event(namespace, regarding, action, notice);
        match call(events.create(&PostParams::default(), &event)).await {
            Err(error) if error.is_already_exists() => {
                again(&events, event.metadata.name.as_deref().unwrap_or_default()).await
            }
            other => other.map(drop),
        }
    }

    fn event(&self, namespace: &str, about: &ObjectReference, action: &'static str, said: &Notice) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name(about, said)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(Timestamp::now())),
            type_: Some(if said.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(cut(&said.reason, 128).to_owned()),
            note: Some(cut(&said.message, LONGEST_NOTE).to_owned()),
            action: Some(action.to_owned()),
            regarding: Some(about.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// Said before: it is counted.
async fn again(events: &Api<Event>, name: &str) -> Result<(), CallError> {
    let told = call(events.get(name)).await?;
    let series = EventSeries {
        count: told.series.map_or(2, |series| series.count.saturating_add(1)),
        last_observed_time: MicroTime(Timestamp::now()),
    };
    let patch = Patch::Merge(json!({ "series": series }));
    call(events.patch(name, &PatchParams::default(), &patch)).await.map(drop)
}

fn name(about: &ObjectReference, said: &Notice) -> String {
    let mut hasher = Sha256::new();
    for part in [about.uid.as_deref().unwrap_or_default(), &said.reason, &said.message] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let digest: String = hex::encode(hasher.finalize()).chars().take(16).collect();
    let object = cut(about.name.as_deref().unwrap_or_default(), LONGEST_PREFIX);
    format!("{}.{digest}", object.trim_end_matches(['-', '.']))
}

/// To at most so many bytes, which are at least as many as the characters that the API server counts.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> ObjectReference {
        ObjectReference {
            name: Some("x".repeat(253)),
            namespace: Some("team-a".to_owned()),
            uid: Some("uid".to_owned()),
            ..ObjectReference::default()
        }
    }

    fn said(message: &str) -> Notice {
        Notice { warning: true, reason: "Refused".to_owned(), message: message.to_owned() }
    }

    #[test]
    fn other_words_are_another_event_and_the_same_words_are_not() {
        assert_ne!(name(&about(), &said("one")), name(&about(), &said("two")));
        assert_eq!(name(&about(), &said("one")), name(&about(), &said("one")));
        assert!(name(&about(), &said("one")).len() <= 253);
    }

    #[test]
    fn a_note_is_cut_to_what_the_server_takes_between_characters() {
        let long = "ä".repeat(1000);
        assert_eq!(cut(&long, LONGEST_NOTE).chars().count(), 512);
        assert_eq!(cut("ä", 1), "");
        assert_eq!(cut("short", LONGEST_NOTE), "short");
    }
}
