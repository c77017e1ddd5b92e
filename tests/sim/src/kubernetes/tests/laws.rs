//! What holds for whatever is asked.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::kubernetes::{
    apply::Managers, fields::Fields, json::list, kinds::Kinds, patch, quantity::Quantity, selectors::Selector,
};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", value(), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

fn without_nulls(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => fields.values().all(without_nulls),
        _ => true,
    }
}

/// A path that is there.
fn paths(value: &Value, at: &str, into: &mut Vec<String>) {
    if let Value::Object(fields) = value {
        for (key, value) in fields {
            let path = format!("{at}/{key}");
            into.push(path.clone());
            paths(value, &path, into);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_merge_patch_twice_is_the_same_as_once(mut target in object(), patch in object()) {
        patch::merge(&mut target, &patch);
        let once = target.clone();
        patch::merge(&mut target, &patch);
        prop_assert_eq!(once, target);
    }

    #[test]
    fn an_object_without_nulls_merged_into_nothing_is_itself(patch in object().prop_filter("nulls take away", without_nulls)) {
        let mut target = json!({});
        patch::merge(&mut target, &patch);
        prop_assert_eq!(target, patch);
    }

    #[test]
    fn an_empty_patch_changes_nothing(target in object()) {
        let mut merged = target.clone();
        patch::merge_object(&mut merged, &json!({})).unwrap();
        patch::json_patch(&mut merged, &json!([])).unwrap();
        prop_assert_eq!(merged, target);
    }

    #[test]
    fn what_a_json_patch_adds_it_can_test_and_remove(target in object(), new in value()) {
        let mut patched = target.clone();
        let add = json!({ "op": "add", "path": "/new", "value": new });
        let test = json!({ "op": "test", "path": "/new", "value": new });
        patch::json_patch(&mut patched, &json!([add, test, { "op": "remove", "path": "/new" }])).unwrap();
        prop_assert_eq!(patched, target);
    }

    #[test]
    fn a_json_patch_that_fails_has_changed_nothing(target in object(), new in value()) {
        let mut patched = target.clone();
        let patch = json!([{ "op": "add", "path": "/new", "value": new }, { "op": "bogus", "path": "/new" }]);
        prop_assert!(patch::json_patch(&mut patched, &patch).is_err());
        prop_assert_eq!(patched, target);
    }

    #[test]
    fn moving_there_and_back_changes_nothing(target in object(), pick in any::<prop::sample::Index>()) {
        let mut all = Vec::new();
        paths(&target, "", &mut all);
        prop_assume!(!all.is_empty());
        let path = pick.get(&all);
        let mut patched = target.clone();
        let there = json!({ "op": "move", "from": path, "path": "/elsewhere" });
        let back = json!({ "op": "move", "from": "/elsewhere", "path": path });
        patch::json_patch(&mut patched, &json!([there, back])).unwrap();
        prop_assert_eq!(patched, target);
    }

    #[test]
    fn no_patch_of_any_form_breaks_the_patcher(mut target in object(), patch in value(), path in "[/a-d0-9~-]{0,6}", op in "(add|remove|replace|test|move|copy)") {
        let _ = patch::json_patch(&mut target, &patch);
        let _ = patch::json_patch(&mut target, &json!([{ "op": op, "path": path, "from": path, "value": patch }]));
        let _ = patch::merge_object(&mut target, &patch);
    }

    #[test]
    fn a_selector_of_any_text_is_parsed_or_refused(text in "[a-c=!<>(), in]{0,12}") {
        let kind = Kinds::default().find("v1", "secrets").unwrap();
        let _ = Selector::parse(&kind, &text, &text);
    }

    #[test]
    fn one_of_and_none_of_part_all_objects(values in prop::collection::btree_set("[a-d]", 1..4), label in prop::option::of("[a-d]")) {
        let kind = Kinds::default().find("v1", "secrets").unwrap();
        let values: Vec<String> = values.into_iter().collect();
        let parse = |operator: &str| {
            Selector::parse(&kind, &format!("n {operator} ({})", values.join(",")), "").unwrap()
        };
        let object = match &label {
            Some(label) => json!({ "metadata": { "labels": { "n": label } } }),
            None => json!({ "metadata": {} }),
        };
        let (within, without) = (parse("in").matches(&object), parse("notin").matches(&object));
        prop_assert_eq!(within, label.is_some_and(|label| values.contains(&label)));
        prop_assert_eq!(within, !without);
    }

    #[test]
    fn a_quantity_keeps_its_amount_in_any_form(milli in 0_u32..10_000_000) {
        let text = format!("{milli}m");
        let parsed = Quantity::parse(&text).unwrap();
        let shown = parsed.to_string();
        prop_assert_eq!(Quantity::parse(&shown).unwrap().milli(), i128::from(milli), "{}", shown);
        prop_assert_eq!(Quantity::parse(&shown).unwrap().to_string(), shown);
    }

    #[test]
    fn a_set_of_fields_survives_being_written(object in object()) {
        let applied = Fields::applied(&object);
        prop_assert_eq!(Fields::from_json(&applied.to_json()), applied);
        let (changed, _) = Fields::changed(&json!({}), &object);
        prop_assert_eq!(Fields::from_json(&changed.to_json()), changed);
    }

    #[test]
    fn what_is_taken_away_is_not_there_any_more(object in object(), other in object()) {
        let (all, some) = (Fields::applied(&object), Fields::applied(&other));
        let left = all.clone().without(&some);
        prop_assert_eq!(left.clone().without(&some), left.clone(), "once is enough");
        prop_assert_eq!(left.with(&some).without(&all).without(&some), Fields::default());
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("s-{number:02}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_any_size_show_each_object_once_whoever_writes_meanwhile(
        count in 0_usize..12,
        limits in prop::collection::vec(1_u32..5, 12),
        writes in prop::collection::vec((any::<bool>(), 0_usize..12), 12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            for name in names(count) {
                world.create("secrets", json!({ "metadata": { "name": name } })).await.unwrap();
            }
            let (mut seen, mut token) = (Vec::new(), None);
            for (limit, (makes, number)) in limits.into_iter().cycle().zip(writes.into_iter().cycle()) {
                let (page, next) = world.page("secrets", limit, token.take()).await.unwrap();
                prop_assert!(page.len() <= usize::try_from(limit).unwrap());
                seen.extend(page);
                token = next;
                if token.is_none() {
                    break;
                }
                let name = format!("s-{number:02}");
                let _ = match makes {
                    true => world.create("secrets", json!({ "metadata": { "name": format!("{name}x") } })).await,
                    false => world.delete("secrets", &name).await,
                };
            }
            prop_assert_eq!(&seen, &names(count), "in order, each once, as they were");
            prop_assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
            Ok(())
        })?;
    }

    #[test]
    fn an_apply_again_writes_nothing_and_an_empty_one_takes_all_of_it_away(data in prop::collection::btree_map("[a-d]", "[x-z]{1,3}", 0..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            let apply = async |data: Value| {
                let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
                world.cluster.patch("", &core("configmaps"), "default", "a", PatchKind::Apply, body).await.unwrap()
            };
            let first = apply(json!(data)).await;
            prop_assert_eq!(&apply(json!(data)).await, &first);
            world.merge("configmaps", "a", json!({ "data": { "other": "1" } })).await.unwrap();
            let left = apply(json!({})).await;
            prop_assert_eq!(&left["data"], &json!({ "other": "1" }), "and nothing of others");
            prop_assert_eq!(list(&left, &["metadata", "managedFields"]).len(), 2, "the applier's empty claim, and the other's");
            let _ = Managers::of(&left);
            Ok(())
        })?;
    }
}
