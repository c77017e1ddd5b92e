//! `epo provider call`, at the simulated backend.

use serde_json::json;

use super::{
    super::command::{Ran, component, file, run},
    USER_DATA, assert_clean, guests, json, misbehaving_entry, provider,
};

const LIFE: [&str; 6] = ["check", "create", "get", "list", "delete", "--until-done"];

fn call(more: &[&str]) -> Ran {
    provider("call", &component(), more)
}

#[test]
fn a_whole_life_is_lived_and_shown_call_by_call() {
    let ran = call(&LIFE);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for said in
        ["check home: ready, reachable", "running", "done, nothing is left", "nothing of a provider's"]
    {
        assert!(ran.out.contains(said), "{said:?} is missing in {}", ran.out);
    }
    for seen in
        ["provider.create proxy-web-", "kubernetes.create write home v1/pods team-a/proxy-web-", "-> ok"]
    {
        assert!(ran.err.contains(seen), "{seen:?} is missing in {}", ran.err);
    }
}

#[test]
fn a_program_reads_the_answers_from_the_standard_output() {
    let ran = call(&[&LIFE[..], &["-o", "json"]].concat());
    let report = json(&ran.out);
    let calls = report["calls"].as_array().unwrap();
    let answers = |export: &str| {
        let of = calls.iter().filter(|call| call["export"] == export);
        of.map(|call| call["answer"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(answers("create").last().unwrap()["outcome"], "done");
    assert_eq!(answers("get")[0]["state"], "running");
    assert_eq!(answers("list").concat_items(), 1);
    assert_eq!(report["inventory"], json!([]));
    assert_eq!(report["provider"]["name"], "kubernetes");
    let host_calls: u64 = calls.iter().map(|call| call["hostCalls"].as_u64().unwrap()).sum();
    let shown = ran.err.lines().filter(|line| line.contains("  kubernetes.")).count();
    assert_eq!(host_calls, shown as u64, "{}", ran.err);
}

trait Pages {
    fn concat_items(&self) -> usize;
}

impl Pages for Vec<serde_json::Value> {
    fn concat_items(&self) -> usize {
        self.iter().map(|page| page["items"].as_array().unwrap().len()).sum()
    }
}

#[test]
fn one_step_is_one_step_and_its_id_can_be_given_to_the_next_command() {
    let first = call(&["create", "-o", "json"]);
    let report = json(&first.out);
    assert_eq!(report["calls"].as_array().unwrap().len(), 1);
    assert_eq!(report["calls"][0]["answer"]["outcome"], "pending");
    let id = report["calls"][0]["answer"]["id"].as_str().unwrap();
    let next = call(&["create", "--id", id]);
    assert!(next.out.contains("the Pod is made"), "{}", next.out);
}

#[test]
fn what_may_only_read_writes_nothing() {
    let ran = call(&["create", "--until-done", "--read-only"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("!! read-only -> denied"), "{}", ran.err);
    assert!(ran.err.contains("epo: create proxy-web-"), "{}", ran.err);
    assert!(ran.out.contains("may only read") && ran.out.contains("nothing of a provider's"), "{}", ran.out);
    let looked = call(&["check", "list", "--read-only"]);
    assert_eq!(looked.code, 0, "{}", looked.err);
}

#[test]
fn a_failure_ends_with_1_and_is_told_on_both_outputs() {
    let ran = call(&["get", "list", "-o", "json"]);
    assert_eq!(ran.code, 1);
    let report = json(&ran.out);
    assert_eq!(report["calls"].as_array().unwrap().len(), 1, "what is behind a failure is not called");
    assert_eq!(report["calls"][0]["failure"]["class"], "not-found");
    assert!(ran.err.contains("epo: get proxy-web-") && ran.err.contains("not-found"), "{}", ran.err);
}

#[test]
fn who_it_is_can_be_asked_without_any_config() {
    let ran = provider("call", guests::misbehaving(), &["describe", "-o", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(json(&ran.out)["calls"][0]["answer"]["name"], "misbehave");
    assert!(call(&["describe", "configure"]).well().contains("places  home"));
}

#[test]
fn the_config_of_an_entry_counts_and_its_pin_does_not() {
    let entry = "module: { file: x, digest: \"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\" }
config: { cluster: other, image: squid:1, namespaces: [proxies] }
grants: { kubernetes: { clusters: { other: { operator: true, rules: [
  { resources: [pods, configmaps], verbs: [\"*\"], namespaces: [proxies] }] } } } }
";
    let (_dir, path) = file("mine.yaml", entry.as_bytes());
    let ran = call(&["check", "create", "--until-done", "--entry", &path]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("other/proxies/proxy-web-"), "{}", ran.out);
}

#[test]
fn what_a_component_logs_is_shown() {
    let (_dir, entry) = misbehaving_entry(&json!({ "do": "flood", "in": "check", "n": 2 }));
    let ran = provider("call", guests::misbehaving(), &["check", "--entry", &entry]);
    assert!(ran.err.contains("log info: line 1"), "{}", ran.err);
}

#[test]
fn no_user_data_comes_out_anywhere_whatever_the_component_says() {
    let (_dir, user_data) = file("user-data", USER_DATA.as_bytes());
    for fault in
        ["say-user-data", "pass-on", "leak-error", "leak-pending", "leak-violation", "panic-user-data"]
    {
        let (_dir, entry) = misbehaving_entry(&json!({ "do": fault, "in": "create" }));
        let (_dir, recording) = file("recording.json", b"");
        for format in ["text", "json"] {
            let args = [
                "create",
                "--entry",
                &entry,
                "--user-data",
                &user_data,
                "--record",
                &recording,
                "-o",
                format,
            ];
            let ran = provider("call", guests::misbehaving(), &args);
            assert!(ran.code == 0 || ran.code == 1, "{fault}: {}", ran.err);
            assert_clean(fault, &ran.out);
            assert_clean(fault, &ran.err);
            let recorded = std::fs::read_to_string(&recording).unwrap();
            assert!(recorded.contains("\"userDataBytes\""), "{recorded}");
            assert_clean(fault, &recorded);
        }
    }
}

#[test]
fn a_recording_that_can_not_be_written_is_told_before_anything_is_called() {
    let ran = call(&["check", "--record", "/nosuch/recording.json"]);
    ran.refused(2, &["/nosuch/recording.json", "No such file", "another path"]);
}

#[test]
fn help_says_what_each_exit_code_means() {
    for command in ["call", "replay", "bench", "diff"] {
        let help = run(&["provider", command, "--help"]).well();
        assert!(help.contains("Exit codes:") && help.contains("2  could not run"), "{help}");
        assert!(help.contains("Examples:"), "{help}");
    }
}
