//! Who may do what: RBAC's objects, and what a test gives or takes beside them.

use std::collections::BTreeMap;

use egress_runtime::capability::{KubernetesFailureKind, Resource};
use serde_json::{Value, json};

use super::{
    json::{at, enter, list, text},
    requests::Caller,
    state::State,
    status::{Answer, status, unsent},
    store::Key,
};

/// What a user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything but this.
    AllBut(Vec<Right>),
    /// This, and what RBAC's objects in the cluster give.
    Only(Vec<Right>),
}

/// One right. An empty text and `*` stand for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Right {
    /// `create`.
    pub verb: String,
    /// `pods`, `deployments.apps`.
    pub resource: String,
    /// Where.
    pub namespace: String,
}

impl Right {
    /// To do something with a resource, in all namespaces.
    pub fn to(verb: &str, resource: &str) -> Self {
        Self { verb: verb.to_owned(), resource: resource.to_owned(), namespace: String::new() }
    }

    /// The same in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = namespace.to_owned();
        self
    }

    fn covers(&self, ask: &Ask) -> bool {
        let fits = |own: &str, asked: &str| matches!(own, "" | "*") || own == asked;
        fits(&self.verb, &ask.verb)
            && fits(&self.resource, &ask.qualified())
            && fits(&self.namespace, &ask.namespace)
    }
}

/// Rights by users; who is not named here has all of them, unless he is a ServiceAccount of the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Granted(BTreeMap<String, Rights>);

impl Granted {
    pub(super) fn set(&mut self, user: &str, rights: Rights) {
        self.0.insert(user.to_owned(), rights);
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    verb: String,
    group: String,
    /// With its subresource, where it is one.
    resource: String,
    namespace: String,
    name: String,
}

impl Ask {
    pub(super) fn new(verb: &str, resource: &Resource, namespace: &str, name: Option<&str>) -> Self {
        let group = resource.api_version.split_once('/').map_or("", |(group, _)| group);
        // A namespace is asked about within itself.
        let namespace = match (resource.plural.as_str(), name) {
            ("namespaces", Some(name)) if group.is_empty() => name,
            _ => namespace,
        };
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.plural.clone(),
            namespace: namespace.to_owned(),
            name: name.unwrap_or_default().to_owned(),
        }
    }

    fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }
}

impl State {
    /// What the entry's grant does not list is refused before anything is sent.
    pub(super) fn check_grant(
        &self,
        caller: &Caller,
        verb: &str,
        resource: &Resource,
        namespace: &str,
    ) -> Answer<()> {
        let ask = Ask::new(verb, resource, namespace, None);
        if !self.not_granted.iter().any(|right| right.covers(&ask)) {
            return Ok(());
        }
        let entry = caller.manager.rsplit('.').next().unwrap_or_default();
        let group = if ask.group.is_empty() { String::new() } else { format!(" of group {}", ask.group) };
        let place = match namespace {
            "" => "without a namespace (which needs namespaces: [\"*\"])".to_owned(),
            namespace => format!("in namespace {namespace}"),
        };
        let message = format!(
            "entry {entry} may not {verb} {}{group} {place}: no rule of its grant lists that; add one to the cluster's \
             rules under grants.kubernetes.clusters",
            resource.plural
        );
        Err(unsent(KubernetesFailureKind::Denied, message))
    }

    /// Or the refusal.
    pub(super) fn authorize(&self, user: &str, ask: &Ask) -> Answer<()> {
        if self.is_allowed(user, ask) {
            return Ok(());
        }
        let Ask { verb, group, resource, namespace, name } = ask;
        let plural = resource.split('/').next().unwrap_or_default();
        let qualified = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let what = if name.is_empty() { qualified } else { format!("{qualified} \"{name}\"") };
        let scope = match namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let message = format!(
            "{what} is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        );
        let mut details = json!({ "kind": plural });
        for (key, value) in [("name", name), ("group", group)] {
            if !value.is_empty() {
                enter(&mut details).insert(key.to_owned(), value.clone().into());
            }
        }
        Err(status(403, "Forbidden", message, details))
    }

    pub(super) fn is_allowed(&self, user: &str, ask: &Ask) -> bool {
        match self.granted.0.get(user) {
            Some(Rights::AllBut(not)) => !not.iter().any(|right| right.covers(ask)),
            Some(Rights::Only(rights)) => {
                rights.iter().any(|right| right.covers(ask)) || self.is_bound(user, ask)
            }
            None => !self.is_account(user) || self.is_bound(user, ask),
        }
    }

    /// Whether a user is a ServiceAccount that exists here.
    fn is_account(&self, user: &str) -> bool {
        let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        account.is_some_and(|(namespace, name)| {
            self.store.get(&Key::new("serviceaccounts", namespace, name)).is_some()
        })
    }

    fn is_bound(&self, user: &str, ask: &Ask) -> bool {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let rules = |binding: &Value, namespace: &str| {
            let (kind, name) = (text(binding, &["roleRef", "kind"]), text(binding, &["roleRef", "name"]));
            let key = match kind {
                "Role" => Key::new(&format!("roles.{GROUP}"), namespace, name),
                _ => Key::new(&format!("clusterroles.{GROUP}"), "", name),
            };
            self.store.get(&key).map(|role| list(role, &["rules"]).to_vec()).unwrap_or_default()
        };
        let allows = |binding: &Value, namespace: &str| {
            is_subject(binding, namespace, user)
                && rules(binding, namespace).iter().any(|rule| covers(rule, ask))
        };
        let everywhere = format!("clusterrolebindings.{GROUP}");
        let here = format!("rolebindings.{GROUP}");
        self.store.of(&everywhere, "").any(|(_, binding)| allows(binding, ""))
            || (!ask.namespace.is_empty()
                && self.store.of(&here, &ask.namespace).any(|(key, binding)| allows(binding, &key.namespace)))
    }
}

fn is_subject(binding: &Value, namespace: &str, user: &str) -> bool {
    list(binding, &["subjects"]).iter().any(|subject| {
        let (kind, name) = (text(subject, &["kind"]), text(subject, &["name"]));
        match kind {
            "ServiceAccount" => {
                let of = text(subject, &["namespace"]);
                let of = if of.is_empty() { namespace } else { of };
                user == format!("system:serviceaccount:{of}:{name}")
            }
            "Group" => user.starts_with("system:serviceaccount:") && name == "system:serviceaccounts",
            _ => name == user,
        }
    })
}

fn covers(rule: &Value, ask: &Ask) -> bool {
    let lists = |field: &str, wanted: &str| {
        list(rule, &[field]).iter().filter_map(Value::as_str).any(|own| own == "*" || own == wanted)
    };
    let names = list(rule, &["resourceNames"]);
    let named = at(rule, &["resourceNames"]).is_none()
        || (!ask.name.is_empty() && names.iter().any(|name| *name == ask.name));
    lists("verbs", &ask.verb) && lists("apiGroups", &ask.group) && lists("resources", &ask.resource) && named
}
