//! `epo provider replay`.

use std::path::PathBuf;

use super::{
    super::command::{Ran, component, file, run, workspace},
    SENTINELS, USER_DATA, guests, json, misbehaving_entry, provider,
};

/// One instance's life at the lab's API server. To make it anew:
/// `EPO_KEEP_RECORDING=host/cli/tests/epo/recordings/kubernetes-life.json tests/e2e/run.sh recording`
pub fn real_life() -> PathBuf {
    workspace().join("host/cli/tests/epo/recordings/kubernetes-life.json")
}

fn replay(component: &str, recording: &str, more: &[&str]) -> Ran {
    run(&[&["provider", "replay", component, recording], more].concat())
}

#[test]
fn what_was_recorded_at_a_real_api_server_is_asked_and_answered_again() {
    let (recording, component) = (real_life(), component());
    let said = replay(component.to_str().unwrap(), recording.to_str().unwrap(), &[]).well();
    assert!(said.starts_with("the same: "), "{said}");
    let said = replay(component.to_str().unwrap(), recording.to_str().unwrap(), &["-o", "json"]).well();
    let outcome = json(&said);
    assert_eq!(outcome["same"], true);
    assert!(outcome["hostCalls"].as_u64().unwrap() > 20, "{said}");
}

#[test]
fn the_recording_in_the_tree_was_made_for_real_and_is_clean() {
    let text = std::fs::read_to_string(real_life()).unwrap();
    let recording = json(&text);
    assert_eq!(recording["backend"], "real");
    for credential in ["Bearer", "eyJ", "PRIVATE KEY", "token\": \"", "client-key-data"] {
        assert!(!text.contains(credential), "{credential}");
    }
}

#[test]
fn a_component_that_asks_otherwise_is_shown_where_and_how() {
    let (_dir, other) = guests::kubernetes_with("egressproxies.dev/", "egressproxies.org/");
    let ran = replay(&other, real_life().to_str().unwrap(), &[]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for said in [
        "asks otherwise than the recording",
        "kubernetes.create",
        "body.metadata.labels[\"egressproxies.dev/installation\"]",
        "body.metadata.labels[\"egressproxies.org/installation\"]",
    ] {
        assert!(ran.out.contains(said), "{said:?} is missing in {}", ran.out);
    }
    assert!(ran.err.contains(&format!("epo: {other} differs from")), "{}", ran.err);
    let outcome = json(&replay(&other, real_life().to_str().unwrap(), &["-o", "json"]).out);
    assert_eq!(outcome["same"], false);
    assert!(!outcome["askedChanges"].as_array().unwrap().is_empty(), "{outcome}");
}

#[test]
fn a_component_that_answers_otherwise_is_shown_what() {
    let text = std::fs::read_to_string(real_life()).unwrap();
    let mut recording = json(&text);
    let calls = recording["calls"].as_array_mut().unwrap();
    let get = calls.iter_mut().find(|call| call["call"]["export"] == "get").unwrap();
    get["outcome"]["answer"]["state"] = "hibernating".into();
    let (_dir, edited) = file("edited.json", recording.to_string().as_bytes());
    let ran = replay(component().to_str().unwrap(), &edited, &[]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("answer.state\n      - \"hibernating\"\n      + \"running\"\n"), "{}", ran.out);
}

#[test]
fn a_call_that_asks_more_or_less_than_was_recorded_is_shown() {
    let text = std::fs::read_to_string(real_life()).unwrap();
    for (more, said) in
        [(true, "host calls of the recording that are not made"), (false, "a host call more than")]
    {
        let mut recording = json(&text);
        let calls = recording["calls"].as_array_mut().unwrap();
        let get = calls.iter_mut().find(|call| call["call"]["export"] == "get").unwrap();
        let host_calls = get["hostCalls"].as_array_mut().unwrap();
        match more {
            true => host_calls.extend(host_calls.clone()),
            false => host_calls.retain(|exchange| exchange["capability"] == "clock"),
        }
        let (_dir, edited) = file("edited.json", recording.to_string().as_bytes());
        let ran = replay(component().to_str().unwrap(), &edited, &[]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.out.contains(said), "{}", ran.out);
    }
}

#[test]
fn what_was_made_with_user_data_is_replayed_without_it() {
    let (_dir, user_data) = file("user-data", USER_DATA.as_bytes());
    let (_dir, entry) = misbehaving_entry(&serde_json::json!({ "do": "pass-on", "in": "create" }));
    let (_dir, recording) = file("recording.json", b"");
    let args = ["create", "--entry", &entry, "--user-data", &user_data, "--record", &recording];
    provider("call", guests::misbehaving(), &args);
    let component = guests::misbehaving().to_str().unwrap();
    for more in [&[][..], &["--user-data", &user_data]] {
        let ran = replay(component, &recording, more);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        for sentinel in SENTINELS {
            assert!(!ran.out.contains(sentinel), "{}", ran.out);
        }
    }
}

#[test]
fn what_is_no_recording_is_told_with_the_way_to_one() {
    for (content, said) in [
        (&b"not json"[..], "--record"),
        (b"", "--record"),
        (b"\0asm\x0d\0\x01\0\xff\xfe", "--record"),
        (b"{}", "no field format"),
        (b"{\"format\": \"egress-provider-recording/9\"}", "egress-provider-recording/1"),
        (b"{\"format\": \"egress-provider-recording/1\"}", "beganMs"),
    ] {
        let (_dir, path) = file("recording.json", content);
        replay(component().to_str().unwrap(), &path, &[]).refused(2, &[&path, said]);
    }
}
