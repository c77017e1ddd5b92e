//! What a Proxmox VE API answered, case by case, and what the simulation answers.

use std::{sync::Arc, time::Duration};

use egress_runtime::capability::{Http, HttpBody, HttpPart, HttpRequest, HttpResponse};
use serde_json::{Value, json};

use super::*;
use crate::clock::VirtualClock;

const TERABYTE: u64 = 1 << 40;

struct Lab {
    pve: Pve,
    clock: VirtualClock,
}

fn lab() -> Lab {
    let clock = VirtualClock::default();
    let nodes = [NodeSpec::new("pve1", "pve1"), NodeSpec::new("pve2", "pve2")];
    let local = |node: &str| StorageSpec {
        node: Some(node.to_owned()),
        name: "local".to_owned(),
        content: "images,iso".to_owned(),
        total: TERABYTE,
    };
    let pve = Pve::new(Arc::new(clock.clone()), &nodes, &[local("pve1"), local("pve2")]);
    pve.put_template(9000, "pve1", "local", 2);
    Lab { pve, clock }
}

impl Lab {
    async fn send(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let pairs: Vec<(String, String)> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let form = ["POST", "PUT"].contains(&method);
        let request = HttpRequest {
            endpoint: "pve1".to_owned(),
            method: method.to_owned(),
            path: path.split('/').map(|segment| segment.replace('+', "/")).collect(),
            query: if form { Vec::new() } else { pairs.clone() },
            body: if form { HttpBody::Form(pairs) } else { HttpBody::None },
            ..HttpRequest::default()
        };
        self.pve.send(&request).await.unwrap()
    }

    async fn data(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Value {
        let response = self.send(method, path, fields).await;
        assert_eq!(response.status, 200, "{method} {path}: {}", response.reason);
        body(&response)["data"].clone()
    }

    async fn refused(&self, method: &str, path: &str, fields: &[(&str, &str)], status: u16, text: &str) {
        let response = self.send(method, path, fields).await;
        assert_eq!((response.status, response.reason.as_str()), (status, text), "{method} {path}");
        assert_eq!(header(&response, "connection"), ["close"], "a refusal ends the connection");
    }

    /// A task's end, once it has come to it.
    async fn end(&self, upid: &Value) -> String {
        let path = format!("nodes/pve1/tasks/{}/status", upid.as_str().unwrap());
        for _ in 0..100 {
            let data = self.data("GET", &path, &[]).await;
            if let Some(end) = data["exitstatus"].as_str() {
                return end.to_owned();
            }
            self.clock.advance(Duration::from_millis(500));
        }
        panic!("the task does not end")
    }

    async fn clone(&self, newid: &str, fields: &[(&str, &str)]) -> Value {
        let fields: Vec<_> = [("newid", newid)].iter().chain(fields).copied().collect();
        self.data("POST", "nodes/pve1/qemu/9000/clone", &fields).await
    }
}

fn body(response: &HttpResponse) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_default()
}

fn header<'a>(response: &'a HttpResponse, name: &str) -> Vec<&'a str> {
    response.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
}

#[tokio::test]
async fn refusals_stand_in_the_reason_phrase_and_in_the_message() {
    let lab = lab();
    let text = "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist";
    lab.refused("GET", "nodes/pve1/qemu/100/config", &[], 500, text).await;
    let response = lab.send("GET", "nodes/pve1/qemu/100/config", &[]).await;
    assert_eq!(body(&response), json!({ "data": null, "message": format!("{text}\n") }));
    lab.pve.set_line(Line::V8);
    let response = lab.send("GET", "nodes/pve1/qemu/100/config", &[]).await;
    assert_eq!((response.reason.as_str(), body(&response)), (text, json!({ "data": null })));
}

