//! `epo provider validate`.

use super::command::{component, file, run};

const GOOD: &str = "\
module: { configMap: { name: kubernetes-provider } }
config:
  cluster: home
  image: squid:1
  namespaces: [team-a]
grants:
  kubernetes:
    clusters:
      home:
        operator: true
        rules:
          - { resources: [pods, configmaps], verbs: [get, list, create, patch, delete], namespaces: [team-a] }
";

fn validate(entry: &str) -> super::command::Ran {
    let (_dir, path) = file("kubernetes.yaml", entry.as_bytes());
    run(&["provider", "validate", component().to_str().unwrap(), "--config", &path])
}

#[test]
fn a_good_entry_would_be_taken_up_with_its_places() {
    let said = validate(GOOD).well();
    assert!(said.contains("would be taken up as revision"), "{said}");
    assert!(said.contains("home"), "{said}");
}

#[test]
fn a_component_alone_is_taken_as_far_as_it_goes_without_a_config() {
    let said = run(&["provider", "validate", component().to_str().unwrap()]).well();
    assert!(said.contains("kubernetes 0.1.0"), "{said}");
    assert!(said.contains("--config"), "{said}");
}

#[test]
fn every_fault_of_the_config_is_told_with_its_path() {
    let bad = GOOD.replace("image: squid:1", "image: 7\n  squid: { allowedClients: [nonsense] }");
    validate(&bad).refused(3, &["stage configure", "image", "squid.allowedClients[0]"]);
}

#[test]
fn an_import_that_the_grants_do_not_list_is_refused_with_the_grant_to_add() {
    let ungranted = GOOD.split("grants:").next().unwrap();
    validate(ungranted).refused(3, &["stage link", "egress:provider/kubernetes", "grants.kubernetes"]);
}

#[test]
fn a_fault_of_the_entry_itself_is_told_with_its_path() {
    let bad = GOOD.replace("verbs: [get, list", "verbs: [watch, list");
    validate(&bad).refused(3, &["kubernetes.yaml", "grants.kubernetes.clusters.home.rules[0].verbs[0]"]);
}

#[test]
fn a_component_other_than_the_pinned_one_is_refused() {
    let pinned = format!("sha256:{}", "0".repeat(64));
    let bad = GOOD.replace("module: {", &format!("module: {{ digest: \"{pinned}\","));
    validate(&bad).refused(3, &["stage digest", &pinned]);
}

#[test]
fn a_limit_that_is_too_low_is_named_with_its_value() {
    let bad = format!("{GOOD}limits: {{ memoryBytes: 65536 }}\n");
    validate(&bad).refused(3, &["limits.memoryBytes", "65536"]);
}
