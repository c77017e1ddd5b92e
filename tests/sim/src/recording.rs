//! What is written down of host calls, so that they can be answered again.
//!
//! It is clean from the start: see [`redactor`](crate::redactor). Who compares a live request with a recorded
//! one cleans it first. Readings of the clock stand between the calls, since a provider decides by them too.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::redactor::Redactor;

/// The capability of a reading of the clock.
pub const CLOCK: &str = "clock";
/// What somebody slept stands among the readings.
pub const SLEEP: &str = "sleep-ms";
/// Readings kept between two host calls: who reads it more often waits for something, and gets the last one.
const MOST_READINGS: usize = 1_000;

/// One host call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exchange {
    /// As in the journal; 0 for a reading of the clock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// Milliseconds since the recording began.
    pub at_ms: u64,
    /// `kubernetes`.
    pub capability: String,
    /// `get`.
    pub function: String,
    /// What it is about, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Its arguments, by name; null for a reading of the clock.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub request: Value,
    /// How often the clock showed the same; 0 for once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// What came back.
    #[serde(flatten)]
    pub answer: Answer,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// As asked.
    Answer(Value),
    /// A failure, in the capability's terms.
    Failure(Value),
}

/// Keeps what was said. Clones are the same recording.
#[derive(Clone, Default)]
pub struct Recorder {
    redactor: Redactor,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    /// Nothing yet.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, exchanges: Arc::default() }
    }

    /// What it strikes out.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Keeps one exchange, cleaned.
    pub fn keep(&self, exchange: Exchange) {
        let exchange = self.redactor.exchange(exchange);
        self.lock().push(exchange);
    }

    /// Keeps what the clock showed, or how long somebody slept.
    pub fn keep_reading(&self, at_ms: u64, function: &str, ms: u64) {
        let mut exchanges = self.lock();
        let answer = Answer::Answer(ms.into());
        if let Some(last) = exchanges.last_mut()
            && last.is_reading()
            && last.function == function
            && last.answer == answer
            && function != SLEEP
        {
            last.more += 1;
            return;
        }
        let readings = exchanges.iter().rev().take_while(|exchange| exchange.is_reading()).count();
        if readings < MOST_READINGS {
            exchanges.push(Exchange {
                number: 0,
                at_ms,
                capability: CLOCK.to_owned(),
                function: function.to_owned(),
                about: String::new(),
                request: Value::Null,
                more: 0,
                answer,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Exchange>> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.lock().clone()
    }

    /// All since the last time that this was asked.
    pub fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.lock())
    }
}

impl Exchange {
    /// Whether the clock was read, and no backend asked.
    pub fn is_reading(&self) -> bool {
        self.capability == CLOCK
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exchange() -> Exchange {
        Exchange {
            number: 3,
            at_ms: 250,
            capability: "kubernetes".to_owned(),
            function: "get".to_owned(),
            about: "home v1/pods a/b".to_owned(),
            request: json!({ "cluster": "home" }),
            more: 0,
            answer: Answer::Failure(json!({ "kind": "status", "code": 404 })),
        }
    }

    #[test]
    fn an_exchange_comes_back_from_its_file() {
        let text = serde_json::to_string(&exchange()).unwrap();
        assert!(text.contains("\"failure\":{"), "{text}");
        assert_eq!(serde_json::from_str::<Exchange>(&text).unwrap(), exchange());
    }

    #[test]
    fn what_is_kept_is_clean() {
        let recorder = Recorder::new(Redactor::default().and(b"credential-4711"));
        let answer = Answer::Failure(json!({ "message": "I know credential-4711" }));
        recorder.keep(Exchange { about: "credential-4711".to_owned(), answer, ..exchange() });
        let text = serde_json::to_string(&recorder.take()).unwrap();
        assert!(text.contains("I know [redacted]") && !text.contains("4711"), "{text}");
        assert_eq!(recorder.exchanges(), []);
    }

    #[test]
    fn a_clock_that_stands_still_takes_one_line() {
        let recorder = Recorder::default();
        for (function, ms) in
            [("now-ms", 5), ("now-ms", 5), ("now-ms", 6), ("monotonic-ms", 6), (SLEEP, 1), (SLEEP, 1)]
        {
            recorder.keep_reading(0, function, ms);
        }
        let more: Vec<u64> = recorder.exchanges().iter().map(|reading| reading.more).collect();
        assert_eq!(more, [1, 0, 0, 0, 0]);
    }

    #[test]
    fn one_that_reads_the_clock_for_ever_fills_no_recording() {
        let recorder = Recorder::default();
        for _ in 0..2 {
            (0..5_000).for_each(|ms| recorder.keep_reading(ms, "now-ms", ms));
            recorder.keep(exchange());
        }
        assert_eq!(recorder.exchanges().len(), 2 * (MOST_READINGS + 1));
    }
}
