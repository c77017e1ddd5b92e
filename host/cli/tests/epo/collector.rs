//! A collector of telemetry: takes OTLP over HTTP, keeps all of it, and what it was made of.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
        trace::v1::ExportTraceServiceRequest,
    },
    common::v1::{KeyValue, any_value::Value},
    logs::v1::LogRecord,
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message;

/// Ends with its process.
#[derive(Clone)]
pub struct Collector {
    at: SocketAddr,
    taken: Arc<Mutex<Taken>>,
}

/// All that came.
#[derive(Default)]
pub struct Taken {
    pub spans: Vec<Span>,
    pub lines: Vec<LogRecord>,
    pub metrics: Vec<Metric>,
    /// Of whom it came.
    pub resources: Vec<BTreeMap<String, String>>,
    /// As they came, heads and all.
    pub bytes: Vec<u8>,
}

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self { at: listener.local_addr().unwrap(), taken: Arc::default() };
        let own = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || while own.serve(&stream).is_some() {});
            }
        });
        collector
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    pub fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request, if there is another one.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let (mut reader, mut head) = (BufReader::new(stream), Vec::new());
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head).ok()? == 0 {
                return None;
            }
        }
        let text = String::from_utf8_lossy(&head).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = text.split(' ').nth(1)?.to_owned();
        self.take(&path, &head, &body);
        let mut writer = stream;
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()
    }

    fn take(&self, path: &str, head: &[u8], body: &[u8]) {
        let mut taken = self.taken();
        taken.bytes.extend_from_slice(head);
        taken.bytes.extend_from_slice(body);
        match path {
            "/v1/traces" => {
                for of in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                    taken.resources.push(attributes(&of.resource.unwrap().attributes));
                    taken.spans.extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans));
                }
            }
            "/v1/logs" => {
                for of in ExportLogsServiceRequest::decode(body).unwrap().resource_logs {
                    taken.resources.push(attributes(&of.resource.unwrap().attributes));
                    taken.lines.extend(of.scope_logs.into_iter().flat_map(|scope| scope.log_records));
                }
            }
            "/v1/metrics" => {
                for of in ExportMetricsServiceRequest::decode(body).unwrap().resource_metrics {
                    taken.resources.push(attributes(&of.resource.unwrap().attributes));
                    taken.metrics.extend(of.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
                }
            }
            other => panic!("{other} is no path of OTLP"),
        }
    }
}

/// As text.
pub fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

impl Taken {
    /// Which has this id.
    pub fn span(&self, id: &[u8]) -> Option<&Span> {
        self.spans.iter().find(|span| span.span_id == id)
    }

    /// What came, as text where it is text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
