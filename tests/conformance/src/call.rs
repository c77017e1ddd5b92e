//! One call of a provider, and what it answered: for journals, for people, for files.

use std::time::Duration;

use egress_contract::{
    Created, Deleted, Error, Health, Instance, InstanceName, Page, Pending, Provider, Spec, State, Target,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A call with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// One step towards a running instance.
    Create {
        /// Whom it is about.
        target: Target,
        /// What is asked for.
        spec: Spec,
        /// In no text and no file.
        user_data: Vec<u8>,
    },
    /// What the backend shows.
    Get(Target),
    /// One step towards nothing.
    Delete(Target),
    /// What is owned at a place.
    List {
        /// Which.
        place: String,
        /// Where to go on.
        cursor: Option<String>,
    },
    /// Whether a place could serve a create.
    Check {
        /// Which.
        place: String,
    },
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Of create.
    Created(Created),
    /// Of get.
    Instance(Box<Instance>),
    /// Of delete.
    Deleted(Deleted),
    /// Of list.
    Page(Page),
    /// Of check.
    Health(Health),
    /// Of all of them.
    Failed(Box<Error>),
}

impl Call {
    /// The export's name.
    pub fn export(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Get(_) => "get",
            Self::Delete(_) => "delete",
            Self::List { .. } => "list",
            Self::Check { .. } => "check",
        }
    }

    /// The target's name, or the place.
    pub fn subject(&self) -> &str {
        match self {
            Self::Create { target, .. } | Self::Get(target) | Self::Delete(target) => target.name.as_str(),
            Self::List { place, .. } | Self::Check { place } => place,
        }
    }

    /// Target with id and progress, or place: for a journal.
    pub fn about(&self) -> String {
        match self {
            Self::Create { target, .. } | Self::Get(target) | Self::Delete(target) => {
                let mut about = target.name.to_string();
                for (what, value) in [("id", &target.id), ("progress", &target.progress)] {
                    if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                        about = format!("{about} {what}={value}");
                    }
                }
                about
            }
            Self::List { place, cursor: None } | Self::Check { place } => place.clone(),
            Self::List { place, cursor: Some(_) } => format!("{place} (next page)"),
        }
    }

    /// Makes it.
    pub async fn ask(&self, provider: &dyn Provider) -> Answer {
        let asked = async {
            Ok(match self {
                Self::Create { target, spec, user_data } => {
                    Answer::Created(provider.create(target, spec, user_data).await?)
                }
                Self::Get(target) => Answer::Instance(Box::new(provider.get(target).await?)),
                Self::Delete(target) => Answer::Deleted(provider.delete(target).await?),
                Self::List { place, cursor } => Answer::Page(provider.list(place, cursor.as_deref()).await?),
                Self::Check { place } => Answer::Health(provider.check(place).await?),
            })
        };
        asked.await.unwrap_or_else(|error: Error| Answer::Failed(Box::new(error)))
    }
}