#[tokio::test]
async fn parameters_are_checked_one_by_one() {
    let lab = lab();
    for (path, fields, name, text) in [
        ("clone", vec![], "newid", "property is missing and it is not optional"),
        ("clone", vec![("newid", "7")], "newid", "invalid format - value does not look like a valid VM ID\n"),
        (
            "clone",
            vec![("newid", "101"), ("nope", "1")],
            "nope",
            "property is not defined in schema and the schema does not allow additional properties",
        ),
        (
            "clone",
            vec![("newid", "101"), ("full", "true")],
            "full",
            "type check ('boolean') failed - got 'true'",
        ),
    ] {
        let response = lab.send("POST", &format!("nodes/pve1/qemu/9000/{path}"), &fields).await;
        assert_eq!(response.status, 400);
        assert_eq!(response.reason, "Parameter verification failed.");
        assert_eq!(body(&response)["errors"][name], text);
    }
    let response = lab.send("PUT", "nodes/pve1/qemu/9000/config", &[("tags", "no/slash")]).await;
    assert_eq!(body(&response)["errors"]["tags"], "invalid format - invalid characters in tag\n");
}

#[tokio::test]
async fn who_is_not_let_in_waits_three_seconds_for_an_empty_401() {
    let lab = lab();
    lab.pve.revoke(true);
    let response = lab.send("GET", "version", &[]).await;
    assert_eq!((response.status, response.reason.as_str()), (401, "Authentication failed!"));
    assert!(response.body.is_empty() && lab.clock.elapsed() == Duration::from_secs(3));
}

#[tokio::test]
async fn a_node_that_is_away_is_a_595_without_a_body_and_an_unknown_one_a_500() {
    let lab = lab();
    lab.pve.set_up("pve2", false);
    let response = lab.send("GET", "nodes/pve2/status", &[]).await;
    assert_eq!((response.status, response.body.len()), (595, 0));
    let text =
        "hostname lookup 'pve9' failed - failed to get address info for: pve9: Name or service not known";
    lab.refused("GET", "nodes/pve9/status", &[], 500, text).await;
}

#[tokio::test]
async fn what_a_privileged_daemon_answers_has_two_headers_of_one_name() {
    let lab = lab();
    let response = lab.send("GET", "nodes/pve1/qemu/9000/config", &[]).await;
    assert_eq!(header(&response, "connection"), ["close", "Keep-Alive"]);
    assert_eq!(header(&lab.send("GET", "version", &[]).await, "connection"), ["Keep-Alive"]);
}

#[tokio::test]
async fn a_body_where_none_may_be_is_refused() {
    let lab = lab();
    let request = HttpRequest {
        endpoint: "pve1".to_owned(),
        method: "DELETE".to_owned(),
        path: ["nodes", "pve1", "qemu", "9000"].map(str::to_owned).to_vec(),
        body: HttpBody::Form(vec![("purge".to_owned(), "1".to_owned())]),
        ..HttpRequest::default()
    };
    let response = lab.pve.send(&request).await.unwrap();
    assert_eq!((response.status, response.reason.as_str()), (501, "Unexpected content for method 'DELETE'"));
}

#[tokio::test]
async fn a_clone_shows_neither_name_nor_mark_until_its_first_disk_is_copied() {
    let lab = lab();
    let upid = lab.clone("102", &[("name", "web"), ("description", "mine\n\n")]).await;
    let text = "Configuration file 'nodes/pve1/qemu-server/102.conf' does not exist";
    lab.refused("GET", "nodes/pve1/qemu/102/config", &[], 500, text).await;
    lab.clock.advance(Duration::from_millis(300));
    let config = lab.data("GET", "nodes/pve1/qemu/102/config", &[]).await;
    assert_eq!(
        (&config["lock"], &config["description"]),
        (&json!("clone"), &json!(" qmclone temporary file"))
    );
    assert_eq!(config.get("name"), None);
    let listed = lab.data("GET", "cluster/resources", &[("type", "vm")]).await;
    let entry = listed.as_array().unwrap().iter().find(|entry| entry["vmid"] == 102).unwrap().clone();
    let wanted = json!({ "id": "qemu/102", "lock": "clone", "status": "unknown", "vmid": 102, "type": "qemu", "node": "pve1" });
    assert_eq!(entry, wanted);
    lab.refused("PUT", "nodes/pve1/qemu/102/config", &[("cores", "1")], 500, "VM is locked (clone)").await;
    lab.clock.advance(Duration::from_millis(900));
    let config = lab.data("GET", "nodes/pve1/qemu/102/config", &[]).await;
    assert_eq!((&config["name"], &config["description"]), (&json!("web"), &json!("mine")));
    assert_eq!((&config["tags"], &config["lock"]), (&json!("golden"), &json!("clone")));
    assert_eq!(lab.end(&upid).await, "OK");
    lab.clock.advance(Duration::from_secs(10));
    let listed = lab.data("GET", "cluster/resources", &[]).await;
    assert!(listed.as_array().unwrap().iter().any(|entry| entry["name"] == "web"));
}

