//! Traces, logs and metrics to a collector, over OTLP.
//!
//! Off unless the environment names an endpoint, and then there is nothing of it: no layer, no thread, no queue.
//! Spans and log lines go through the SDK's batches, each on a thread of its own; see [`bounded`] for what happens
//! when the collector does not keep up.

mod bounded;
mod client;
mod figures;
mod names;
mod settings;
mod stories;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use egress_operator::core::story;
use http::{Request, header::CONTENT_TYPE};
use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{LogExporter, SpanExporter, WithHttpConfig};
use opentelemetry_proto::{
    tonic::resource::v1::Resource as WireResource, transform::common::tonic::ResourceAttributesWithSchema,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkError,
    logs::{BatchConfigBuilder as LogBatches, BatchLogProcessor, SdkLogger, SdkLoggerProvider},
    trace::{BatchConfigBuilder as SpanBatches, BatchSpanProcessor, SdkTracer, SdkTracerProvider},
};
use prost::Message;
use tracing::{Level, Metadata, Subscriber, warn};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::{Layer, filter::LevelFilter, filter::filter_fn, registry::LookupSpan};

use self::{
    bounded::{Entrance, Exit, Room},
    client::Collector,
    settings::{Settings, Signal, Target},
    stories::{Ids, Sampling, Stories},
};
use crate::failure::Failure;

const NAME: &str = "egress-proxies-operator";
/// What ends takes at most this with it to send what is left.
const FLUSH: Duration = Duration::from_secs(5);
/// Under this target stands what components say.
const GUESTS: &str = "provider";
/// Whose spans and lines leave: ours. What libraries say may hold whole answers, and they talk while we send.
const OURS: [&str; 4] = ["egress_", "epo", "libvirt_remote", GUESTS];

/// What is sent, while it is sent.
pub struct Otlp {
    settings: Settings,
    collector: Collector,
    resource: Resource,
    began: SystemTime,
    traces: Option<SdkTracerProvider>,
    logs: Option<SdkLoggerProvider>,
    figures: Option<Arc<Figures>>,
}

/// Where metrics come from and go to.
struct Figures {
    handle: PrometheusHandle,
    target: Target,
    collector: Collector,
    resource: WireResource,
    began: SystemTime,
    room: Room,
}

impl Otlp {
    /// As the environment says; None where it says nothing. To be called on the runtime that sends.
    pub fn start() -> Result<Option<Self>, Failure> {
        let Some(settings) = Settings::read(&settings::environment)? else { return Ok(None) };
        let collector = Collector::new(settings.authorities.as_deref(), settings.within)?;
        let resource = resource();
        let traces = match settings.traces {
            true => Some(traces(&settings, &collector, &resource)?),
            false => None,
        };
        let logs = match settings.logs {
            true => Some(logs(&settings, &collector, &resource)?),
            false => None,
        };
        if let Some(traces) = &traces {
            story::tell_by(Box::new(Stories(traces.tracer(NAME))));
        }
        let began = SystemTime::now();
        Ok(Some(Self { settings, collector, resource, began, traces, logs, figures: None }))
    }

    /// What makes traces of spans, and keeps what components say within theirs.
    pub fn spans<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let tracer = self.traces.as_ref()?.tracer(NAME);
        let layer: OpenTelemetryLayer<S, SdkTracer> = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false)
            .with_error_events_to_status(false)
            .with_error_events_to_exceptions(false)
            .with_error_fields_to_exceptions(false)
            .with_error_records_to_exceptions(false);
        let wanted = |about: &Metadata<'_>| {
            *about.level() <= Level::INFO && is_ours(about) && (about.is_span() || about.target() == GUESTS)
        };
        Some(layer.with_filter(filter_fn(wanted).with_max_level_hint(LevelFilter::INFO)))
    }

    /// What sends log lines, each with its trace and span.
    pub fn lines<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let bridge: OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger> =
            OpenTelemetryTracingBridge::new(self.logs.as_ref()?);
        Some(bridge.with_filter(filter_fn(is_ours)))
    }

    /// Sends what the handle shows, once every interval.
    pub fn send_metrics(&mut self, handle: PrometheusHandle) {
        let Some(target) = self.settings.metrics.clone() else { return };
        let figures = Arc::new(Figures {
            handle,
            target,
            collector: self.collector.clone(),
            resource: WireResource {
                attributes: ResourceAttributesWithSchema::from(&self.resource).attributes.0,
                ..WireResource::default()
            },
            began: self.began,
            room: Room::new(Signal::Metrics, 1),
        });
        self.figures = Some(Arc::clone(&figures));
        let every = self.settings.every;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                figures.send().await;
            }
        });
    }

    /// Sends what is left, for a bounded time.
    pub async fn flush(self) {
        let (over, waits) = tokio::sync::oneshot::channel();
        let Self { traces, logs, figures, .. } = self;
        // It blocks, and a thread of the runtime's would be waited for when the process ends.
        std::thread::spawn(move || {
            // What could not be sent was told and counted where that was found.
            let _ = traces.map(|traces| traces.shutdown_with_timeout(FLUSH));
            let _ = logs.map(|logs| logs.shutdown_with_timeout(FLUSH));
            let _ = over.send(());
        });
        let all = async {
            if let Some(figures) = figures {
                figures.send().await;
            }
            let _ = waits.await;
        };
        if tokio::time::timeout(FLUSH, all).await.is_err() {
            warn!(within = ?FLUSH, "the collector did not take the last telemetry in time");
        }
    }
}

