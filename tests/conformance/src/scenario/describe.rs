//! What a component says of itself.

use egress_sim::backend::Action;
use serde_json::{Value, json};

use crate::{
    halt::{Go, broken, ensure, skip},
    profile::AXES,
    sight,
    sweep::Play,
    trial::Trial,
};

/// One known value for each axis.
pub async fn profile_is_known(trial: &mut Trial<'_>) -> Go {
    let profile = trial.description().profile.as_object().cloned().unwrap_or_default();
    for (axis, values) in AXES {
        let said = profile.get(*axis).and_then(Value::as_str);
        ensure(said.is_some_and(|said| values.contains(&said)), || {
            let said = profile.get(*axis).map_or("nothing".to_owned(), ToString::to_string);
            format!("the profile says {said} of {axis}; it must be one of {}", values.join(", "))
        })?;
    }
    let unknown = profile.keys().find(|key| AXES.iter().all(|(axis, _)| axis != *key));
    ensure(unknown.is_none(), || format!("the profile has {unknown:?}, which is no axis"))
}

/// What the profile says of secondary resources and of the primary key is what is seen.
pub async fn profile_is_true(trial: &mut Trial<'_>) -> Go {
    let (secondary, key) =
        (trial.profile("secondary-resources").to_owned(), trial.profile("primary-key").to_owned());
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let instance = play.stage.instance().await?;
    let beside: Vec<_> = play.stage.inventory().await?.into_iter().filter(|thing| !thing.instance).collect();
    if secondary == "none" && !beside.is_empty() {
        return broken(format!(
            "secondary-resources is none, and beside {instance} there is:{}",
            sight::lines(&beside)
        ));
    }
    let name = play.proxy.name();
    ensure(instance.name.contains(name.as_str()), || {
        format!("the instance is called {}, and not {name}", instance.name)
    })?;
    let id = play.proxy.id.clone().unwrap_or_default();
    if key == "name-is-key" {
        ensure(id.contains(name.as_str()), || {
            format!("primary-key is name-is-key, and the id {id:?} has no {name}")
        })?;
    }
    if secondary == "cascade" {
        play.stage.act(&instance, Action::Remove).await?;
        play.stage.wait(std::time::Duration::from_secs(600)).await;
        sight::nothing(&play.stage).await?;
    }
    Ok(())
}

/// Every fault of a config, each with its path.
pub async fn every_fault_is_named(trial: &mut Trial<'_>) -> Go {
    let (config, wrong) = wrong_config(&trial.description().config_schema, &trial.subject().config);
    if wrong.len() < 2 {
        return skip("its config's schema names fewer than two properties of a simple type");
    }
    let stage = trial.stage().await?;
    let faults = match stage.configure(config.clone()).await? {
        Ok(places) => return broken(format!("configure takes {config} and answers the places {places:?}")),
        Err(faults) => faults,
    };
    for key in wrong {
        ensure(faults.iter().any(|fault| fault.path.starts_with(&key)), || {
            let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
            format!(
                "{key} has a value of another type, and no fault has that path; told were: {}",
                told.join("; ")
            )
        })?;
    }
    Ok(())
}

/// A config with two values of another type than the schema wants, and their keys.
fn wrong_config(schema: &Value, config: &Value) -> (Value, Vec<String>) {
    let mut config = config.as_object().cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    let required: Vec<&str> = texts(schema.get("required"));
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    // Those that are required first: they are read whatever the others say.
    let mut keys: Vec<&String> = properties.keys().collect();
    keys.sort_by_key(|key| !required.contains(&key.as_str()));
    for key in keys {
        let kind = properties.get(key).and_then(|property| property.get("type")).and_then(Value::as_str);
        let value = match kind {
            Some("string" | "integer" | "number" | "boolean") => json!({ "of": ["another type"] }),
            Some("array" | "object") => json!("of another type"),
            _ => continue,
        };
        config.insert(key.clone(), value);
        wrong.push(key.clone());
        if wrong.len() == 2 {
            break;
        }
    }
    (Value::Object(config), wrong)
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}