impl Answer {
    /// Whether it is a failure; a place that is not ready is none.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// When to call again, if the call is to be made again.
    pub fn pending(&self) -> Option<&Pending> {
        match self {
            Self::Created(Created::Pending(step)) | Self::Deleted(Deleted::Pending(step)) => Some(step),
            _ => None,
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        match self {
            Self::Created(Created::Done(id)) => format!("done, id {id}"),
            Self::Created(Created::Pending(step)) | Self::Deleted(Deleted::Pending(step)) => {
                format!("pending {} ms: {}", step.poll.as_millis(), step.message)
            }
            Self::Deleted(Deleted::Done) => "done".to_owned(),
            Self::Instance(instance) => {
                let ips: Vec<&str> = instance.addresses.iter().map(|address| address.ip.as_str()).collect();
                let parts = [state(instance.state), &ips.join(" "), &instance.reason];
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
            }
            Self::Page(page) => {
                let unread = match page.unread.as_slice() {
                    [] => String::new(),
                    unread => format!(", unread: {}", unread.join("; ")),
                };
                let more = if page.next.is_some() { ", and more" } else { "" };
                format!("{} items{unread}{more}", page.items.len())
            }
            Self::Health(health) => {
                let ready = if health.ready { "ready" } else { "not ready" };
                format!("{ready}, {}: {}", health.reason, health.message)
            }
            Self::Failed(error) => format!("{} {}: {}", error.class.as_str(), error.reason, error.message),
        }
    }

    /// Under `answer`, or under `failure`.
    pub fn json(&self) -> Value {
        match self {
            Self::Created(Created::Done(id)) => json!({ "answer": { "outcome": "done", "id": id } }),
            Self::Deleted(Deleted::Done) => json!({ "answer": { "outcome": "done" } }),
            Self::Created(Created::Pending(step)) | Self::Deleted(Deleted::Pending(step)) => {
                let Pending { id, progress, poll, message } = step;
                json!({ "answer": plain(&[
                    ("outcome", Some("pending".into())), ("id", id.clone().map(Value::from)),
                    ("progress", Some(progress.as_str().into())), ("pollMs", Some(ms(*poll))),
                    ("message", Some(message.as_str().into())),
                ]) })
            }
            Self::Instance(instance) => {
                let Instance { id, state: of, addresses, mark, created_ms, reason, message, details } =
                    &**instance;
                json!({ "answer": {
                    "id": id, "state": state(*of), "addresses": addresses, "mark": mark, "createdMs": created_ms,
                    "reason": reason, "message": message, "details": details,
                } })
            }
            Self::Page(page) => {
                let item = |item: &egress_contract::Item| {
                    plain(&[
                        ("id", Some(item.id.as_str().into())),
                        ("name", Some(item.name.as_str().into())),
                        ("leftover", item.leftover.clone().map(Value::from)),
                        ("mark", Some(json!(item.mark))),
                        ("createdMs", item.created_ms.map(Value::from)),
                    ])
                };
                let items: Vec<Value> = page.items.iter().map(item).collect();
                json!({ "answer": plain(&[
                    ("items", Some(items.into())), ("unread", Some(json!(page.unread))),
                    ("next", page.next.clone().map(Value::from)),
                ]) })
            }
            Self::Health(Health { ready, reason, message, details }) => {
                json!({ "answer": { "ready": ready, "reason": reason, "message": message, "details": details } })
            }
            Self::Failed(error) => {
                let Error { class, reason, message, retry_after, details, progress } = &**error;
                json!({ "failure": plain(&[
                    ("class", Some(class.as_str().into())), ("reason", Some(reason.as_str().into())),
                    ("message", Some(message.as_str().into())), ("retryMs", retry_after.map(ms)),
                    ("details", Some(details.clone())), ("progress", progress.as_deref().map(Value::from)),
                ]) })
            }
        }
    }
}

/// As the contract spells it.
pub fn state(state: State) -> &'static str {
    match state {
        State::Provisioning => "provisioning",
        State::Running => "running",
        State::Stopped => "stopped",
        State::Deleting => "deleting",
    }
}

