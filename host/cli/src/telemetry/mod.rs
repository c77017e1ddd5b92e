//! Logs, metrics and traces.
//!
//! One target is held at `error` whatever the filter says: at `warn`, kube's client prints answers that it
//! can't decode, whole, and an answer may be a Secret.

mod otlp;

use std::{fmt, io, time::Duration};

use clap::ValueEnum;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::ParseError,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Json, JsonFields, Writer},
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use self::otlp::Otlp;
use crate::failure::Failure;

const HELD: &str = "kube_client::client=error";
/// Histograms are kept as samples until somebody reads them, or this often.
const UPKEEP: Duration = Duration::from_secs(5);
/// Upper bounds of histograms: from a call in memory to a machine's boot.
const SECONDS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 120.0];
/// The same for what takes a machine's whole way up, its image's included.
const READY: &[f64] = &[1.0, 5.0, 15.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
/// The same for what a guest takes of its memory.
const BYTES: &[f64] = &[262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0, 67_108_864.0];

/// What a log line looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people
    Text,
    /// One JSON object a line
    #[default]
    Json,
}

/// Whether it is a filter, as clap asks.
pub fn log_filter(text: &str) -> Result<String, ParseError> {
    EnvFilter::builder().parse(text).map(|_| text.to_owned())
}

/// What was asked for, less what must not be said. Of two directives for one target, the later counts.
fn filter(asked: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::builder().parse(format!("{asked},{HELD}"))
}

/// What was started; it is to be ended by [`Telemetry::flush`].
pub struct Telemetry(Option<Otlp>);

impl Telemetry {
    /// Logs to the standard error from here on, and sends telemetry where the environment says so.
    pub fn start(format: LogFormat, asked: &str) -> Result<Self, Failure> {
        let wanted = || {
            filter(asked)
                .map_err(|error| Failure::Setup(format!("the log filter {asked:?} can't be read: {error}")))
        };
        let Some(otlp) = Otlp::start()? else {
            log(format, wanted()?)?;
            return Ok(Self(None));
        };
        let stderr = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
        let stderr: Box<dyn Layer<Registry> + Send + Sync> = match format {
            LogFormat::Text => stderr.event_format(Traced(Line)).boxed(),
            LogFormat::Json => {
                let json = tracing_subscriber::fmt::format().json().flatten_event(true);
                stderr.event_format(Traced(json)).fmt_fields(JsonFields::new()).boxed()
            }
        };
        let lines = otlp.lines().map(|lines| lines.boxed());
        let layers = stderr.with_filter(wanted()?).and_then(lines.with_filter(wanted()?));
        started(tracing_subscriber::registry().with(layers).with(otlp.spans()))?;
        Ok(Self(Some(otlp)))
    }

    /// Only sends telemetry, beside what somebody else shows of it.
    pub fn beside(shown: impl Layer<Registry> + Send + Sync) -> Result<Self, Failure> {
        let otlp = Otlp::start()?;
        let registry = tracing_subscriber::registry().with(shown);
        match &otlp {
            None => started(registry)?,
            Some(otlp) => started(registry.with(otlp.lines()).with(otlp.spans()))?,
        }
        Ok(Self(otlp))
    }

    /// Sends metrics, too, where they are wanted.
    pub fn send_metrics(&mut self, handle: &PrometheusHandle) {
        if let Some(otlp) = &mut self.0 {
            otlp.send_metrics(handle.clone());
        }
    }

    /// Sends what is left, for a bounded time.
    pub async fn flush(self) {
        if let Some(otlp) = self.0 {
            otlp.flush().await;
        }
    }
}

fn started(subscriber: impl SubscriberInitExt) -> Result<(), Failure> {
    subscriber.try_init().map_err(|error| Failure::Setup(format!("logging did not start: {error}")))
}

fn log(format: LogFormat, filter: EnvFilter) -> Result<(), Failure> {
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => started(builder.event_format(Line).finish()),
        LogFormat::Json => started(builder.json().flatten_event(true).finish()),
    }
}

/// Time, level and what the event says. Its spans say the same again, at length: they are for JSON.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        SystemTime.format_time(&mut line)?;
        write!(line, " {:>5} ", event.metadata().level())?;
        context.format_fields(line.by_ref(), event)?;
        writeln!(line)
    }
}

/// A line with the trace and the span that it stands in.
struct Traced<F>(F);

/// The line as it is without them.
fn written<S, N>(
    format: &impl FormatEvent<S, N>,
    context: &FmtContext<'_, S, N>,
    event: &Event<'_>,
) -> Result<String, fmt::Error>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut text = String::new();
    format.format_event(context, Writer::new(&mut text), event)?;
    Ok(text)
}

impl<S, N> FormatEvent<S, N> for Traced<Line>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some((trace, span)) = otlp::here() else { return self.0.format_event(context, line, event) };
        let text = written(&self.0, context, event)?;
        writeln!(line, "{} trace_id={trace} span_id={span}", text.trim_end())
    }
}

impl<S, N> FormatEvent<S, N> for Traced<Format<Json>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some((trace, span)) = otlp::here() else { return self.0.format_event(context, line, event) };
        let text = written(&self.0, context, event)?;
        let inside = text.strip_prefix('{').unwrap_or(&text);
        write!(line, "{{\"trace_id\":\"{trace}\",\"span_id\":\"{span}\",{inside}")
    }
}

/// Collects metrics from here on; the handle renders them.
pub fn metrics() -> Result<PrometheusHandle, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Setup(format!("metrics did not start: {error}"));
    let recorder = PrometheusBuilder::new()
        .set_buckets(SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_bytes".to_owned()), BYTES))
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Suffix("_ready_seconds".to_owned()), READY)
        })
        .map_err(|error| failed(&error))?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| failed(&error))?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_filter_that_says_nothing_is_told_before_anything_starts() {
        assert!(log_filter("info").is_ok());
        assert!(log_filter("warn,egress_operator=trace").is_ok());
        assert!(log_filter("egress_operator=loud").is_err());
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(asked: &str, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter(asked).unwrap())
            .with_ansi(false)
            .event_format(Line)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_answer_that_may_be_a_secret_is_never_logged_whatever_the_filter_says() {
        for asked in
            ["trace", "kube_client::client=trace", "trace,kube_client=trace,kube_client::client=warn"]
        {
            let said = logged(asked, || {
                tracing::warn!(target: "kube_client::client", "a whole body");
                tracing::error!(target: "kube_client::client", "a failure");
            });
            assert!(!said.contains("a whole body") && said.contains("a failure"), "{asked}: {said}");
        }
    }

    #[test]
    fn a_line_says_what_the_event_says_and_not_its_spans() {
        let said = logged("info", || {
            let _span = tracing::info_span!("outer", long = "story").entered();
            tracing::info!(entry = "kubernetes", "swapped");
        });
        assert!(said.ends_with("  INFO swapped entry=\"kubernetes\"\n"), "{said}");
    }
}
