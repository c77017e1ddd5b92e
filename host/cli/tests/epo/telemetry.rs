//! What reaches a collector, and what becomes of the work when none is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Stdio,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use serde_json::Value;

use super::{
    collector::{Collector, Taken, attributes},
    command::{Ran, component_of, epo, file, ran, workspace},
};

const PROVIDERS: [&str; 5] = ["kubernetes", "kvm", "kvm2", "proxmox", "gcp"];
const MACHINES: [&str; 4] = ["kvm", "kvm2", "proxmox", "gcp"];
/// What an instance's life calls.
const LIFE: [&str; 5] = ["check", "create", "get", "list", "delete"];
/// User-data of which no line may come out.
const USER_DATA: &str = "#cloud-config\npassword: sentinel-one-of-user-data\n";
const SENTINELS: [&str; 3] = ["sentinel-one", "c2VudGluZW", "sentinel-of-a-header"];

/// A life at the simulated backend, traced to this endpoint.
fn life(provider: &str, endpoint: &str, more: &[(&str, &str)]) -> Ran {
    let (_folder, user_data) = file("user-data", USER_DATA.as_bytes());
    let component = component_of(provider);
    let mut command = epo();
    command.args(["provider", "call", component.to_str().unwrap()]).args(LIFE);
    command.args(["--until-done", "-o", "json"]);
    // A Pod runs no cloud-init.
    if provider != "kubernetes" {
        command.args(["--user-data", &user_data]);
    }
    let (_folder, entry) = file("gcp.yaml", gcp_entry().as_bytes());
    if provider == "gcp" {
        // The example in its schema is of a backend that nobody simulates.
        command.args(["--entry", &entry]);
    }
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).envs(more.iter().copied());
    ran(command.stdin(Stdio::null()).output().unwrap())
}

fn gcp_entry() -> String {
    let samples = std::fs::read_to_string(workspace().join("deploy/samples/gcp.yaml")).unwrap();
    let object: Value = serde_saphyr::from_str(samples.split("\n---\n").next().unwrap()).unwrap();
    object["data"]["gcp"].as_str().unwrap().to_owned()
}

fn host_calls(taken: &Taken) -> Vec<(&Span, &Span)> {
    let calls = taken.spans.iter().filter(|span| span.kind == SpanKind::Client as i32);
    calls.map(|call| (call, taken.span(&call.parent_span_id).expect("its operation came, too"))).collect()
}

/// What the journal of the simulated backend has of operations and their host calls, and how often. A connection
/// that is open already is none of its calls.
fn journal(shown: &str) -> BTreeMap<(String, String), usize> {
    let (mut operation, mut counted) = (String::new(), BTreeMap::new());
    for line in shown.lines() {
        let Some((_, said)) = line.split_once("s - ") else { continue };
        let name = said.split_whitespace().next().unwrap().to_owned();
        match said.starts_with(' ') {
            false => operation = name,
            true if name == "libvirt.open" => {}
            true => *counted.entry((operation.clone(), name)).or_default() += 1,
        }
    }
    counted
}

#[test]
fn of_every_provider_each_operation_comes_with_its_host_calls_within_it() {
    for provider in PROVIDERS {
        let collector = Collector::start();
        let ran =
            life(provider, &collector.url(), &[("OTEL_EXPORTER_OTLP_HEADERS", "x=sentinel-of-a-header")]);
        assert_eq!(ran.code, 0, "{provider}: {}", ran.err);
        let taken = collector.taken();
        for (call, operation) in host_calls(&taken) {
            assert_eq!(call.trace_id, operation.trace_id, "{provider}: {call:?}");
            assert!(operation.name.starts_with("provider."), "{provider}: {operation:?}");
            assert!(operation.start_time_unix_nano <= call.start_time_unix_nano, "{provider}: {call:?}");
            assert!(call.end_time_unix_nano <= operation.end_time_unix_nano, "{provider}: {call:?}");
            let (own, above) = (attributes(&call.attributes), attributes(&operation.attributes));
            assert_eq!(own["egress.entry"], above["egress.entry"]);
            assert_eq!(own["egress.host_call"], call.name);
        }
        let mut counted = BTreeMap::new();
        for (call, operation) in host_calls(&taken).iter().filter(|(call, _)| call.name != "libvirt.open") {
            *counted.entry((operation.name.clone(), call.name.clone())).or_default() += 1;
        }
        let mut told = journal(&ran.err);
        // The stage check of the load looks at the places, before anything is shown.
        told.retain(|(operation, _), _| operation != "provider.check");
        counted.retain(|(operation, _), _| operation != "provider.check");
        assert_eq!(counted, told, "{provider}");
        for operation in ["provider.create", "provider.get", "provider.delete", "provider.list"] {
            assert!(counted.keys().any(|(of, _)| of == operation), "{provider}: {operation}");
        }
        let kinds: BTreeSet<&str> =
            host_calls(&taken).iter().map(|(call, _)| call.name.split('.').next().unwrap()).collect();
        let wanted: &[&str] = match provider {
            "kubernetes" => &["kubernetes"],
            "kvm" | "kvm2" => &["libvirt", "transfer"],
            _ => &["http"],
        };
        assert_eq!(kinds, wanted.iter().copied().collect(), "{provider}");
        assert!(taken.resources.iter().all(|of| of["service.name"] == "egress-proxies-operator"));
    }
}