fn ms(time: Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

/// Without what there is none of.
fn plain(fields: &[(&str, Option<Value>)]) -> Value {
    let there = fields.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
    Value::Object(there.collect::<Map<_, _>>())
}

/// A call as it stands in a file. User-data does not: only how much there was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenCall {
    /// The export.
    pub export: String,
    /// For create, get and delete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<WrittenTarget>,
    /// For create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Spec>,
    /// For create.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub user_data_bytes: usize,
    /// For list and check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// For list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

fn is_zero(bytes: &usize) -> bool {
    *bytes == 0
}

/// A target as it stands in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenTarget {
    /// The instance's.
    pub name: String,
    /// The Proxy's.
    pub uid: String,
    /// The Proxy's.
    pub incarnation: u32,
    /// The Proxy's.
    pub namespace: String,
    /// The Proxy's name.
    pub proxy: String,
    /// The newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What the last answer left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

impl From<&Target> for WrittenTarget {
    fn from(target: &Target) -> Self {
        Self {
            name: target.name.to_string(),
            uid: target.uid.clone(),
            incarnation: target.incarnation,
            namespace: target.namespace.clone(),
            proxy: target.proxy.clone(),
            id: target.id.clone(),
            progress: target.progress.clone(),
        }
    }
}

impl From<&Call> for WrittenCall {
    fn from(call: &Call) -> Self {
        let mut written = Self {
            export: call.export().to_owned(),
            target: None,
            spec: None,
            user_data_bytes: 0,
            place: None,
            cursor: None,
        };
        match call {
            Call::Create { target, spec, user_data } => {
                written.target = Some(target.into());
                written.spec = Some(spec.clone());
                written.user_data_bytes = user_data.len();
            }
            Call::Get(target) | Call::Delete(target) => written.target = Some(target.into()),
            Call::List { place, cursor } => {
                written.place = Some(place.clone());
                written.cursor.clone_from(cursor);
            }
            Call::Check { place } => written.place = Some(place.clone()),
        }
        written
    }
}

/// What is no call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{export}: {why}")]
pub struct InvalidCall {
    export: String,
    why: String,
}

impl WrittenCall {
    /// The call, with this user-data.
    pub fn call(&self, user_data: &[u8]) -> Result<Call, InvalidCall> {
        match self.export.as_str() {
            "create" => Ok(Call::Create {
                target: self.target()?,
                spec: self.spec.clone().ok_or_else(|| self.lacks("spec"))?,
                user_data: user_data.to_vec(),
            }),
            "get" => Ok(Call::Get(self.target()?)),
            "delete" => Ok(Call::Delete(self.target()?)),
            "list" => Ok(Call::List { place: self.place()?, cursor: self.cursor.clone() }),
            "check" => Ok(Call::Check { place: self.place()? }),
            _ => Err(self.invalid("is none of create, get, delete, list and check".to_owned())),
        }
    }

    fn invalid(&self, why: String) -> InvalidCall {
        InvalidCall { export: self.export.clone(), why }
    }

    fn lacks(&self, what: &str) -> InvalidCall {
        self.invalid(format!("{what} is missing"))
    }

    fn place(&self) -> Result<String, InvalidCall> {
        self.place.clone().ok_or_else(|| self.lacks("place"))
    }

    fn target(&self) -> Result<Target, InvalidCall> {
        let written = self.target.as_ref().ok_or_else(|| self.lacks("target"))?;
        let name = InstanceName::read_back(&written.name)
            .map_err(|error| self.invalid(format!("target.name: {error}")))?;
        Ok(Target {
            name,
            uid: written.uid.clone(),
            incarnation: written.incarnation,
            namespace: written.namespace.clone(),
            proxy: written.proxy.clone(),
            id: written.id.clone(),
            progress: written.progress.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use egress_contract::Installation;

    use super::*;

    fn target() -> Target {
        Target {
            name: Installation::new("one").instance_name("web", "uid", 3),
            uid: "uid".to_owned(),
            incarnation: 3,
            namespace: "team-a".to_owned(),
            proxy: "web".to_owned(),
            id: Some("home/team-a/x".to_owned()),
            progress: None,
        }
    }

    #[test]
    fn a_call_comes_back_from_its_file_and_its_user_data_never_goes_there() {
        let create = Call::Create { target: target(), spec: Spec::default(), user_data: b"secret".to_vec() };
        let calls = [
            create,
            Call::Get(target()),
            Call::Delete(target()),
            Call::List { place: "home".to_owned(), cursor: Some("next".to_owned()) },
            Call::Check { place: "home".to_owned() },
        ];
        for call in calls {
            let text = serde_json::to_string(&WrittenCall::from(&call)).unwrap();
            assert!(!text.contains("secret"), "{text}");
            let written: WrittenCall = serde_json::from_str(&text).unwrap();
            assert_eq!(written.call(b"secret").unwrap(), call);
        }
    }

    #[test]
    fn what_is_no_call_is_told_by_what_it_lacks() {
        let lacking = |text: &str| {
            serde_json::from_str::<WrittenCall>(text).unwrap().call(&[]).unwrap_err().to_string()
        };
        assert_eq!(lacking("{\"export\":\"get\"}"), "get: target is missing");
        assert_eq!(lacking("{\"export\":\"list\"}"), "list: place is missing");
        assert!(lacking("{\"export\":\"launch\"}").contains("none of create"));
    }
}