#[tokio::test]
async fn a_clone_without_a_description_inherits_the_templates() {
    let lab = lab();
    lab.pve.put(9000, "pve1", &[("description", "the template's")]);
    let upid = lab.clone("102", &[]).await;
    assert_eq!(lab.end(&upid).await, "OK");
    let config = lab.data("GET", "nodes/pve1/qemu/102/config", &[]).await;
    assert_eq!(config["description"], "the template's");
    assert_eq!(config["name"], "Copy-of-VM-template-9000");
    assert_ne!(config["net0"], "virtio=BC:24:11:00:00:00,bridge=vmbr0");
}

#[tokio::test]
async fn a_number_that_is_taken_is_refused_at_once_here_and_by_the_task_elsewhere() {
    let lab = lab();
    lab.pve.put(101, "pve1", &[("name", "here")]);
    lab.pve.put(201, "pve2", &[("name", "elsewhere")]);
    let text = "unable to create VM 101: config file already exists";
    lab.refused("POST", "nodes/pve1/qemu/9000/clone", &[("newid", "101")], 500, text).await;
    let upid = lab.clone("201", &[]).await;
    let text = "close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/201.conf' failed: File exists";
    assert_eq!(lab.end(&upid).await, text);
    let text = "unable to find configuration file for VM 9999 on node 'pve1'";
    lab.refused("POST", "nodes/pve1/qemu/9999/clone", &[("newid", "102")], 500, text).await;
}

#[tokio::test]
async fn a_start_takes_what_is_not_there_and_a_destroy_does_not() {
    let lab = lab();
    let text = "Configuration file 'nodes/pve1/qemu-server/101.conf' does not exist";
    let upid = lab.data("POST", "nodes/pve1/qemu/101/status/start", &[]).await;
    assert_eq!(lab.end(&upid).await, text);
    lab.refused("DELETE", "nodes/pve1/qemu/101", &[("purge", "1")], 500, text).await;
}

#[tokio::test]
async fn a_destroy_is_taken_while_a_clone_is_at_work_and_ends_after_it() {
    let lab = lab();
    let clone = lab.clone("102", &[]).await;
    lab.clock.advance(Duration::from_millis(500));
    let destroy = lab.data("DELETE", "nodes/pve1/qemu/102", &[]).await;
    assert_eq!((lab.end(&clone).await.as_str(), lab.end(&destroy).await.as_str()), ("OK", "OK"));
    lab.pve.put(103, "pve1", &[("name", "stale")]);
    lab.pve.set_lock(103, Some("clone"));
    let destroy = lab.data("DELETE", "nodes/pve1/qemu/103", &[]).await;
    assert_eq!(lab.end(&destroy).await, "VM is locked (clone)");
}

#[tokio::test]
async fn states_refuse_what_does_not_fit_in_measured_words() {
    let lab = lab();
    lab.pve.put(101, "pve1", &[("name", "a"), ("agent", "1")]);
    let text = "VM 101 is not running";
    lab.refused("GET", "nodes/pve1/qemu/101/agent/network-get-interfaces", &[], 500, text).await;
    let upid = lab.data("POST", "nodes/pve1/qemu/101/status/start", &[]).await;
    assert_eq!(lab.end(&upid).await, "OK");
    let text = "QEMU guest agent is not running";
    lab.refused("GET", "nodes/pve1/qemu/101/agent/network-get-interfaces", &[], 500, text).await;
    let upid = lab.data("POST", "nodes/pve1/qemu/101/status/start", &[]).await;
    assert_eq!(lab.end(&upid).await, "VM 101 already running");
    let text = "VM 101 is running - destroy failed";
    lab.refused("DELETE", "nodes/pve1/qemu/101", &[], 500, text).await;
    lab.pve.put(101, "pve1", &[("agent", "0")]);
    let text = "No QEMU guest agent configured";
    lab.refused("GET", "nodes/pve1/qemu/101/agent/network-get-interfaces", &[], 500, text).await;
    let upid = lab.data("POST", "nodes/pve1/qemu/9000/status/start", &[]).await;
    assert_eq!(lab.end(&upid).await, "you can't start a vm if it's a template");
}