#[test]
fn http_calls_are_named_as_everybody_names_them_and_a_failed_one_is_an_error() {
    let collector = Collector::start();
    assert_eq!(life("proxmox", &collector.url(), &[("OTEL_SERVICE_NAME", "mine")]).code, 0);
    let taken = collector.taken();
    let sends: Vec<_> = taken.spans.iter().filter(|span| span.name == "http.send").collect();
    for send in &sends {
        let of = attributes(&send.attributes);
        assert!(of.contains_key("http.request.method") && of["url.path"].starts_with('/'), "{of:?}");
        assert!(of["http.response.status_code"].parse::<u16>().is_ok(), "{of:?}");
    }
    let methods: BTreeSet<_> =
        sends.iter().map(|send| attributes(&send.attributes)["http.request.method"].clone()).collect();
    assert!(methods.contains("GET") && methods.contains("POST"), "{methods:?}");
    assert!(taken.resources.iter().all(|of| of["service.name"] == "mine"));
    drop(taken);

    // What is not there is an answer of the component's, and a failure of its call.
    let collector = Collector::start();
    let component = component_of("kubernetes");
    let mut command = epo();
    command.args(["provider", "call", component.to_str().unwrap(), "get"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    assert_eq!(ran(command.stdin(Stdio::null()).output().unwrap()).code, 1);
    let taken = collector.taken();
    let of = |name: &str| taken.spans.iter().find(|span| span.name == name).unwrap();
    let failed =
        |span: &Span| span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32);
    assert!(failed(of("kubernetes.get")) && !failed(of("provider.get")), "{:?}", taken.spans);
    assert_eq!(attributes(&of("provider.get").attributes)["error.type"], "not-found");
    assert_eq!(attributes(&of("kubernetes.get").attributes)["error.type"], "status");
}

#[test]
fn a_log_line_bears_the_trace_and_the_span_that_it_was_said_in() {
    let collector = Collector::start();
    assert_eq!(life("kubernetes", &collector.url(), &[]).code, 0);
    let taken = collector.taken();
    let ended: Vec<_> =
        taken.lines.iter().filter(|line| format!("{:?}", line.body).contains("operation ended")).collect();
    assert!(ended.len() >= LIFE.len(), "{}", ended.len());
    for line in ended {
        let span = taken.span(&line.span_id).expect("its span came, too");
        assert_eq!(span.trace_id, line.trace_id);
        let operation = &attributes(&line.attributes)["operation"];
        assert_eq!(span.name, format!("provider.{operation}"));
    }
}

#[test]
fn no_user_data_and_no_credential_of_the_collector_is_in_what_is_exported() {
    for provider in MACHINES {
        let collector = Collector::start();
        let header = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=sentinel-of-a-header")];
        assert_eq!(life(provider, &collector.url(), &header).code, 0);
        let taken = collector.taken();
        let text = taken.text();
        assert!(!taken.spans.is_empty() && !taken.lines.is_empty());
        // It arrives where it belongs, in the request's head, and nowhere else.
        let heads = text.matches("authorization: sentinel-of-a-header").count();
        for sentinel in SENTINELS {
            let found = text.matches(sentinel).count();
            let wanted = if sentinel == "sentinel-of-a-header" { heads } else { 0 };
            assert_eq!(found, wanted, "{provider}: {sentinel}");
        }
        assert!(heads > 0);
    }
}

#[test]
fn whatever_the_collector_does_the_work_is_done_and_ends_in_time() {
    // Refuses connections; takes them, and says nothing ever.
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let began = Instant::now();
        let ran = life("kubernetes", &format!("http://{address}"), &[]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.contains("\"outcome\": \"done\""), "{}", ran.out);
        // Much longer than the work, and than what the end may take.
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}

#[test]
fn what_the_environment_asks_for_and_is_not_done_is_told_before_anything_begins() {
    let ran = life("kubernetes", "http://127.0.0.1:9", &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    ran.refused(2, &["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"]);
}

#[test]
fn nothing_leaves_where_it_is_disabled() {
    let collector = Collector::start();
    assert_eq!(life("kubernetes", &collector.url(), &[("OTEL_SDK_DISABLED", "true")]).code, 0);
    assert_eq!(life("kubernetes", &collector.url(), &[("OTEL_TRACES_SAMPLER", "always_off")]).code, 0);
    let taken = collector.taken();
    assert!(taken.spans.is_empty());
    assert!(taken.lines.iter().all(|line| line.span_id.is_empty() || line.flags & 1 == 0), "not sampled");
}
