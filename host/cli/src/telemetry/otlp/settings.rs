//! What the environment says about telemetry, in the variables that OpenTelemetry names.
//!
//! The exporters read endpoints, headers and timeouts themselves. Here is what decides before there is one: whether
//! a signal is sent at all, and what we can't do and must say so of, rather than send nothing silently.

use std::{env, time::Duration};

use crate::failure::Failure;

/// One of the kinds of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}

/// Reads a variable; an empty one counts as not set, as OpenTelemetry has it.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's own environment.
pub fn environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// What is sent, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub traces: bool,
    /// The share of traces that is kept.
    pub sampled: f64,
    pub logs: bool,
    /// Where metrics go, with what headers; None where they don't.
    pub metrics: Option<Target>,
    pub every: Duration,
    /// A file with authorities in PEM, in place of the system's.
    pub authorities: Option<String>,
    /// The most that one request may take.
    pub within: Duration,
    /// Spans, and log lines, that may wait to be sent.
    pub spans_queue: usize,
    pub logs_queue: usize,
}

/// A place that takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub url: String,
    pub headers: Vec<(String, String)>,
}

const EVERY: Duration = Duration::from_secs(60);
const WITHIN: Duration = Duration::from_secs(10);
const QUEUE: usize = 2048;
/// However much somebody asks for: so many spans take about 64 MiB.
const MOST_QUEUE: usize = 65_536;

impl Settings {
    /// None where nothing is to be sent.
    pub fn read(variable: Variable<'_>) -> Result<Option<Self>, Failure> {
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let is_sent = |signal: Signal| sent(variable, signal);
        let (traces, metrics, logs) =
            (is_sent(Signal::Traces)?, is_sent(Signal::Metrics)?, is_sent(Signal::Logs)?);
        if !(traces || metrics || logs) {
            return Ok(None);
        }
        let number = |name: &str, otherwise: u64| match variable(name) {
            None => Ok(otherwise),
            Some(text) => text.trim().parse().map_err(|_| wrong(name, &text, "give a whole number")),
        };
        let millis = |name: &str, otherwise: Duration| {
            let otherwise = u64::try_from(otherwise.as_millis()).unwrap_or(u64::MAX);
            number(name, otherwise).map(Duration::from_millis)
        };
        let queue = |name: &str| {
            let asked = number(name, QUEUE as u64)?;
            Ok::<_, Failure>(usize::try_from(asked).unwrap_or(MOST_QUEUE).clamp(1, MOST_QUEUE))
        };
        Ok(Some(Self {
            traces,
            sampled: sampled(variable)?,
            logs,
            metrics: if metrics { Some(target(variable, Signal::Metrics)?) } else { None },
            every: millis("OTEL_METRIC_EXPORT_INTERVAL", EVERY)?.max(Duration::from_secs(1)),
            authorities: variable("OTEL_EXPORTER_OTLP_CERTIFICATE"),
            within: millis("OTEL_EXPORTER_OTLP_TIMEOUT", WITHIN)?,
            spans_queue: queue("OTEL_BSP_MAX_QUEUE_SIZE")?,
            logs_queue: queue("OTEL_BLRP_MAX_QUEUE_SIZE")?,
        }))
    }
}

fn wrong(name: &str, value: &str, way_out: &str) -> Failure {
    Failure::Setup(format!("{name}={value:?} can't be used: {way_out}"))
}

/// `OTEL_EXPORTER_OTLP_ENDPOINT`, or what it is for this signal.
fn of_signal(variable: Variable<'_>, what: &str, signal: Signal) -> Option<(String, String)> {
    let own = format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.as_str().to_uppercase());
    let all = format!("OTEL_EXPORTER_OTLP_{what}");
    [own, all].into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
}

fn sent(variable: Variable<'_>, signal: Signal) -> Result<bool, Failure> {
    let chosen = format!("OTEL_{}_EXPORTER", signal.as_str().to_uppercase());
    match variable(&chosen).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => return Err(wrong(&chosen, other, "give otlp or none")),
    }
    let Some((name, endpoint)) = of_signal(variable, "ENDPOINT", signal) else { return Ok(false) };
    let is_url = endpoint.parse::<http::Uri>().is_ok_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    });
    if !is_url {
        // Not quoted: somebody may have put a password into it.
        let what = format!("{name} is no URL of a server; give one, as http://collector:4318");
        return Err(Failure::Setup(what));
    }
    if let Some((name, protocol)) = of_signal(variable, "PROTOCOL", signal)
        && protocol != "http/protobuf"
    {
        let way_out =
            "this operator speaks http/protobuf alone, mostly at port 4318; leave it out, or name that one";
        return Err(wrong(&name, &protocol, way_out));
    }
    if let Some((name, compression)) = of_signal(variable, "COMPRESSION", signal)
        && compression != "none"
    {
        return Err(wrong(&name, &compression, "this operator does not compress; leave it out"));
    }
    Ok(true)
}

