//! Whether a grant reaches a request, decided before anything else.
//!
//! A [`Permit`] can only be had from the grant's rules, and a request only be made from a permit: what was
//! not asked can't be sent.

use egress_runtime::capability::{KubernetesFailure, PatchKind, Resource};
use serde_json::Value;

use super::{
    failure,
    grant::{ANY, Rule},
    names,
};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    List,
    Create,
    Patch,
    Delete,
}

impl Verb {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// A request's object, well formed, and reached by the grant.
#[derive(Debug)]
pub(super) struct Permit {
    group: String,
    version: String,
    plural: String,
    subresource: Option<String>,
    namespace: String,
    name: Option<String>,
}

/// Where a grant stands, for messages.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) entry: &'a str,
    pub(super) cluster: &'a str,
    pub(super) rules: &'a [Rule],
}

impl Permit {
    /// `namespace` is empty for all, and for what has none. `verbs` are all needed.
    pub(super) fn new(
        scope: Scope<'_>,
        verbs: &[Verb],
        resource: &Resource,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<Self, KubernetesFailure> {
        let permit = Self::parse(resource, namespace, name)?;
        for verb in verbs {
            permit.check(scope, verb.as_str())?;
        }
        Ok(permit)
    }

    /// For a create. A subresource is made of the object that `metadata.name` names.
    pub(super) fn create(
        scope: Scope<'_>,
        resource: &Resource,
        namespace: &str,
        body: &Value,
    ) -> Result<Self, KubernetesFailure> {
        let name = match resource.plural.contains('/') {
            true => Some(body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()),
            false => None,
        };
        Self::new(scope, &[Verb::Create], resource, namespace, name)
    }

    /// For a patch. An apply makes what is not there.
    pub(super) fn patch(
        scope: Scope<'_>,
        resource: &Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
    ) -> Result<Self, KubernetesFailure> {
        let verbs: &[Verb] = match kind {
            PatchKind::Merge | PatchKind::Json => &[Verb::Patch],
            PatchKind::Apply => &[Verb::Patch, Verb::Create],
        };
        Self::new(scope, verbs, resource, namespace, Some(name))
    }

    /// The same for a verb that is only asked about.
    pub(super) fn asked(
        scope: Scope<'_>,
        verb: &str,
        resource: &Resource,
        namespace: &str,
    ) -> Result<Self, KubernetesFailure> {
        let permit = Self::parse(resource, namespace, None)?;
        permit.check(scope, verb)?;
        Ok(permit)
    }

    fn parse(resource: &Resource, namespace: &str, name: Option<&str>) -> Result<Self, KubernetesFailure> {
        let (group, version) = resource.api_version.split_once('/').unwrap_or(("", &resource.api_version));
        let group_fits =
            !resource.api_version.starts_with('/') && (group.is_empty() || names::is_subdomain(group));
        if !group_fits || !names::is_version(version) {
            return Err(failure::invalid(format!(
                "{:?} is not an API version, such as v1 or apps/v1",
                resource.api_version
            )));
        }
        if !names::is_plural(&resource.plural) {
            let message = "is not a resource's plural name, such as pods or pods/status";
            return Err(failure::invalid(format!("{:?} {message}", resource.plural)));
        }
        if !namespace.is_empty() && !names::is_label(namespace) {
            return Err(failure::invalid(format!("{namespace:?} is not a namespace's name")));
        }
        if let Some(name) = name.filter(|name| !names::is_object(name)) {
            return Err(failure::invalid(format!("{name:?} is not an object's name")));
        }
        let (plural, subresource) = match resource.plural.split_once('/') {
            Some((plural, subresource)) => (plural, Some(subresource.to_owned())),
            None => (resource.plural.as_str(), None),
        };
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            subresource,
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
        })
    }

    fn check(&self, scope: Scope<'_>, verb: &str) -> Result<(), KubernetesFailure> {
        if scope.rules.iter().any(|rule| self.is_reached_by(rule, verb)) {
            return Ok(());
        }
        let resource = self.resource();
        let group = if self.group.is_empty() { String::new() } else { format!(" of group {}", self.group) };
        let place = if self.namespace.is_empty() {
            "without a namespace (which needs namespaces: [\"*\"])".to_owned()
        } else {
            format!("in namespace {}", self.namespace)
        };
        let Scope { entry, cluster, .. } = scope;
        Err(failure::denied(format!(
            "entry {entry} may not {verb} {resource}{group} {place} on cluster {cluster}: no rule of its grant \
             lists that; add one under grants.kubernetes.clusters.{cluster}.rules"
        )))
    }

    fn is_reached_by(&self, rule: &Rule, verb: &str) -> bool {
        let lists = |values: &[String], wanted: &str| values.iter().any(|v| v == wanted || v == ANY);
        let resource = match &self.subresource {
            Some(_) => rule.resources.contains(&self.resource()),
            None => lists(&rule.resources, &self.plural),
        };
        let named = rule.resource_names.is_empty()
            || self.name.as_ref().is_some_and(|name| rule.resource_names.contains(name));
        resource
            && named
            && lists(&rule.api_groups, &self.group)
            && lists(&rule.verbs, verb)
            && lists(&rule.namespaces, &self.namespace)
    }

    fn resource(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.plural),
            None => self.plural.clone(),
        }
    }

    /// The path at the API server. The parts were checked, so that none can leave its place.
    pub(super) fn path(&self) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        let mut push = |segment: &str| {
            path.push('/');
            path.extend(percent_encoding::utf8_percent_encode(segment, super::request::UNRESERVED));
        };
        if !self.namespace.is_empty() {
            push("namespaces");
            push(&self.namespace);
        }
        push(&self.plural);
        if let Some(name) = &self.name {
            push(name);
        }
        if let Some(subresource) = &self.subresource {
            push(subresource);
        }
        path
    }

    /// For a SelfSubjectAccessReview.
    pub(super) fn attributes(&self, verb: &str) -> serde_json::Value {
        serde_json::json!({
            "verb": verb,
            "group": self.group,
            "version": self.version,
            "resource": self.plural,
            "subresource": self.subresource.as_deref().unwrap_or_default(),
            "namespace": self.namespace,
        })
    }
}

