//! What the simulation promises of itself: the texts and the order in which things happen.

use std::{sync::Arc, time::Duration};

use egress_runtime::capability::{Http, HttpBody, HttpRequest, HttpResponse};
use serde_json::{Value, json};

use super::{Compute, ComputeSpec, OpError, schema};
use crate::clock::VirtualClock;

struct Site {
    compute: Compute,
    clock: VirtualClock,
}

impl Site {
    fn new() -> Self {
        let clock = VirtualClock::default();
        let spec = ComputeSpec {
            endpoint: "compute".to_owned(),
            manager: Some("rm".to_owned()),
            projects: [(
                "lab-project".to_owned(),
                vec!["us-central1-a".to_owned(), "us-central1-b".to_owned()],
            )]
            .into_iter()
            .collect(),
            page: 2,
        };
        Self { compute: Compute::new(Arc::new(clock.clone()), &spec), clock }
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Option<Value>,
    ) -> HttpResponse {
        let request = HttpRequest {
            endpoint: "compute".to_owned(),
            method: method.to_owned(),
            path: format!("projects/lab-project/{path}").split('/').map(str::to_owned).collect(),
            query: query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: body.map_or(HttpBody::None, |body| HttpBody::Bytes(body.to_string().into_bytes())),
            ..HttpRequest::default()
        };
        self.compute.send(&request).await.unwrap()
    }

    async fn json(&self, method: &str, path: &str, query: &[(&str, &str)], body: Option<Value>) -> Value {
        serde_json::from_slice(&self.ask(method, path, query, body).await.body).unwrap()
    }

    async fn insert(&self, name: &str, id: &str) -> Value {
        self.json("POST", "zones/us-central1-a/instances", &[("requestId", id)], Some(body(name))).await
    }

    fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn body(name: &str) -> Value {
    json!({
        "name": name,
        "machineType": "zones/us-central1-a/machineTypes/e2-small",
        "labels": { "a": "b" },
        "disks": [{ "initializeParams": { "sourceImage": "projects/p/global/images/x" } }],
        "networkInterfaces": [{ "accessConfigs": [{ "type": "ONE_TO_ONE_NAT" }] }],
    })
}

const ID: &str = "6f1d9c1e-7a7b-4f6e-9b52-000000000001";

#[tokio::test]
async fn an_insert_is_accepted_at_once_and_done_later() {
    let site = Site::new();
    let operation = site.insert("vm-1", ID).await;
    assert_eq!((&operation["kind"], &operation["status"]), (&json!("compute#operation"), &json!("RUNNING")));
    assert!(operation["id"].is_string() && operation["targetId"].is_string(), "64 bits are texts");
    let at = "zones/us-central1-a/instances/vm-1";
    assert_eq!(site.ask("GET", at, &[], None).await.status, 404, "it shows only after a while");
    site.wait(2);
    assert_eq!(site.json("GET", at, &[], None).await["status"], "PROVISIONING");
    site.wait(7);
    let seen = site.json("GET", at, &[], None).await;
    assert_eq!(seen["status"], "RUNNING");
    assert_eq!(seen.pointer("/networkInterfaces/0/accessConfigs/0/natIP"), None, "its address comes later");
    site.wait(1);
    let seen = site.json("GET", at, &[], None).await;
    assert!(seen.pointer("/networkInterfaces/0/accessConfigs/0/natIP").is_some());
    assert!(seen["selfLink"].as_str().unwrap().starts_with("https://www.googleapis.com/"));
    let path = format!("zones/us-central1-a/operations/{}", operation["name"].as_str().unwrap());
    assert_eq!(site.json("GET", &path, &[], None).await["status"], "DONE");
}

#[tokio::test]
async fn a_repeated_request_id_begins_nothing_new() {
    let site = Site::new();
    let first = site.insert("vm-1", ID).await;
    assert_eq!(site.insert("vm-1", ID).await["name"], first["name"]);
    let other = "6f1d9c1e-7a7b-4f6e-9b52-000000000002";
    assert_eq!(site.insert("vm-1", other).await["error"]["errors"][0]["reason"], "alreadyExists");
    let zero = "00000000-0000-0000-0000-000000000000";
    assert_eq!(site.insert("vm-2", zero).await["error"]["code"], 400);
}

#[tokio::test]
async fn a_failure_arrives_after_the_200_and_nothing_is_left() {
    let site = Site::new();
    site.compute
        .weather(|weather| weather.insert_fails.push_back(OpError::quota("CPUS", 8.0, "us-central1")));
    let operation = site.insert("vm-1", ID).await;
    assert_eq!(operation["status"], "RUNNING");
    site.wait(4);
    let path = format!("zones/us-central1-a/operations/{}", operation["name"].as_str().unwrap());
    let done = site.json("GET", &path, &[], None).await;
    assert_eq!(
        done["error"]["errors"][0]["message"],
        "Quota 'CPUS' exceeded.  Limit: 8.0 in region us-central1."
    );
    assert_eq!(done["httpErrorStatusCode"], 403);
    assert_eq!(site.ask("GET", "zones/us-central1-a/instances/vm-1", &[], None).await.status, 404);
}

#[tokio::test]
async fn a_list_has_pages_and_says_what_it_leaves_out() {
    let site = Site::new();
    for number in 1..=3 {
        site.insert(&format!("vm-{number}"), &format!("6f1d9c1e-7a7b-4f6e-9b52-00000000000{number}")).await;
    }
    site.wait(2);
    let page = site.json("GET", "aggregated/instances", &[("filter", "(labels.a=b)")], None).await;
    assert_eq!(page["items"]["zones/us-central1-a"]["instances"].as_array().unwrap().len(), 2);
    assert_eq!(page["items"]["zones/us-central1-b"]["warning"]["code"], "NO_RESULTS_ON_PAGE");
    let token = page["nextPageToken"].as_str().unwrap();
    let rest = site.json("GET", "aggregated/instances", &[("pageToken", token)], None).await;
    assert_eq!(rest["items"]["zones/us-central1-a"]["instances"].as_array().unwrap().len(), 1);
    site.compute.weather(|weather| {
        weather.unreachable.insert("us-central1-a".to_owned());
    });
    assert_eq!(site.ask("GET", "aggregated/instances", &[], None).await.status, 503);
    let partial = site.json("GET", "aggregated/instances", &[("returnPartialSuccess", "true")], None).await;
    assert_eq!(partial["unreachables"], json!(["projects/lab-project/zones/us-central1-a"]));
}

#[tokio::test]
async fn a_mask_leaves_out_what_it_does_not_name() {
    let site = Site::new();
    site.insert("vm-1", ID).await;
    site.wait(2);
    let mask = [("fields", "kind,items/*/warning,items/*/instances(name,labels)")];
    let page = site.json("GET", "aggregated/instances", &mask, None).await;
    assert_eq!(
        page["items"]["zones/us-central1-a"]["instances"][0],
        json!({ "name": "vm-1", "labels": { "a": "b" } })
    );
    assert!(page.get("selfLink").is_none() && page["items"]["zones/us-central1-b"]["warning"].is_object());
    assert_eq!(site.ask("GET", "aggregated/instances", &[("fields", "items(")], None).await.status, 400);
}

#[tokio::test]
async fn labels_change_only_for_who_has_read_them() {
    let site = Site::new();
    site.insert("vm-1", ID).await;
    site.wait(10);
    let at = "zones/us-central1-a/instances/vm-1";
    let fingerprint = site.json("GET", at, &[], None).await["labelFingerprint"].clone();
    let change =
        |fingerprint: &Value| Some(json!({ "labels": { "a": "c" }, "labelFingerprint": fingerprint }));
    let path = format!("{at}/setLabels");
    assert_eq!(site.ask("POST", &path, &[], change(&fingerprint)).await.status, 200);
    let refused = site.ask("POST", &path, &[], change(&fingerprint)).await;
    assert_eq!(refused.status, 412, "it is another one by now");
}

#[tokio::test]
async fn nothing_is_answered_that_the_api_does_not_describe() {
    let site = Site::new();
    site.compute.reserve("us-central1", "egress-1", "198.51.100.1");
    site.compute.weather(|weather| {
        weather.unreachable.insert("us-central1-b".to_owned());
        weather.list_warning = Some("PARTIAL_SUCCESS".to_owned());
        weather.deprecated_images.insert("projects/lab-project/global/images/x".to_owned());
    });
    site.insert("vm-1", ID).await;
    site.wait(20);
    site.compute
        .weather(|weather| weather.insert_fails.push_back(OpError::stockout("lab-project", "z", "a,b")));
    site.insert("vm-2", "6f1d9c1e-7a7b-4f6e-9b52-000000000002").await;
    site.compute
        .weather(|weather| weather.insert_fails.push_back(OpError::quota("CPUS", 8.0, "us-central1")));
    site.insert("vm-3", "6f1d9c1e-7a7b-4f6e-9b52-000000000003").await;
    let rule =
        json!({ "name": "rule", "priority": 1000, "allowed": [{ "IPProtocol": "tcp", "ports": ["3128"] }] });
    site.ask(
        "POST",
        "global/firewalls",
        &[("requestId", "6f1d9c1e-7a7b-4f6e-9b52-000000000004")],
        Some(rule),
    )
    .await;
    site.wait(20);
    for (schema, path, query) in [
        ("Instance", "zones/us-central1-a/instances/vm-1", vec![]),
        ("InstanceAggregatedList", "aggregated/instances", vec![("returnPartialSuccess", "true")]),
        ("OperationList", "zones/us-central1-a/operations", vec![]),
        ("Region", "regions/us-central1", vec![]),
        ("Image", "global/images/x", vec![]),
        ("AddressList", "regions/us-central1/addresses", vec![]),
        ("FirewallList", "global/firewalls", vec![]),
        ("Firewall", "global/firewalls/rule", vec![]),
    ] {
        let response = site.ask("GET", path, &query, None).await;
        assert_eq!(response.status, 200, "{path}");
        let answer: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(schema::faults(schema, &answer), Vec::<String>::new(), "{path}");
    }
    assert!(
        !schema::faults("Region", &json!({ "id": 7, "quotas": [{ "no": 1 }] })).is_empty(),
        "it finds something"
    );
}
