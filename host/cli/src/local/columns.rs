//! The columns that kubectl would show: those of the definitions, and no second list of them.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// What stands where there is nothing.
const NONE: &str = "<none>";

/// A table's rows, its head first. `namespaces` puts the namespace before the name; `wide` shows what matters less, too.
pub fn rows(
    definition: &CustomResourceDefinition,
    objects: &[Value],
    namespaces: bool,
    wide: bool,
    now: Timestamp,
) -> Vec<Vec<String>> {
    let columns =
        definition.spec.versions.first().and_then(|version| version.additional_printer_columns.as_ref());
    let shown =
        columns.into_iter().flatten().filter(|column| wide || column.priority.unwrap_or_default() == 0);
    let columns: Vec<(String, &str, bool)> = shown
        .map(|column| (column.name.to_uppercase(), column.json_path.as_str(), column.type_ == "date"))
        .collect();
    let before = |namespace: &str, name: &str| {
        let namespace = namespaces.then(|| namespace.to_owned());
        namespace.into_iter().chain([name.to_owned()]).collect::<Vec<_>>()
    };
    let mut head = before("NAMESPACE", "NAME");
    head.extend(columns.iter().map(|(name, ..)| name.clone()));
    let row = |object: &Value| {
        let at = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let mut row = before(at("/metadata/namespace"), at("/metadata/name"));
        row.extend(columns.iter().map(|(_, path, is_date)| {
            let text = value(object, path);
            if *is_date { age(&text, now) } else { text }
        }));
        row
    };
    std::iter::once(head).chain(objects.iter().map(row)).collect()
}

/// Of the paths that the definitions use: `.a.b` and `.a[?(@.type=="B")].c`.
fn value(object: &Value, path: &str) -> String {
    let mut at = Some(object);
    for step in path.trim_start_matches('.').split(['.', ']']).filter(|step| !step.is_empty()) {
        at = at.and_then(|at| match step.split_once("[?(@") {
            Some((list, _)) => at.get(list),
            // The rest of a condition: `type=="Ready")`.
            None => match step.strip_suffix(')').and_then(|step| step.split_once("==")) {
                Some((field, wanted)) => {
                    let wanted = wanted.trim_matches('"');
                    let items = at.as_array()?;
                    items.iter().find(|item| item.get(field).and_then(Value::as_str) == Some(wanted))
                }
                None => at.get(step),
            },
        });
    }
    match at {
        None | Some(Value::Null) => NONE.to_owned(),
        // One line each.
        Some(Value::String(text)) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Some(other) => other.to_string(),
    }
}

/// As kubectl counts: the two largest units, or the largest where that is enough.
pub fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return NONE.to_owned() };
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 != 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// Columns as wide as their widest cell, three spaces between as kubectl has them, nothing after the last.
pub fn table(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use egress_operator::api::{ProviderHealth, Proxy};
    use kube::CustomResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_columns_are_those_that_kubectl_shows() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let web = json!({
            "metadata": { "name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "provider": "kvm2" },
            "status": {
                "phase": "Running", "address": "192.0.2.7", "message": "a\n b",
                "conditions": [{ "type": "Healthy", "status": "False" }, { "type": "Ready", "status": "True" }],
            },
        });
        let rows = |wide| rows(&Proxy::crd(), std::slice::from_ref(&web), false, wide, now);
        let told = table(&rows(false));
        let expected = "NAME   PROVIDER   PHASE     READY   HEALTHY   ADDRESS     AGE\n\
                        web    kvm2       Running   True    False     192.0.2.7   60m\n";
        assert_eq!(told, expected);
        assert!(
            table(&rows(true)).contains("EGRESS") && table(&rows(true)).contains("a b"),
            "{}",
            table(&rows(true))
        );
    }

    #[test]
    fn every_column_of_both_kinds_finds_its_value() {
        for definition in [Proxy::crd(), ProviderHealth::crd()] {
            let columns = definition.spec.versions[0].additional_printer_columns.clone().unwrap();
            for column in columns {
                let mut object = json!("found");
                let steps: Vec<&str> = column.json_path.trim_start_matches('.').split('.').collect();
                // Conditions have a dot inside.
                let object = if column.json_path.contains("conditions") {
                    let kind = column.json_path.split('"').nth(1).unwrap();
                    let field = steps[steps.len() - 1];
                    json!({ "status": { "conditions": [{ "type": kind, field: "found" }] } })
                } else {
                    for step in steps.into_iter().rev() {
                        object = json!({ step: object });
                    }
                    object
                };
                assert_eq!(value(&object, &column.json_path), "found", "{}", column.json_path);
                assert_eq!(value(&json!({}), &column.json_path), NONE);
            }
        }
    }

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        let now: Timestamp = "2026-01-31T00:00:00Z".parse().unwrap();
        let ago =
            |seconds: i64| age(&Timestamp::from_second(now.as_second() - seconds).unwrap().to_string(), now);
        for (seconds, told) in
            [(5, "5s"), (119, "119s"), (125, "2m5s"), (600, "10m"), (7200, "120m"), (11_000, "3h3m")]
        {
            assert_eq!(ago(seconds), told);
        }
        assert_eq!((ago(86_400 * 3), ago(86_400 * 20)), ("3d".to_owned(), "20d".to_owned()));
        assert_eq!(age("", now), NONE);
    }
}
