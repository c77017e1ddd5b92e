//! What a request asks for: its path and query, taken apart.

use http::Uri;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::{kinds::Kind, objects::Key};

/// Which object, or which list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Of what kind.
    pub kind: Kind,
    /// None for all, and where the kind has none.
    pub namespace: Option<String>,
    /// None for a list.
    pub name: Option<String>,
    /// Whether its status is meant, and nothing else of it.
    pub status: bool,
}

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7396.
    Merge,
    /// What its manager wants.
    Apply,
}

impl Patch {
    /// By the content's type.
    pub fn of(content_type: &str) -> Self {
        if content_type.contains("apply-patch") { Self::Apply } else { Self::Merge }
    }
}

/// Beside the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Whether changes are to be told.
    pub watch: bool,
    /// From which version on.
    pub from: Option<u64>,
    /// For how many seconds.
    pub seconds: Option<u64>,
    /// Pairs that an object's labels must have.
    labels: Vec<(String, String)>,
    /// The only name that is asked for.
    only: Option<String>,
}

impl Asked {
    /// None where a directory has nothing of the kind.
    pub fn read(uri: &Uri) -> Option<(Self, Query)> {
        let path = uri.path();
        let (kind, namespace, rest) = Kind::all().iter().find_map(|named| {
            let rest: Vec<&str> = path.strip_prefix(named.prefix)?.strip_prefix('/')?.split('/').collect();
            match rest.as_slice() {
                ["namespaces", namespace, plural, rest @ ..]
                    if named.namespaced && *plural == named.plural =>
                {
                    Some((named.of, Some((*namespace).to_owned()), rest.to_vec()))
                }
                [plural, rest @ ..] if *plural == named.plural && (rest.len() < 2 || !named.namespaced) => {
                    Some((named.of, None, rest.to_vec()))
                }
                _ => None,
            }
        })?;
        let (name, status) = match rest.as_slice() {
            [] => (None, false),
            [name] => (Some((*name).to_owned()), false),
            [name, "status"] => (Some((*name).to_owned()), true),
            _ => return None,
        };
        Some((Self { kind, namespace, name, status }, Query::read(uri.query().unwrap_or_default())))
    }

    /// None for a list.
    pub fn key(&self) -> Option<Key> {
        Some(Key::new(self.kind, self.namespace.as_deref().unwrap_or_default(), self.name.as_deref()?))
    }
}

impl Query {
    fn read(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&') {
            let Some((key, value)) = pair.split_once('=') else { continue };
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8_lossy().into_owned();
            match key {
                "watch" => query.watch = ["1", "true"].contains(&value.as_str()),
                "resourceVersion" => query.from = value.parse().ok(),
                "timeoutSeconds" => query.seconds = value.parse().ok(),
                "labelSelector" => {
                    let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
                    query.labels = pairs.map(|(label, value)| (label.to_owned(), value.to_owned())).collect();
                }
                "fieldSelector" => {
                    query.only = value.strip_prefix("metadata.name=").map(str::to_owned);
                }
                _ => {}
            }
        }
        query
    }

    /// Whether an object is asked for.
    pub fn takes(&self, key: &Key, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let bears = |(label, value): &(String, String)| {
            labels.and_then(|labels| labels.get(label)).and_then(Value::as_str) == Some(value)
        };
        self.only.as_ref().is_none_or(|only| key.name == *only) && self.labels.iter().all(bears)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(uri: &str) -> Option<(Asked, Query)> {
        Asked::read(&uri.parse().unwrap())
    }

    #[test]
    fn paths_name_objects_lists_and_statuses() {
        let of =
            |uri: &str| asked(uri).map(|(asked, _)| (asked.kind, asked.namespace, asked.name, asked.status));
        let some = |text: &str| Some(text.to_owned());
        for (uri, is) in [
            ("/apis/egressproxies.dev/v1alpha1/proxies", (Kind::Proxy, None, None, false)),
            ("/apis/egressproxies.dev/v1alpha1/namespaces/a/proxies", (Kind::Proxy, some("a"), None, false)),
            (
                "/apis/egressproxies.dev/v1alpha1/namespaces/a/proxies/web/status",
                (Kind::Proxy, some("a"), some("web"), true),
            ),
            (
                "/apis/egressproxies.dev/v1alpha1/providerhealths/kvm2/status",
                (Kind::ProviderHealth, None, some("kvm2"), true),
            ),
            ("/api/v1/namespaces/kube-system", (Kind::Namespace, None, some("kube-system"), false)),
            ("/api/v1/namespaces/a/secrets/b", (Kind::Secret, some("a"), some("b"), false)),
        ] {
            assert_eq!(of(uri), Some(is), "{uri}");
        }
        for uri in
            ["/", "/api/v1/pods", "/api/v1/namespaces/a/secrets/b/c/d", "/apis/coordination.k8s.io/v1/leases"]
        {
            assert_eq!(of(uri), None, "{uri}");
        }
    }

    #[test]
    fn selectors_choose_by_labels_and_by_name() {
        let uri = "/api/v1/configmaps?&labelSelector=example.org%2Fentry%3Da%2Cby%3Dme&fieldSelector=metadata.name%3Dx";
        let (_, query) = asked(uri).unwrap();
        let key = |name: &str| Key::new(Kind::ConfigMap, "a", name);
        let object = json!({ "metadata": { "labels": { "example.org/entry": "a", "by": "me" } } });
        assert!(query.takes(&key("x"), &object));
        assert!(!query.takes(&key("y"), &object));
        assert!(!query.takes(&key("x"), &json!({ "metadata": { "labels": { "by": "me" } } })));
    }
}