impl Figures {
    async fn send(&self) {
        let outcome = self.sent().await.map_err(|error| OTelSdkError::InternalFailure(error.to_string()));
        // It never fails: it tells and counts.
        drop(self.room.sent(outcome, 1));
    }

    async fn sent(&self) -> Result<(), HttpError> {
        let times = figures::Times { began: self.began, now: SystemTime::now() };
        let message = figures::request(&self.handle.render(), self.resource.clone(), times);
        let mut request = Request::post(&self.target.url).header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.target.headers {
            request = request.header(name, value);
        }
        let answer = self.collector.send(request.body(Bytes::from(message.encode_to_vec()))?).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("the collector answered {status}").into()),
        }
    }
}

fn is_ours(about: &Metadata<'_>) -> bool {
    OURS.iter().any(|ours| about.target().starts_with(ours))
}

/// Who it is. What the environment says counts more.
fn resource() -> Resource {
    let own = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", format!("{:032x}", rand::random::<u128>())),
        ])
        .build();
    let said = Resource::builder().build();
    let mut all = Resource::builder_empty().with_attributes(own.iter().map(pair));
    all = all.with_attributes(said.iter().map(pair));
    let named = said
        .iter()
        .any(|(key, value)| key.as_str() == "service.name" && !value.as_str().starts_with("unknown_service"));
    if named { all.build() } else { all.with_service_name(NAME).build() }
}

fn pair((key, value): (&opentelemetry::Key, &opentelemetry::Value)) -> KeyValue {
    KeyValue::new(key.clone(), value.clone())
}

fn setup(error: &dyn std::fmt::Display) -> Failure {
    Failure::Setup(format!("telemetry did not start: {error}"))
}

fn traces(
    settings: &Settings,
    collector: &Collector,
    resource: &Resource,
) -> Result<SdkTracerProvider, Failure> {
    let exporter = SpanExporter::builder().with_http().with_http_client(collector.clone());
    let room = Room::new(Signal::Traces, settings.spans_queue);
    let exit = Exit { room: room.clone(), inner: exporter.build().map_err(|error| setup(&error))? };
    let batches = SpanBatches::default().with_max_queue_size(settings.spans_queue).build();
    let inner = BatchSpanProcessor::builder(exit).with_batch_config(batches).build();
    Ok(SdkTracerProvider::builder()
        .with_id_generator(Ids::default())
        .with_sampler(Sampling(settings.sampled))
        .with_resource(resource.clone())
        .with_span_processor(Entrance { room, inner })
        .build())
}

fn logs(
    settings: &Settings,
    collector: &Collector,
    resource: &Resource,
) -> Result<SdkLoggerProvider, Failure> {
    let exporter = LogExporter::builder().with_http().with_http_client(collector.clone());
    let room = Room::new(Signal::Logs, settings.logs_queue);
    let exit = Exit { room: room.clone(), inner: exporter.build().map_err(|error| setup(&error))? };
    let batches = LogBatches::default().with_max_queue_size(settings.logs_queue).build();
    let inner = BatchLogProcessor::builder(exit).with_batch_config(batches).build();
    Ok(SdkLoggerProvider::builder()
        .with_resource(resource.clone())
        .with_log_processor(Entrance { room, inner })
        .build())
}

/// The trace and the span in which something is said, if anybody keeps them.
pub fn here() -> Option<(String, String)> {
    use opentelemetry::trace::TraceContextExt;
    opentelemetry::Context::map_current(|context| {
        let span = context.span().span_context().clone();
        span.is_valid().then(|| (span.trace_id().to_string(), span.span_id().to_string()))
    })
}
