//! Whatever reaches a log, a span or a metric on this thread, so that tests can look for it there.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt::{Debug, Write},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*, registry::LookupSpan};

pub type Fields = BTreeMap<String, String>;

/// A span or an event; an event's name is its message.
#[derive(Clone, Debug)]
pub struct Seen {
    pub name: String,
    pub level: tracing::Level,
    pub fields: Fields,
    /// The names of the spans that it stands in, the innermost first.
    pub within: Vec<String>,
}

#[derive(Clone, Default)]
pub struct Capture {
    open: Arc<Mutex<HashMap<u64, Seen>>>,
    closed: Arc<Mutex<Vec<Seen>>>,
    events: Arc<Mutex<Vec<Seen>>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

/// One for all tests, since each place in the code asks its subscribers only once whether they care: with
/// one for each test, a place that is first reached between two of them may be lost to both.
static SUBSCRIBER: LazyLock<()> = LazyLock::new(|| tracing_subscriber::registry().with(ThisThread).init());

/// Captures no more when it is dropped.
pub struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

impl Capture {
    /// Until the guard is dropped, everything at every level on this thread.
    pub fn start() -> (Self, Guard) {
        LazyLock::force(&SUBSCRIBER);
        let capture = Self::default();
        CURRENT.set(Some(capture.clone()));
        (capture, Guard)
    }

    fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Those that are closed.
    pub fn spans(&self, name: &str) -> Vec<Seen> {
        self.closed.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }

    pub fn events(&self, message: &str) -> Vec<Seen> {
        self.events.lock().unwrap().iter().filter(|event| event.name == message).cloned().collect()
    }

    /// All of it as one text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (open, closed) = (self.open.lock().unwrap(), self.closed.lock().unwrap());
        for seen in open.values().chain(&*closed).chain(&*self.events.lock().unwrap()) {
            writeln!(text, "{}", seen.name).unwrap();
            for (name, value) in &seen.fields {
                writeln!(text, "{name}={value}").unwrap();
            }
        }
        text
    }
}

struct Visitor<'a>(&'a mut Fields);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

struct ThisThread;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ThisThread {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(capture) = Capture::current() else { return };
        let mut fields = Fields::new();
        attributes.record(&mut Visitor(&mut fields));
        let scope = context.span_scope(id).into_iter().flatten().skip(1);
        let within = scope.map(|span| span.name().to_owned()).collect();
        let metadata = attributes.metadata();
        let seen = Seen { name: metadata.name().to_owned(), level: *metadata.level(), fields, within };
        capture.open.lock().unwrap().insert(id.into_u64(), seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let Some(capture) = Capture::current() else { return };
        if let Some(span) = capture.open.lock().unwrap().get_mut(&id.into_u64()) {
            values.record(&mut Visitor(&mut span.fields));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let Some(capture) = Capture::current() else { return };
        if let Some(closed) = capture.open.lock().unwrap().remove(&id.into_u64()) {
            capture.closed.lock().unwrap().push(closed);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(capture) = Capture::current() else { return };
        let mut fields = Fields::new();
        event.record(&mut Visitor(&mut fields));
        let name = fields.remove("message").unwrap_or_default();
        let scope = context.event_scope(event).into_iter().flatten();
        let within = scope.map(|span| span.name().to_owned()).collect();
        let level = *event.metadata().level();
        capture.events.lock().unwrap().push(Seen { name, level, fields, within });
    }
}

/// Counters by their printed key, and how often each histogram was written.
#[derive(Clone, Default)]
pub struct Counts(Arc<Mutex<HashMap<String, Arc<AtomicU64>>>>);

impl Counts {
    /// The sum over all that bear the name and all of these labels.
    pub fn sum(&self, name: &str, labels: &[&str]) -> u64 {
        let counts = self.0.lock().unwrap();
        let wanted = |key: &str| {
            key.split(' ').next() == Some(name)
                && labels.iter().all(|label| key.contains(&format!(" {label};")))
        };
        counts.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count.load(Ordering::SeqCst)).sum()
    }

    /// All keys as one text.
    pub fn text(&self) -> String {
        self.0.lock().unwrap().keys().cloned().collect::<Vec<_>>().join("\n")
    }

    fn count(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: String =
            key.labels().map(|label| format!(" {}={};", label.key(), label.value())).collect();
        self.0.lock().unwrap().entry(format!("{} {labels}", key.name())).or_default().clone()
    }
}

struct Writes(Arc<AtomicU64>);

impl HistogramFn for Writes {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.count(key))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Writes(self.count(key))))
    }
}