#[tokio::test]
async fn tags_are_stored_in_order_and_each_once() {
    let lab = lab();
    lab.pve.put(101, "pve1", &[("name", "a")]);
    lab.data("PUT", "nodes/pve1/qemu/101/config", &[("tags", "b;a,B c"), ("description", "x \n\n")]).await;
    let config = lab.data("GET", "nodes/pve1/qemu/101/config", &[]).await;
    assert_eq!((&config["tags"], &config["description"]), (&json!("a;b;c"), &json!("x")));
}

#[tokio::test]
async fn an_upload_wants_its_file_last_and_overwrites() {
    let lab = lab();
    let part = |name: &str, file: Option<&str>, data: &[u8]| HttpPart {
        name: name.to_owned(),
        file_name: file.map(str::to_owned),
        content_type: None,
        data: data.to_vec(),
    };
    let send = async |parts: Vec<HttpPart>| {
        let request = HttpRequest {
            endpoint: "pve1".to_owned(),
            method: "POST".to_owned(),
            path: ["nodes", "pve1", "storage", "local", "upload"].map(str::to_owned).to_vec(),
            body: HttpBody::Multipart(parts),
            ..HttpRequest::default()
        };
        lab.pve.send(&request).await.unwrap()
    };
    let (content, file) = (part("content", None, b"iso"), part("filename", Some("a b.iso"), b"one"));
    let wrong = send(vec![file.clone(), content.clone()]).await;
    assert_eq!(body(&wrong)["errors"]["content"], "property is missing and it is not optional");
    let right = send(vec![content.clone(), file]).await;
    assert_eq!(lab.end(&body(&right)["data"]).await, "OK");
    assert_eq!(lab.pve.images().first().map(|image| image.file.as_str()), Some("a_b.iso"));
    let wrong = send(vec![content, part("filename", Some("a.txt"), b"one")]).await;
    assert_eq!(body(&wrong)["errors"]["filename"], "wrong file extension");
    let missing = "nodes/pve1/storage/local/content/local:iso+none.iso";
    let upid = lab.data("DELETE", missing, &[]).await;
    assert_eq!(lab.end(&upid).await, "OK", "a missing image is deleted with success");
    assert_eq!(lab.data("DELETE", missing, &[("delay", "2")]).await, Value::Null);
}

#[tokio::test]
async fn lists_are_filtered_and_permissions_come_before_existence() {
    let lab = lab();
    lab.pve.take_all();
    assert_eq!(lab.data("GET", "cluster/resources", &[]).await, json!([]));
    let text = "Permission check failed (/vms/4711, VM.Audit)";
    lab.refused("GET", "nodes/pve1/qemu/4711/config", &[], 403, text).await;
}

#[tokio::test]
async fn a_template_with_linked_clones_is_not_destroyed() {
    let lab = lab();
    let upid = lab.clone("104", &[("full", "0")]).await;
    assert_eq!(lab.end(&upid).await, "OK");
    let upid = lab.data("DELETE", "nodes/pve1/qemu/9000", &[]).await;
    let text = "base volume 'local:9000/base-9000-disk-0.qcow2' is still in use by linked cloned";
    assert_eq!(lab.end(&upid).await, text);
    let text = "parameter 'storage' not allowed for linked clones";
    let fields = [("newid", "105"), ("full", "0"), ("storage", "local")];
    lab.refused("POST", "nodes/pve1/qemu/9000/clone", &fields, 500, text).await;
}

#[tokio::test]
async fn a_log_ends_as_its_task_did() {
    let lab = lab();
    lab.pve.fail_clones(Some("clone failed: interrupted by signal"));
    let upid = lab.clone("104", &[]).await;
    assert_eq!(lab.end(&upid).await, "clone failed: interrupted by signal");
    let path = format!("nodes/pve1/tasks/{}/log", upid.as_str().unwrap());
    let log = lab.data("GET", &path, &[]).await;
    let last = log.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["t"], "TASK ERROR: clone failed: interrupted by signal");
    let response = lab.send("GET", "nodes/pve1/tasks/UPID:x/status", &[]).await;
    assert_eq!(body(&response)["errors"]["upid"], "no such task");
}
