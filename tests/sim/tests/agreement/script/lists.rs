//! Selectors and pages.

use serde_json::json;

use crate::step::{Call, List, Step, create, delete, list};

const SERVICES: &[(&str, &str)] = &[
    ("labels: equal", "n=a"),
    ("labels: equal, doubled", "n==a"),
    ("labels: unequal", "n!=a,set"),
    ("labels: one of", "n in (a,b)"),
    ("labels: none of", "n notin (a,b),set"),
    ("labels: present", "n"),
    ("labels: absent", "!n,set"),
    ("labels: absent, found", "!z,set"),
    ("labels: greater", "v>3"),
    ("labels: less", "v<3"),
    ("labels: an empty value", "n="),
    ("labels: one of nothing", "n in ()"),
    ("labels: an empty value among others", "n in (,a)"),
    ("labels: blanks", " n = a , set"),
    ("labels: two that exclude each other", "n=a,n=b"),
    ("labels: a key called in", "in in (in)"),
    ("labels: a key with a prefix", "example.com/k=x"),
];
const REFUSED: &[(&str, &str)] = &[
    ("labels refused: no key", "=a"),
    ("labels refused: no end", "n in (a"),
    ("labels refused: two words", "a b"),
    ("labels refused: a comma at the end", "n=a,"),
    ("labels refused: nothing but a comma", ","),
    ("labels refused: two values", "n=a b"),
    ("labels refused: a sign behind", "n=a!"),
    ("labels refused: no number", "v<x"),
    ("labels refused: a negative number", "v>-3"),
    ("labels refused: three signs", "n==="),
    ("labels refused: absent and equal", "!n=a"),
    ("labels refused: nothing absent", "!"),
    ("labels refused: no brackets", "n in a"),
    ("labels refused: no comma", "n in (a b)"),
    ("labels refused: a bad value", "n=a/b"),
    ("labels refused: a bad key", "a/b/c=d"),
    ("labels refused: a bad end of a key", "n-=a"),
    ("labels refused: a long value", "n=vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"),
    ("labels refused: a long key", "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn=a"),
];
const FIELDS: &[(&str, &str)] = &[
    ("fields: the name", "metadata.name=s-a"),
    ("fields: any other name", "metadata.name!=s-a,type=Opaque"),
    ("fields: the name, doubled", "metadata.name==s-a"),
    ("fields: a type", "type=other"),
    ("fields: a namespace", "metadata.namespace=elsewhere"),
    ("fields: two that exclude each other", "metadata.name=s-a,metadata.name=s-b"),
    ("fields: a comma at the end", "metadata.name=s-a,"),
    ("fields: an escaped comma", "type=x\\,y"),
    ("fields refused: unknown", "foo=bar"),
    ("fields refused: no sign", "metadata.name"),
    ("fields refused: one of", "metadata.name in (a)"),
    ("fields refused: two signs", "a=b=c"),
];
const OF_PODS: &[(&str, &str)] = &[
    ("Pods by phase", "status.phase=Pending"),
    ("Pods by node", "spec.nodeName="),
    ("Pods by policy", "spec.restartPolicy=Always"),
    ("Pods by address", "status.podIP="),
    ("Pods by scheduler", "spec.schedulerName=x"),
    ("Pods by network", "spec.hostNetwork=false"),
    ("Pods by what can't be asked", "metadata.uid=x"),
    ("Pods by one that can and one that can't be asked", "spec.nodeName=,spec.foo=x"),
];

pub fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .zip(["Secret a", "Secret b", "Secret c", "Secret d", "Secret e"])
        .zip(1..)
        .map(|((letter, name), number)| {
            let labels = json!({ "n": letter, "set": "x", "v": number.to_string(), "example.com/k": "x" });
            let metadata = json!({ "name": format!("s-{letter}"), "labels": labels });
            create(name, "secrets", json!({ "metadata": metadata, "stringData": { "k": "v" } }))
        })
        .collect();
    let by = |labels: &'static str, fields: &'static str| List { labels, fields, ..List::default() };
    steps.extend(SERVICES.iter().chain(REFUSED).map(|(name, labels)| list(name, "secrets", by(labels, ""))));
    steps.extend(FIELDS.iter().map(|(name, fields)| list(name, "secrets", by("", fields))));
    steps.extend(OF_PODS.iter().map(|(name, fields)| list(name, "pods", by("", fields))));
    let page = |name, limit, token| list(name, "secrets", List { limit, token, ..List::default() });
    steps.extend([
        list("Deployments by what can't be asked", "deployments", by("", "spec.replicas=1")).of("apps/v1"),
        list("a list in a namespace that is not there", "pods", List::default()).within("$ns-none"),
        list("a list that nobody serves", "things", List::default()),
        list("nodes within a namespace", "nodes", List::default()),
        page("the first page", 2, ""),
        create("a Secret between two pages", "secrets", json!({ "metadata": { "name": "s-ca" } })),
        delete("a Secret that goes between two pages", "secrets", "s-d"),
        page("the second page", 2, "{the first page:/metadata/continue}"),
        page("the last page", 2, "{the second page:/metadata/continue}"),
        page("the rest in one page", 0, "{the first page:/metadata/continue}"),
        page("the first page anew", 2, ""),
        list("a page with a selector", "secrets", List { labels: "set", limit: 2, ..List::default() }),
        list(
            "another selector in the next page",
            "secrets",
            List { labels: "n=e", limit: 2, token: "{the first page:/metadata/continue}", ..List::default() },
        ),
        list(
            "a list over all namespaces",
            "secrets",
            List { labels: "set", fields: "metadata.namespace=$ns", ..List::default() },
        )
        .within(""),
        page("a token that is none", 2, "garbage"),
        page("a token that is no base64", 2, "!!"),
        // {"v":"meta.k8s.io/v9","rv":5,"start":"/a"} and others of the kind.
        page("a token of another form", 2, "eyJ2IjoibWV0YS5rOHMuaW8vdjkiLCJydiI6NSwic3RhcnQiOiIvYSJ9"),
        page("a token without a version", 2, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiIvYSJ9"),
        page("a token without a start", 2, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIifQ"),
        page(
            "a token that leads elsewhere",
            2,
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi94In0",
        ),
        page(
            "a token of a time to come",
            2,
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6OTk5OTk5OTk5OSwic3RhcnQiOiIvYSJ9",
        ),
        page("the first page before the tokens expire", 2, ""),
        Step::new("tokens expire", "secrets", Call::ExpireTokens),
        page(
            "a page behind an expired token",
            2,
            "{the first page before the tokens expire:/metadata/continue}",
        )
        .until(|answer| answer["code"] == 410),
        page("a list that begins anew", 2, ""),
    ]);
    steps
}
