//! What people type, from a directory to a proxy and back.

use std::fs;

use super::{
    super::command::workspace,
    site::{Site, proxy},
};

/// The quickstart's entry, which is simulated.
fn quickstart() -> Site {
    let site = Site::new();
    let from = workspace().join("examples/quickstart");
    for name in ["providers.yaml", "squid.yaml", "web.yaml"] {
        fs::copy(from.join(name), site.path.join(name)).unwrap();
    }
    site
}

#[test]
fn the_quickstart_runs_says_that_it_is_simulated_and_removes_what_is_removed() {
    let site = quickstart();
    let missing = site.epo(&["get"]);
    assert_eq!((missing.code, missing.out.as_str()), (1, ""));
    assert!(missing.err.contains("was never run"), "{}", missing.err);

    let _operator = site.start();
    let web = site.phase("web", "Running");
    assert!(site.has_said("SIMULATED"), "{}", site.log());
    let table = site.epo(&["get"]).well();
    let mut lines = table.lines();
    assert!(lines.next().unwrap().starts_with("NAME   PROVIDER   PHASE"), "{table}");
    assert!(lines.next().unwrap().starts_with("web    kvm2       Running   True"), "{table}");
    let wide = site.epo(&["get", "proxies", "-o", "wide"]).well();
    assert!(wide.contains("REVISION") && wide.contains("runs at"), "{wide}");
    let json = site.epo(&["get", "proxies", "web", "-o", "json"]).well();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["metadata"]["uid"], web["metadata"]["uid"]);
    let entries = site.epo(&["get", "providerhealths"]).well();
    assert!(entries.contains("kvm2   True"), "{entries}");
    let described = site.epo(&["describe", "proxy", "web"]).well();
    for part in ["Name:       web", "Spec:", "Status:", "Events:", "Running"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    let nothing = site.epo(&["get", "proxies", "nosuch"]);
    assert_eq!(nothing.code, 1, "{}", nothing.err);

    site.put_proxy("second", "kvm2", 3129);
    site.phase("second", "Running");
    let gone = site.epo(&["delete", "proxy", "second"]).well();
    assert!(gone.contains("second.yaml is removed") && gone.ends_with("gone\n"), "{gone}");
    assert!(site.proxy("second").is_none() && !site.path.join("second.yaml").exists());

    fs::remove_file(site.path.join("web.yaml")).unwrap();
    site.eventually("web is gone", || site.proxy("web").map_or(Ok(()), |proxy| Err(proxy.to_string())));
}

#[test]
fn a_changed_spec_replaces_the_machine_and_an_unknown_entry_is_waited_for() {
    let site = quickstart();
    let _operator = site.start();
    let first = site.phase("web", "Running");
    site.put_proxy("web", "kvm2", 3129);
    site.port("web", 3129);
    let second = site.phase("web", "Running");
    assert_eq!(second["status"]["incarnation"], 2);
    assert_ne!(first["status"]["instance"]["name"], second["status"]["instance"]["name"]);
    assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);

    site.put_proxy("later", "other", 3128);
    let waits = site.phase("later", "Waiting");
    assert!(waits["status"]["message"].as_str().unwrap().contains("other"), "{waits}");
    let entries = fs::read_to_string(site.path.join("providers.yaml")).unwrap();
    site.save("providers.yaml", &format!("{entries}\n{}", entries.replace("kvm2:\n", "other:\n")));
    site.phase("later", "Running");
}

#[test]
fn a_delete_cuts_one_document_out_of_a_file_and_waits_for_nobody_where_nobody_runs() {
    let site = quickstart();
    fs::remove_file(site.path.join("web.yaml")).unwrap();
    site.save(
        "all.yaml",
        &format!("# both\n{}---\n{}", proxy("web", "kvm2", 3128), proxy("db", "kvm2", 3128)),
    );
    let operator = site.start();
    site.phase("web", "Running");
    site.phase("db", "Running");
    operator.kill();
    let told = site.epo(&["delete", "proxy", "web"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.out.contains("taken out of all.yaml"), "{}", told.out);
    assert!(told.err.contains("no operator runs this directory"), "{}", told.err);
    assert_eq!(
        fs::read_to_string(site.path.join("all.yaml")).unwrap(),
        format!("---\n{}", proxy("db", "kvm2", 3128))
    );
    let _operator = site.start();
    site.eventually("web is gone", || site.proxy("web").map_or(Ok(()), |proxy| Err(proxy.to_string())));
    site.phase("db", "Running");
}
