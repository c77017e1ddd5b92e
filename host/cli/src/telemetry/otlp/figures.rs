//! Metrics over OTLP: what `/metrics` shows, once every interval.
//!
//! They are counted once. What a scrape would read is read here, too, and translated: both ways show the same
//! figures under the same names, and sending them costs nothing where they are counted.

use std::{collections::BTreeMap, time::SystemTime};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    metrics::v1::{
        AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
        ResourceMetrics, ScopeMetrics, Sum, metric::Data, number_data_point,
    },
    resource::v1::Resource,
};

type Labels = Vec<(String, String)>;

/// When counting began, and when it was read.
#[derive(Clone, Copy)]
pub struct Times {
    pub began: SystemTime,
    pub now: SystemTime,
}

/// Prometheus' text as a request.
pub fn request(text: &str, resource: Resource, times: Times) -> ExportMetricsServiceRequest {
    let families = families(text);
    let metrics = families.into_iter().filter_map(|(name, family)| metric(name, family, times)).collect();
    let scope = InstrumentationScope { name: "epo".to_owned(), ..InstrumentationScope::default() };
    let metrics = ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() };
    let all =
        ResourceMetrics { resource: Some(resource), scope_metrics: vec![metrics], schema_url: String::new() };
    ExportMetricsServiceRequest { resource_metrics: vec![all] }
}

/// All samples of one metric, as they stand in the text.
#[derive(Default)]
struct Family<'t> {
    kind: &'t str,
    samples: Vec<(&'t str, Labels, f64)>,
}

fn families(text: &str) -> BTreeMap<&str, Family<'_>> {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            if let Some((name, kind)) = typed.split_once(' ') {
                families.entry(name).or_default().kind = kind;
            }
        } else if let Some((name, labels, value)) = sample(line) {
            let of = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
                let base = name.strip_suffix(suffix)?;
                families.get(base).is_some_and(|family| family.kind == "histogram").then_some((base, *suffix))
            });
            let (family, part) = of.unwrap_or((name, ""));
            families.entry(family).or_default().samples.push((part, labels, value));
        }
    }
    families
}

fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (name, mut rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            rest = rest.trim_start_matches(',');
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after;
        }
    }
    Some((name, labels, rest.split_whitespace().next()?.parse().ok()?))
}

/// Up to the quote that ends it, and what is behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

fn metric(name: &str, family: Family<'_>, times: Times) -> Option<Metric> {
    let temporality = AggregationTemporality::Cumulative as i32;
    let numbers = |samples: Vec<(&str, Labels, f64)>| {
        samples.into_iter().map(|(_, labels, value)| number(labels, value, times)).collect()
    };
    let data = match family.kind {
        "counter" => Data::Sum(Sum {
            data_points: numbers(family.samples),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        "gauge" => Data::Gauge(Gauge { data_points: numbers(family.samples) }),
        "histogram" => Data::Histogram(Histogram {
            data_points: histograms(family.samples, times),
            aggregation_temporality: temporality,
        }),
        // There is no other kind here.
        _ => return None,
    };
    let unit = match name {
        _ if name.ends_with("_seconds") => "s",
        _ if name.ends_with("_bytes") => "By",
        _ => "",
    };
    Some(Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data), ..Metric::default() })
}

fn number(labels: Labels, value: f64, times: Times) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: nanos(times.began),
        time_unix_nano: nanos(times.now),
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn histograms(samples: Vec<(&str, Labels, f64)>, times: Times) -> Vec<HistogramDataPoint> {
    let mut points: BTreeMap<Labels, (HistogramDataPoint, Vec<(f64, u64)>)> = BTreeMap::new();
    for (part, mut labels, value) in samples {
        let bound = labels.iter().position(|(name, _)| name == "le").map(|at| labels.remove(at).1);
        let (point, buckets) = points.entry(labels).or_default();
        match (part, bound) {
            ("_sum", _) => point.sum = Some(value),
            ("_count", _) => point.count = whole(value),
            ("_bucket", Some(bound)) => {
                buckets.push((bound.parse().unwrap_or(f64::INFINITY), whole(value)));
            }
            _ => {}
        }
    }
    let point = |(labels, (point, mut buckets)): (Labels, (HistogramDataPoint, Vec<(f64, u64)>))| {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        // Prometheus counts in each bucket what is in those before it, too.
        let mut before = 0;
        let mut own = |(_, up_to): &(f64, u64)| {
            let count = up_to.saturating_sub(before);
            before = *up_to;
            count
        };
        HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: nanos(times.began),
            time_unix_nano: nanos(times.now),
            bucket_counts: buckets.iter().map(&mut own).collect(),
            explicit_bounds: buckets.iter().map(|(bound, _)| *bound).filter(|b| b.is_finite()).collect(),
            ..point
        }
    };
    points.into_iter().map(point).collect()
}

/// A count, which Prometheus' text writes like every figure.
fn whole(value: f64) -> u64 {
    value as u64
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    let pair = |(key, value)| KeyValue {
        key,
        value: Some(AnyValue { value: Some(Value::StringValue(value)) }),
        ..KeyValue::default()
    };
    labels.into_iter().map(pair).collect()
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    fn exported(count: impl FnOnce()) -> Vec<Metric> {
        let builder = PrometheusBuilder::new().set_buckets(&[0.1, 1.0]).unwrap();
        let recorder = builder.build_recorder();
        metrics::with_local_recorder(&recorder, count);
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let times = Times { began, now: began + Duration::from_secs(1) };
        let text = recorder.handle().render();
        let mut request = request(&text, Resource::default(), times);
        request.resource_metrics.remove(0).scope_metrics.remove(0).metrics
    }

    fn text(attributes: &[KeyValue]) -> Vec<String> {
        let value = |pair: &KeyValue| match pair.value.clone().unwrap().value {
            Some(Value::StringValue(text)) => text,
            other => panic!("{other:?}"),
        };
        let mut all: Vec<String> =
            attributes.iter().map(|pair| format!("{}={}", pair.key, value(pair))).collect();
        all.sort();
        all
    }

    #[test]
    fn a_counter_a_gauge_and_a_histogram_are_what_a_scrape_shows() {
        let metrics = exported(|| {
            metrics::counter!("a_total", "entry" => "x\"y\\z\n", "b" => "c,d}").increment(3);
            metrics::gauge!("b").set(-1.5);
            for seconds in [0.05, 0.5, 0.6, 7.0] {
                metrics::histogram!("c_seconds", "entry" => "e").record(seconds);
            }
        });
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["a_total", "b", "c_seconds"]);
        let Some(Data::Sum(sum)) = &metrics[0].data else { panic!("{:?}", metrics[0]) };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        let point = &sum.data_points[0];
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(3.0)));
        assert_eq!(text(&point.attributes), ["b=c,d}", "entry=x\"y\\z\n"]);
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000_000_000, 2_000_000_000));
        let Some(Data::Gauge(gauge)) = &metrics[1].data else { panic!("{:?}", metrics[1]) };
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(-1.5)));
        let Some(Data::Histogram(histogram)) = &metrics[2].data else { panic!("{:?}", metrics[2]) };
        let point = &histogram.data_points[0];
        assert_eq!((&point.bucket_counts[..], point.count), (&[1, 2, 1][..], 4));
        assert_eq!(point.explicit_bounds, [0.1, 1.0]);
        assert!((point.sum.unwrap() - 8.15).abs() < 1e-9);
        assert_eq!((text(&point.attributes), metrics[2].unit.as_str()), (vec!["entry=e".to_owned()], "s"));
    }
}
