//! What waits to be sent is bounded, and what is lost is counted.
//!
//! A collector that is down, or slow, costs telemetry and nothing else: whoever makes a span never waits, and what
//! finds no room is dropped. The SDK bounds its queues, too, and says of what it drops only that it did; so the
//! bound is kept here, where it is counted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::counter;
use opentelemetry::{Context, InstrumentationScope, logs::Severity};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    logs::{LogBatch, LogExporter, LogProcessor, SdkLogRecord},
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};
use tracing::{info, warn};

use super::{names, settings::Signal};

/// How much of one signal waits, shared by who puts in and who takes out.
#[derive(Clone, Debug)]
pub struct Room {
    signal: Signal,
    waiting: Arc<AtomicUsize>,
    most: usize,
    fails: Arc<AtomicBool>,
}

impl Room {
    pub fn new(signal: Signal, most: usize) -> Self {
        Self { signal, waiting: Arc::default(), most, fails: Arc::default() }
    }

    fn enter(&self) -> bool {
        let one_more = |waiting| (waiting < self.most).then_some(waiting + 1);
        let entered = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        if !entered {
            self.lost("queue-full", 1);
        }
        entered
    }

    fn leave(&self, count: usize) {
        let fewer = |waiting: usize| Some(waiting.saturating_sub(count));
        let _ = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }

    fn lost(&self, why: &'static str, count: usize) {
        counter!("egress_telemetry_lost_total", "signal" => self.signal.as_str(), "reason" => why)
            .increment(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Told when it begins to fail and when that is over: a collector may be away for days. The SDK hears of a
    /// success in any case, and adds no lines of its own.
    pub fn sent(&self, outcome: OTelSdkResult, count: usize) -> OTelSdkResult {
        let (signal, said) = (self.signal.as_str(), self.fails.load(Ordering::Relaxed));
        counter!(
            "egress_telemetry_exports_total",
            "signal" => signal, "outcome" => if outcome.is_ok() { "ok" } else { "failed" }
        )
        .increment(1);
        match outcome {
            Ok(()) => {
                if said {
                    info!(signal, "telemetry is exported again");
                }
                self.fails.store(false, Ordering::Relaxed);
            }
            Err(error) => {
                self.lost("export-failed", count);
                if !said {
                    warn!(
                        signal,
                        %error,
                        "telemetry can't be exported, and is dropped until it can; see OTEL_EXPORTER_OTLP_ENDPOINT"
                    );
                }
                self.fails.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Lets in what there is room for.
#[derive(Debug)]
pub struct Entrance<P> {
    pub room: Room,
    pub inner: P,
}

impl<P: SpanProcessor> SpanProcessor for Entrance<P> {
    fn on_start(&self, span: &mut Span, cx: &Context) {
        self.inner.on_start(span, cx);
    }

    fn on_end(&self, span: SpanData) {
        // What is not sampled is not queued.
        if span.span_context.is_sampled() && self.room.enter() {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<P: LogProcessor> LogProcessor for Entrance<P> {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.room.enter() {
            self.inner.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn event_enabled(&self, level: Severity, target: &str, name: Option<&str>) -> bool {
        self.inner.event_enabled(level, target, name)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Where it leaves, under the names that OpenTelemetry gives things.
#[derive(Debug)]
pub struct Exit<E> {
    pub room: Room,
    pub inner: E,
}

impl<E: SpanExporter> SpanExporter for Exit<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        self.room.leave(count);
        batch.iter_mut().for_each(names::span);
        self.room.sent(self.inner.export(batch).await, count)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Exit<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let count = batch.iter().count();
        self.room.leave(count);
        self.room.sent(self.inner.export(batch).await, count)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn event_enabled(&self, level: Severity, target: &str, name: Option<&str>) -> bool {
        self.inner.event_enabled(level, target, name)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        time::{Instant, SystemTime},
    };

    use metrics_exporter_prometheus::PrometheusBuilder;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
    use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor};

    use super::*;

    /// Answers only when it is told to.
    #[derive(Debug)]
    struct Stuck(std::sync::Mutex<mpsc::Receiver<()>>);

    impl SpanExporter for Stuck {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            let _ = self.0.lock().unwrap().recv();
            Ok(())
        }
    }

    fn span() -> SpanData {
        let (trace, id) = (TraceId::from_bytes([1; 16]), SpanId::from_bytes([2; 8]));
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "a".into(),
            start_time: SystemTime::now(),
            end_time: SystemTime::now(),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::default(),
        }
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted_and_nobody_waits() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let (answer, answers) = mpsc::channel();
        let room = Room::new(Signal::Traces, 100);
        let exit = Exit { room: room.clone(), inner: Stuck(std::sync::Mutex::new(answers)) };
        let config =
            BatchConfigBuilder::default().with_max_queue_size(100).with_max_export_batch_size(10).build();
        let inner = BatchSpanProcessor::builder(exit).with_batch_config(config).build();
        let entrance = Entrance { room: room.clone(), inner };
        let began = Instant::now();
        metrics::with_local_recorder(&recorder, || (0..10_000).for_each(|_| entrance.on_end(span())));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(room.waiting.load(Ordering::Relaxed) <= 100);
        let text = handle.render();
        let lost = "egress_telemetry_lost_total{signal=\"traces\",reason=\"queue-full\"} ";
        let lost: u64 = text.lines().find_map(|line| line.strip_prefix(lost)).unwrap().parse().unwrap();
        // The room, and a batch that is stuck on its way.
        assert!((10_000 - 110..=10_000 - 100).contains(&lost), "{lost}");
        drop(answer);
        entrance.shutdown_with_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!(room.waiting.load(Ordering::Relaxed), 0, "what leaves makes room");
    }

    #[test]
    fn a_failure_is_counted_and_told_once_and_so_is_its_end() {
        let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let writer = Lines(Arc::clone(&lines));
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let failure =
            || opentelemetry_sdk::error::OTelSdkError::InternalFailure("connection refused".to_owned());
        tracing::subscriber::with_default(subscriber, || {
            metrics::with_local_recorder(&recorder, || {
                let room = Room::new(Signal::Logs, 10);
                for outcome in [Ok(()), Err(failure()), Err(failure()), Ok(()), Ok(())] {
                    room.sent(outcome, 7).unwrap();
                }
            });
        });
        let said = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(said.contains("can't be exported") && said.contains("connection refused"), "{said}");
        assert!(said.contains("exported again"), "{said}");
        let text = handle.render();
        let lost = "egress_telemetry_lost_total{signal=\"logs\",reason=\"export-failed\"} 14";
        assert!(text.contains(lost), "{text}");
    }

    #[derive(Clone)]
    struct Lines(Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
