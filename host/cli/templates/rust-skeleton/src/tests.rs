//! What is promised without a backend. What you write in `backend` gets its tests beside it, over a
//! fake of what the provider is lent; `epo provider test` tries the component as a whole.

use provider_sdk::{
    Context, ErrorClass, HealthReason, Mark, Placement, Provider, Spec, Target, Verdict,
};
use serde_json::{Value, json};

use crate::{MachineProvider, config};

/// What is lent to every provider, and no backend.
struct Fake;

impl Context for Fake {
    fn config(&self) -> Value {
        example()
    }
    fn entry(&self) -> String {
        crate::NAME.to_owned()
    }
    fn installation(&self) -> String {
        "inst01".to_owned()
    }
    fn mark(&self) -> Mark {
        self.installation_mark()
    }
    fn installation_mark(&self) -> Mark {
        vec![("installation".to_owned(), "inst01".to_owned())]
    }
    fn verify(&self, mark: &Mark) -> Verdict {
        if *mark == self.mark() {
            Verdict::ThisTarget
        } else {
            Verdict::Foreign
        }
    }
    fn remaining_ms(&self) -> u32 {
        60_000
    }
}

type Mine = MachineProvider<Fake>;

fn example() -> Value {
    let schema: Value = serde_json::from_str(Mine::describe().config_schema).unwrap();
    schema["examples"][0].clone()
}

fn target() -> Target {
    Target {
        name: "proxy-web-inst01-abcdefgh".to_owned(),
        ..Target::default()
    }
}

fn spec(placement: Value) -> Spec {
    let placement: Placement = serde_json::from_value(placement).unwrap();
    Spec {
        port: 3128,
        placement,
    }
}

#[test]
fn the_example_of_the_schema_is_a_config() {
    assert!(!Mine::configure(&example()).unwrap().is_empty());
}

#[test]
fn every_fault_of_a_config_is_told_with_its_path() {
    for (faulty, paths) in config::faulty() {
        let faults = Mine::configure(&faulty).unwrap_err();
        let found: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(found, paths, "{faulty}");
    }
}

#[test]
fn a_placement_that_can_not_be_honoured_is_refused_and_named() {
    let provider = Mine::from(Fake);
    for (field, value) in [
        ("zone", "nowhere"),
        ("region", "r"),
        ("machineType", "m"),
        ("new", "x"),
    ] {
        let error = provider
            .create(&target(), &spec(json!({ field: value })), b"")
            .unwrap_err();
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Permanent, "placement")
        );
        assert!(
            error.message.contains(&format!("spec.placement.{field}")),
            "{error}"
        );
    }
}

#[test]
fn what_is_not_written_says_so_and_claims_nothing() {
    let provider = Mine::from(Fake);
    let place = &Mine::configure(&example()).unwrap()[0];
    let errors = [
        provider
            .create(&target(), &spec(json!({})), b"")
            .unwrap_err(),
        provider.get(&target()).unwrap_err(),
        provider.delete(&target()).unwrap_err(),
        provider.list(place, None).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            (error.class, error.reason.as_str()),
            (ErrorClass::Permanent, "unsupported")
        );
        assert!(error.message.contains("src/backend.rs"), "{error}");
    }
    let health = provider.check(place);
    assert_eq!(
        (health.ready, health.reason),
        (false, HealthReason::ApiError)
    );
    assert!(
        health.message.contains("src/backend.rs"),
        "{}",
        health.message
    );
    assert!(
        provider
            .check("elsewhere")
            .message
            .contains("no place elsewhere")
    );
}
