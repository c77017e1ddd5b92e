//! Alert rules and dashboard: they name what is exported and nothing else, each alert fires when it should and is
//! quiet otherwise, and for each the page says what to do.
//!
//! promtool tries them, as Prometheus would. It comes with Debian's prometheus: `make setup`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

use super::{
    command::workspace,
    metrics::{Metric, documented},
};

/// What a scrape adds to every series, and what a histogram's buckets bear.
const ADDED: [&str; 2] = ["instance", "le"];

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}

fn rules() -> Vec<Value> {
    let object: Value = serde_saphyr::from_str(&read("deploy/monitoring/rules.yaml")).unwrap();
    let groups = object["spec"]["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn cases() -> Value {
    serde_saphyr::from_str(include_str!("alerts.yaml")).unwrap()
}

#[track_caller]
fn promtool(folder: &Path, arguments: &[&str]) {
    let ended = Command::new("promtool").args(arguments).current_dir(folder).output();
    let ended = ended.unwrap_or_else(|error| panic!("promtool: {error}; run make setup"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ended.status.success(), "{}{}", said(&ended.stdout), said(&ended.stderr));
}

/// Metrics that an expression selects, each with its matchers: label and value.
fn selected(expression: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("egress_") {
        let rest = &expression[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let inside = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(i, _)| i);
        let matcher = |matcher: &str| {
            let (label, value) = matcher.split_once(['=', '!']).unwrap();
            (label.trim().to_owned(), value.trim_start_matches(['=', '~']).trim_matches('"').to_owned())
        };
        let matchers = inside.split(", ").filter(|matcher| !matcher.is_empty()).map(matcher);
        found.push((name.to_owned(), matchers.collect()));
    }
    found
}

/// Labels that an expression groups or joins by.
fn grouped(expression: &str) -> BTreeSet<String> {
    let lists = ["by (", "on ("].into_iter().flat_map(|opening| expression.split(opening).skip(1));
    let labels = lists.flat_map(|list| list.split(')').next().unwrap().split(','));
    labels.map(|label| label.trim().to_owned()).collect()
}

fn base<'n>(name: &'n str, known: &BTreeMap<String, Metric>) -> &'n str {
    let parts = ["_bucket", "_sum", "_count"].into_iter().find_map(|part| name.strip_suffix(part));
    parts.filter(|base| known.get(*base).is_some_and(|metric| metric.kind == "histogram")).unwrap_or(name)
}

/// An expression, or a series: it names what there is.
#[track_caller]
fn assert_known(expression: &str) {
    let known = documented();
    let all: BTreeSet<&str> = known.values().flat_map(|metric| &metric.labels).map(String::as_str).collect();
    let selected = selected(expression);
    assert!(!selected.is_empty(), "{expression}");
    for (name, matchers) in selected {
        let metric = known.get(base(&name, &known)).unwrap_or_else(|| panic!("{name} is not exported"));
        assert_eq!(base(&name, &known) != name, metric.kind == "histogram", "{name} is no series");
        for (label, value) in matchers {
            assert!(
                metric.labels.contains(&label) || ADDED.contains(&label.as_str()),
                "{name} has no {label}"
            );
            let closed = ["phase", "state", "class", "outcome"].contains(&label.as_str());
            // Outcomes of host calls are as many as there are ways to fail.
            if closed && name != "egress_host_calls_total" {
                for value in value.split('|') {
                    assert!(metric.values.contains(value), "{name} has no {label}={value}");
                }
            }
        }
    }
    for label in grouped(expression) {
        assert!(all.contains(label.as_str()) || ADDED.contains(&label.as_str()), "{label} in {expression}");
    }
}

#[test]
fn rules_and_their_tests_name_only_what_is_exported() {
    for rule in rules() {
        assert_known(rule["expr"].as_str().unwrap());
    }
    for case in cases()["tests"].as_array().unwrap() {
        for series in case["input_series"].as_array().unwrap() {
            assert_known(series["series"].as_str().unwrap());
        }
    }
}

#[test]
fn each_alert_fires_when_it_should_and_is_quiet_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut plain = rules();
    // What people read is tried by the check of the whole file; here it would have to be said twice.
    plain.iter_mut().for_each(|rule| drop(rule.as_object_mut().unwrap().remove("annotations")));
    let plain = json!({ "groups": [{ "name": "egress-operator", "rules": plain }] });
    std::fs::write(folder.path().join("rules.json"), plain.to_string()).unwrap();
    std::fs::write(folder.path().join("alerts.yaml"), include_str!("alerts.yaml")).unwrap();
    promtool(folder.path(), &["test", "rules", "alerts.yaml"]);

    let (mut fires, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for case in cases()["tests"].as_array().unwrap() {
        for tried in case["alert_rule_test"].as_array().unwrap() {
            let expected = tried["exp_alerts"].as_array().unwrap();
            let side = if expected.is_empty() { &mut quiet } else { &mut fires };
            side.insert(tried["alertname"].as_str().unwrap().to_owned());
        }
    }
    let all: BTreeSet<String> =
        rules().iter().map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect();
    assert_eq!((&fires, &quiet), (&all, &all), "each is tried both ways");
}

#[test]
fn for_each_alert_the_page_says_what_to_do_and_the_rules_lead_there() {
    let page = read("docs/observability.md");
    let headings: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("### Egress")).collect();
    let rules = rules();
    let alerts = rules.iter().map(|rule| rule["alert"].as_str().unwrap().strip_prefix("Egress").unwrap());
    assert_eq!(headings, alerts.collect());
    for rule in &rules {
        let name = rule["alert"].as_str().unwrap().to_lowercase();
        let leads = &rule["annotations"]["runbook_url"];
        assert_eq!(leads.as_str().unwrap(), format!("docs/observability.md#{name}"));
        assert!(["critical", "warning", "info"].contains(&rule["labels"]["severity"].as_str().unwrap()));
    }
}

#[test]
fn the_rules_become_a_plain_file_as_the_page_says() {
    let page = read("docs/observability.md");
    let command = page.lines().find(|line| line.starts_with("sed ")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("egress-operator.rules.yml");
    let command = command.replace("egress-operator.rules.yml", plain.to_str().unwrap());
    assert!(Command::new("bash").args(["-c", &command]).current_dir(workspace()).status().unwrap().success());
    promtool(folder.path(), &["check", "rules", "egress-operator.rules.yml"]);
}

#[test]
fn the_dashboard_asks_only_for_what_is_exported_in_a_way_that_prometheus_understands() {
    let dashboard: Value = serde_json::from_str(&read("deploy/monitoring/dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    collect(&dashboard, &mut expressions);
    assert!(expressions.len() > 25, "{expressions:?}");
    expressions.iter().for_each(|expression| assert_known(&expression.replace("~\"$entry\"", "\"any\"")));
    // One rule for each, so that promtool reads it.
    let rule = |(index, expression): (usize, &String)| {
        let whole = expression.replace("$__rate_interval", "5m").replace("$entry", ".*");
        json!({ "record": format!("dashboard:{index}"), "expr": whole })
    };
    let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    let file = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dashboard.json"), file.to_string()).unwrap();
    promtool(folder.path(), &["check", "rules", "dashboard.json"]);
    // And it shows all there is.
    let known = documented();
    let shown: BTreeSet<String> = expressions
        .iter()
        .flat_map(|expression| selected(expression))
        .map(|(name, _)| base(&name, &known).to_owned())
        .collect();
    assert_eq!(shown, known.keys().cloned().collect());
}

fn collect(value: &Value, expressions: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            expressions.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, expressions));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, expressions)),
        _ => {}
    }
}