/// A parent is always ours, so a sampler that looks at it first is the same as one that does not.
fn sampled(variable: Variable<'_>) -> Result<f64, Failure> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let sampler = variable(SAMPLER).unwrap_or_else(|| "always_on".to_owned());
    match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
        "always_on" => Ok(1.0),
        "always_off" => Ok(0.0),
        "traceidratio" => {
            let ratio = variable(ARGUMENT).unwrap_or_else(|| "1".to_owned());
            let read: Option<f64> = ratio.trim().parse().ok();
            let read = read.filter(|ratio| (0.0..=1.0).contains(ratio));
            read.ok_or_else(|| wrong(ARGUMENT, &ratio, "give a number from 0 to 1"))
        }
        _ => Err(wrong(
            SAMPLER,
            &sampler,
            "give always_on, always_off or traceidratio, with parentbased_ before it or without",
        )),
    }
}

fn target(variable: Variable<'_>, signal: Signal) -> Result<Target, Failure> {
    let (name, endpoint) = of_signal(variable, "ENDPOINT", signal).unwrap_or_default();
    // The one for all is a base, the one for a signal is meant as it is.
    let url = match name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
        true => format!("{}/v1/{}", endpoint.trim_end_matches('/'), signal.as_str()),
        false => endpoint,
    };
    let mut headers = Vec::new();
    if let Some((name, list)) = of_signal(variable, "HEADERS", signal) {
        for pair in list.split(',').filter(|pair| !pair.trim().is_empty()) {
            // Not quoted: it is a credential, mostly.
            let unread =
                || Failure::Setup(format!("{name} can't be read: give NAME=VALUE, with commas between"));
            let (header, value) = pair.split_once('=').ok_or_else(unread)?;
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8_lossy();
            headers.push((header.trim().to_owned(), value.into_owned()));
        }
    }
    Ok(Target { url, headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<Settings>, Failure> {
        let set: Vec<(String, String)> = set.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        Settings::read(&|name| set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn nothing_is_sent_unless_somebody_says_where() {
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "epo")]).unwrap(), None);
        assert_eq!(read(&[BASE, ("OTEL_SDK_DISABLED", "TRUE")]).unwrap(), None);
        let none = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"]
            .map(|name| (name, "none"));
        assert_eq!(read(&[&[BASE][..], &none].concat()).unwrap(), None);
    }

    #[test]
    fn one_endpoint_is_for_all_and_one_of_a_signal_is_for_that_alone() {
        let all = read(&[BASE]).unwrap().unwrap();
        assert!(all.traces && all.logs);
        assert_eq!(all.metrics.unwrap().url, "http://collector:4318/v1/metrics");
        let own = [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://m:1/any")];
        let own = read(&own).unwrap().unwrap();
        assert!(!own.traces && !own.logs);
        assert_eq!(own.metrics.unwrap().url, "https://m:1/any");
    }

    #[test]
    fn headers_are_read_and_never_quoted() {
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-tenant = t1");
        let settings = read(&[BASE, headers]).unwrap().unwrap();
        let read_back = settings.metrics.unwrap().headers;
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        assert_eq!(read_back, [("authorization", "Bearer abc"), ("x-tenant", "t1")].map(own));
        let wrong = read(&[BASE, ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")]).unwrap_err().to_string();
        assert!(wrong.contains("OTEL_EXPORTER_OTLP_HEADERS") && !wrong.contains("hunter2"), "{wrong}");
    }

    #[test]
    fn what_is_not_done_is_refused_with_its_variable_and_the_way_out() {
        for (name, value, way_out) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/json", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "leave it out"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318", "http://"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "many", "whole number"),
        ] {
            let told = read(&[BASE, (name, value)]).unwrap_err().to_string();
            assert!(told.contains(name) && told.contains(way_out), "{told}");
        }
    }

    #[test]
    fn so_many_traces_are_kept_as_the_sampler_says() {
        let sampled =
            |set: &[(&str, &str)]| read(&[&[BASE][..], set].concat()).map(|read| read.unwrap().sampled);
        assert_eq!(sampled(&[]).unwrap(), 1.0);
        assert_eq!(sampled(&[("OTEL_TRACES_SAMPLER", "parentbased_always_off")]).unwrap(), 0.0);
        let ratio = ("OTEL_TRACES_SAMPLER", "traceidratio");
        assert_eq!(sampled(&[ratio, ("OTEL_TRACES_SAMPLER_ARG", "0.25")]).unwrap(), 0.25);
        assert!(sampled(&[ratio, ("OTEL_TRACES_SAMPLER_ARG", "25")]).is_err());
        assert!(sampled(&[("OTEL_TRACES_SAMPLER", "xray")]).is_err());
    }

    #[test]
    fn no_queue_is_without_a_bound() {
        let settings = read(&[BASE, ("OTEL_BSP_MAX_QUEUE_SIZE", "999999999")]).unwrap().unwrap();
        assert_eq!((settings.spans_queue, settings.logs_queue), (MOST_QUEUE, QUEUE));
    }
}