#[cfg(test)]
mod tests {
    use egress_runtime::capability::KubernetesFailureKind as Kind;

    use super::*;

    fn resource(api_version: &str, plural: &str) -> Resource {
        Resource { api_version: api_version.to_owned(), plural: plural.to_owned() }
    }

    fn rules(text: &str) -> Vec<Rule> {
        serde_json::from_str(text).unwrap()
    }

    fn ask(
        rules: &[Rule],
        verbs: &[Verb],
        plural: &str,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<String, Kind> {
        let scope = Scope { entry: "k", cluster: "c", rules };
        let version = if plural.starts_with("deployments") { "apps/v1" } else { "v1" };
        Permit::new(scope, verbs, &resource(version, plural), namespace, name)
            .map(|permit| permit.path())
            .map_err(|failure| failure.kind)
    }

    const DENIED: Result<String, Kind> = Err(Kind::Denied);

    #[test]
    fn a_grant_reaches_what_it_lists_and_nothing_beside() {
        let rules = rules(r#"[{ "resources": ["pods"], "verbs": ["get", "create"], "namespaces": ["a"] }]"#);
        assert_eq!(
            ask(&rules, &[Verb::Get], "pods", "a", Some("x")),
            Ok("/api/v1/namespaces/a/pods/x".into())
        );
        assert_eq!(ask(&rules, &[Verb::Create], "pods", "a", None), Ok("/api/v1/namespaces/a/pods".into()));
        assert_eq!(ask(&rules, &[Verb::Get], "pods", "b", Some("x")), DENIED);
        assert_eq!(ask(&rules, &[Verb::Get], "pods", "", Some("x")), DENIED);
        assert_eq!(ask(&rules, &[Verb::Get], "secrets", "a", Some("x")), DENIED);
        assert_eq!(ask(&rules, &[Verb::Get], "deployments", "a", Some("x")), DENIED);
        assert_eq!(ask(&rules, &[Verb::Delete], "pods", "a", Some("x")), DENIED);
        assert_eq!(ask(&rules, &[Verb::List], "pods", "a", None), DENIED);
        assert_eq!(ask(&[], &[Verb::Get], "pods", "a", Some("x")), DENIED);
    }

    #[test]
    fn two_rules_never_add_up_to_a_third() {
        let rules = rules(
            r#"[{ "resources": ["pods"], "verbs": ["get"], "namespaces": ["a"] },
                { "resources": ["secrets"], "verbs": ["get"], "namespaces": ["b"] }]"#,
        );
        assert_eq!(ask(&rules, &[Verb::Get], "secrets", "a", Some("x")), DENIED);
        assert_eq!(ask(&rules, &[Verb::Get], "pods", "b", Some("x")), DENIED);
    }

    #[test]
    fn an_apply_needs_both_of_its_verbs() {
        let only_patch = rules(r#"[{ "resources": ["pods"], "verbs": ["patch"], "namespaces": ["a"] }]"#);
        let both = rules(r#"[{ "resources": ["pods"], "verbs": ["patch", "create"], "namespaces": ["a"] }]"#);
        let apply = [Verb::Patch, Verb::Create];
        assert_eq!(ask(&only_patch, &apply, "pods", "a", Some("x")), DENIED);
        assert!(ask(&both, &apply, "pods", "a", Some("x")).is_ok());
    }

    #[test]
    fn everywhere_must_be_written() {
        let all = rules(r#"[{ "resources": ["pods"], "verbs": ["list"], "namespaces": ["*"] }]"#);
        assert_eq!(ask(&all, &[Verb::List], "pods", "", None), Ok("/api/v1/pods".into()));
        assert_eq!(ask(&all, &[Verb::List], "pods", "a", None), Ok("/api/v1/namespaces/a/pods".into()));
        let one = rules(r#"[{ "resources": ["pods"], "verbs": ["list"], "namespaces": ["a"] }]"#);
        assert_eq!(ask(&one, &[Verb::List], "pods", "", None), DENIED);
    }

    #[test]
    fn a_star_does_not_reach_a_subresource() {
        let star =
            rules(r#"[{ "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "apiGroups": ["*"] }]"#);
        assert_eq!(ask(&star, &[Verb::Get], "pods/exec", "a", Some("x")), DENIED);
        assert_eq!(
            ask(&star, &[Verb::Get], "deployments", "a", Some("x")),
            Ok("/apis/apps/v1/namespaces/a/deployments/x".into())
        );
        let named = rules(r#"[{ "resources": ["pods/status"], "verbs": ["get"], "namespaces": ["a"] }]"#);
        assert_eq!(
            ask(&named, &[Verb::Get], "pods/status", "a", Some("x")),
            Ok("/api/v1/namespaces/a/pods/x/status".into())
        );
        assert_eq!(ask(&named, &[Verb::Get], "pods", "a", Some("x")), DENIED);
    }

    #[test]
    fn a_rule_with_names_reaches_these_alone() {
        let named = rules(
            r#"[{ "resources": ["secrets"], "verbs": ["get"], "namespaces": ["a"], "resourceNames": ["pull"] }]"#,
        );
        assert!(ask(&named, &[Verb::Get], "secrets", "a", Some("pull")).is_ok());
        assert_eq!(ask(&named, &[Verb::Get], "secrets", "a", Some("other")), DENIED);
        assert_eq!(ask(&named, &[Verb::Get], "secrets", "a", None), DENIED);
    }

    #[test]
    fn a_path_can_not_be_left() {
        let star =
            rules(r#"[{ "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "apiGroups": ["*"] }]"#);
        for (plural, namespace, name) in [
            ("pods", "a", "../../b/secrets/x"),
            ("pods", "a", ".."),
            ("pods", "..", "x"),
            ("pods", "a/pods", "x"),
            ("../v1/secrets", "a", "x"),
            ("pods", "a", "x?dryRun=All"),
            ("pods", "a", ""),
        ] {
            assert_eq!(
                ask(&star, &[Verb::Get], plural, namespace, Some(name)),
                Err(Kind::Invalid),
                "{plural} {name}"
            );
        }
        let scope = Scope { entry: "k", cluster: "c", rules: &star };
        for version in ["", "/v1", "apps/", "a/b/v1", "../v1", "v1/..", "Apps/v1"] {
            let asked = Permit::new(scope, &[Verb::Get], &resource(version, "pods"), "a", Some("x"));
            assert_eq!(asked.unwrap_err().kind, Kind::Invalid, "{version:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_entry_the_deed_and_where_to_allow_it() {
        let scope = Scope { entry: "kubernetes", cluster: "home", rules: &[] };
        let refused =
            Permit::new(scope, &[Verb::Create], &resource("apps/v1", "deployments"), "a", None).unwrap_err();
        assert_eq!(
            refused.message,
            "entry kubernetes may not create deployments of group apps in namespace a on cluster home: no rule \
             of its grant lists that; add one under grants.kubernetes.clusters.home.rules"
        );
        assert!(!refused.sent);
    }
}
