use super::*;

fn said(name: &str, text: &str) -> Said {
    let assumed = Assumed { namespace: "default".to_owned(), providers: "egress-providers".to_owned() };
    read(name, text.as_bytes(), &assumed)
}

fn names(said: &Said) -> Vec<String> {
    said.objects.iter().map(|(key, _)| key.to_string()).collect()
}

const WEB: &str =
    "apiVersion: egressproxies.dev/v1alpha1\nkind: Proxy\nmetadata: { name: web }\nspec: { provider: a }\n";

#[test]
fn a_proxy_gets_the_namespace_and_the_defaults_that_a_cluster_would_give_it() {
    let said = said("web.yaml", WEB);
    assert_eq!(names(&said), ["Proxy default/web"], "{said:?}");
    assert_eq!(said.objects[0].1["spec"], json!({ "provider": "a", "port": 3128 }));
}

#[test]
fn one_broken_document_harms_no_other_in_its_file() {
    let broken = "kind: Proxy\n  name: [";
    let said = said(
        "all.yaml",
        &format!("# first\n---\n{WEB}---\n{broken}\n--- # last\n{}", WEB.replace("web", "db")),
    );
    assert_eq!(names(&said), ["Proxy default/web", "Proxy default/db"]);
    assert_eq!(said.faults.len(), 1, "{said:?}");
    assert!(said.faults[0].starts_with("the document from line 7 on is not YAML"), "{said:?}");
}

#[test]
fn everything_that_an_api_server_would_refuse_is_told_with_its_path() {
    let spec = "spec: { provider: A_, port: 0, prot: 1, placement: { zone: 7 }, cloudInit: {} }";
    let wrong = said("web.yaml", &WEB.replace("spec: { provider: a }", spec));
    assert_eq!(wrong.faulty, [Key::new(Kind::Proxy, "default", "web")]);
    for part in [
        "spec.port: must be at least 1",
        "spec.prot: is not known",
        "spec.placement.zone: must be of type string",
    ] {
        assert!(wrong.faults.iter().any(|fault| fault.ends_with(part)), "{part}: {wrong:?}");
    }
    for (spec, part) in [
        ("spec: {}", "spec.provider: is missing"),
        ("spec: { provider: A_ }", "spec.provider"),
        ("spec: { provider: a, cloudInit: {} }", "exactly one of"),
    ] {
        let wrong = said("web.yaml", &WEB.replace("spec: { provider: a }", spec));
        assert!(wrong.faults.len() == 1 && wrong.faults[0].contains(part), "{part}: {wrong:?}");
    }
}

#[test]
fn an_empty_file_is_a_fault_and_no_wish_for_nothing() {
    for text in ["", "\n", "---\n# all gone\n---\n"] {
        let said = said("web.yaml", text);
        assert_eq!(said.faults.len(), 1, "{text:?}");
    }
}

#[test]
fn entries_stand_bare_in_their_file_or_in_a_config_map() {
    let bare = said("providers.yaml", "kvm2:\n  module: { file: kvm2.wasm }\nother: |\n  module: {}\n");
    assert_eq!(names(&bare), ["ConfigMap default/egress-providers"]);
    let data = &bare.objects[0].1["data"];
    assert_eq!(
        text::read(data["kvm2"].as_str().unwrap()).unwrap(),
        json!({ "module": { "file": "kvm2.wasm" } })
    );
    assert_eq!(data["other"], "module: {}\n");
    assert_eq!(said("others.yaml", "kvm2: {}\n").faults.len(), 1);
}

#[test]
fn a_secrets_plain_text_is_kept_as_a_cluster_keeps_it_and_a_fault_does_not_tell_its_value() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: token }\n";
    let plain = said("token.yaml", &format!("{secret}stringData: {{ token: hush }}\n"));
    assert_eq!(plain.objects[0].1["data"], json!({ "token": STANDARD.encode("hush") }));
    let wrong = said("token.yaml", &format!("{secret}data: {{ token: 'hu sh' }}\n"));
    assert!(wrong.faults[0].contains("data.token is not base64") && !wrong.faults[0].contains("hu sh"));
}

#[test]
fn what_only_a_cluster_needs_is_passed_over() {
    let said = said("all.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: { name: a }\n");
    assert_eq!(said, Said::default());
}

#[test]
fn names_that_lead_elsewhere_are_none() {
    for name in ["../up", "a/b", "A", "-a", ".a", ""] {
        let text = WEB.replace("name: web", &format!("name: '{name}'"));
        assert!(said("web.yaml", &text).objects.is_empty(), "{name}");
    }
}
