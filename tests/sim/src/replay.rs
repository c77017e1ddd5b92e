//! Recorded host calls, answered again in their order.
//!
//! A provider that asks what was asked then hears what was heard then, without any backend. The first thing that
//! it asks otherwise is where it ends: no recording has an answer for it. The clock is no backend: it shows what
//! it showed, however often it is read.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    difference::{self, Change},
    recording::{Answer, Exchange},
    redactor::Redactor,
    watched::{Failing, Said},
};

/// The first difference between what was asked and what is asked now.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// Another request.
    Other {
        /// What was asked.
        recorded: Box<Exchange>,
        /// What is asked now.
        asked: Box<Exchange>,
    },
    /// A request more than the recording has.
    More(Box<Exchange>),
    /// Requests that the recording has, and that nobody asks now.
    Less(Vec<Exchange>),
    /// The recorded answer is none to this request.
    Unreadable(Box<Exchange>),
}

/// Answers from a recording. Clones are the same player.
#[derive(Clone)]
pub struct Player {
    redactor: Redactor,
    /// When the recording began, in milliseconds since 1970.
    began_ms: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    left: VecDeque<Exchange>,
    /// Since the recording began.
    elapsed_ms: u64,
    difference: Option<Difference>,
}

impl Player {
    /// Of a recording that began then. The redactor cleans what is asked before it is compared.
    pub fn new(redactor: Redactor, began_ms: u64) -> Self {
        Self { redactor, began_ms, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on these are answered; `at_ms` after the recording began.
    pub fn begin(&self, at_ms: u64, exchanges: Vec<Exchange>) {
        let mut state = self.state();
        state.left = exchanges.into();
        state.elapsed_ms = state.elapsed_ms.max(at_ms);
    }

    /// What was different, be it only that something was not asked.
    pub fn finish(&self) -> Option<Difference> {
        let mut state = self.state();
        let left: Vec<Exchange> =
            std::mem::take(&mut state.left).into_iter().filter(|exchange| !exchange.is_reading()).collect();
        let less = (!left.is_empty()).then_some(Difference::Less(left));
        state.difference.take().or(less)
    }

    /// The recorded answer; none where there is none, which is kept as the difference.
    pub fn answer<T: Said, F: Failing>(&self, asked: Exchange) -> Option<Result<T, F>> {
        let asked = self.redactor.exchange(asked);
        let mut state = self.state();
        let found = state.next(asked);
        match found.and_then(|recorded| read(&recorded).ok_or(Difference::Unreadable(Box::new(recorded)))) {
            Ok(answer) => Some(answer),
            Err(difference) => {
                state.difference = Some(difference);
                None
            }
        }
    }

    /// What the clock showed.
    pub fn reading(&self, function: &str) -> u64 {
        let mut state = self.state();
        let until = state.left.iter().position(|exchange| !exchange.is_reading()).unwrap_or(state.left.len());
        let found = state.left.iter().take(until).position(|reading| reading.function == function);
        let recorded = found.and_then(|at| {
            let reading = state.left.get_mut(at)?;
            match reading.more.checked_sub(1) {
                Some(left) => {
                    reading.more = left;
                    Some(reading.clone())
                }
                None => state.left.remove(at),
            }
        });
        if let Some(recorded) = recorded {
            state.elapsed_ms = state.elapsed_ms.max(recorded.at_ms);
            if let Answer::Answer(ms) = &recorded.answer
                && let Some(ms) = ms.as_u64()
            {
                return ms;
            }
        }
        // Read more often than then.
        match function {
            "now-ms" => self.began_ms.saturating_add(state.elapsed_ms),
            _ => state.elapsed_ms,
        }
    }

    /// Time that somebody slept.
    pub fn slept(&self, time: Duration) {
        let mut state = self.state();
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        state.elapsed_ms = state.elapsed_ms.saturating_add(time);
    }
}

impl State {
    fn next(&mut self, asked: Exchange) -> Result<Exchange, Difference> {
        while let Some(recorded) = self.left.pop_front() {
            self.elapsed_ms = self.elapsed_ms.max(recorded.at_ms);
            if recorded.is_reading() {
                continue;
            }
            let same = recorded.capability == asked.capability
                && recorded.function == asked.function
                && recorded.request == asked.request;
            return match same {
                true => Ok(recorded),
                false => Err(Difference::Other { recorded: Box::new(recorded), asked: Box::new(asked) }),
            };
        }
        Err(Difference::More(Box::new(asked)))
    }
}

fn read<T: Said, F: Failing>(recorded: &Exchange) -> Option<Result<T, F>> {
    match &recorded.answer {
        Answer::Answer(value) => T::from_json(value).map(Ok),
        Answer::Failure(value) => F::from_json(value).map(Err),
    }
}

impl Difference {
    /// What is different within a request that is the same otherwise.
    pub fn changes(&self) -> Vec<Change> {
        match self {
            Self::Other { recorded, asked } if name(recorded) == name(asked) => {
                difference::between(&recorded.request, &asked.request)
            }
            Self::Other { .. } | Self::More(_) | Self::Less(_) | Self::Unreadable(_) => Vec::new(),
        }
    }
}

fn name(exchange: &Exchange) -> String {
    format!("{}.{}", exchange.capability, exchange.function)
}

fn told(exchange: &Exchange) -> String {
    format!("{} {}", name(exchange), exchange.about).trim_end().to_owned()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other { recorded, asked } => {
                let (recorded_told, asked_told) = (told(recorded), told(asked));
                writeln!(f, "host call {} asks otherwise than the recording:", recorded.number)?;
                if recorded_told == asked_told {
                    writeln!(f, "    {asked_told}")?;
                } else {
                    writeln!(f, "  - {recorded_told}")?;
                    writeln!(f, "  + {asked_told}")?;
                }
                write!(f, "{}", difference::shown(&self.changes(), "    "))
            }
            Self::More(asked) => {
                writeln!(f, "a host call more than the recording has:")?;
                writeln!(f, "  + {}", told(asked))
            }
            Self::Less(left) => {
                writeln!(f, "host calls of the recording that are not made:")?;
                left.iter().try_for_each(|exchange| writeln!(f, "  - {}", told(exchange)))
            }
            Self::Unreadable(recorded) => writeln!(
                f,
                "host call {}: the recorded answer is none to {}; was the file edited?",
                recorded.number,
                told(recorded)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use egress_runtime::capability::KubernetesFailure;
    use serde_json::{Value, json};

    use super::*;

    fn exchange(number: u64, about: &str, request: Value, answer: Value) -> Exchange {
        Exchange {
            number,
            at_ms: 100 * number,
            capability: "kubernetes".to_owned(),
            function: "get".to_owned(),
            about: about.to_owned(),
            request,
            more: 0,
            answer: Answer::Answer(answer),
        }
    }

    fn get(number: u64, name: &str) -> Exchange {
        exchange(number, &format!("home v1/pods a/{name}"), json!({ "name": name }), json!({ "is": name }))
    }

    fn ask(player: &Player, asked: Exchange) -> Option<Result<Value, KubernetesFailure>> {
        player.answer(asked)
    }

    fn playing(exchanges: Vec<Exchange>) -> Player {
        let player = Player::new(Redactor::default().and(b"credential-4711"), 1_000);
        player.begin(0, exchanges);
        player
    }

    #[test]
    fn what_is_asked_again_is_answered_again() {
        let player = playing(vec![get(2, "x"), get(3, "y")]);
        assert_eq!(ask(&player, get(7, "x")), Some(Ok(json!({ "is": "x" }))));
        assert_eq!(player.reading("now-ms"), 1_200, "time goes on as it did");
        assert_eq!(ask(&player, get(8, "y")), Some(Ok(json!({ "is": "y" }))));
        assert_eq!(player.finish(), None);
    }

    #[test]
    fn the_first_other_question_ends_it_and_is_shown() {
        let player = playing(vec![get(2, "x")]);
        assert_eq!(ask(&player, get(2, "z")), None);
        let told = player.finish().unwrap().to_string();
        assert_eq!(
            told,
            "host call 2 asks otherwise than the recording:\n  - kubernetes.get home v1/pods a/x\n  \
             + kubernetes.get home v1/pods a/z\n    name\n      - \"x\"\n      + \"z\"\n"
        );
    }

    #[test]
    fn one_question_more_or_less_is_a_difference() {
        let player = playing(Vec::new());
        assert_eq!(ask(&player, get(2, "x")), None);
        assert!(matches!(player.finish(), Some(Difference::More(_))));
        player.begin(0, vec![get(2, "x")]);
        let less = player.finish().unwrap();
        assert_eq!(
            less.to_string(),
            "host calls of the recording that are not made:\n  - kubernetes.get home v1/pods a/x\n"
        );
    }

    #[test]
    fn what_is_asked_is_cleaned_as_what_was_recorded() {
        let recorded = exchange(2, "", json!({ "body": "[redacted]" }), Value::Null);
        let player = playing(vec![recorded]);
        let asked = exchange(2, "", json!({ "body": "credential-4711" }), Value::Null);
        assert_eq!(ask(&player, asked), Some(Ok(Value::Null)));
    }

    #[test]
    fn an_answer_that_is_none_is_told_and_not_guessed() {
        let damaged = Exchange { answer: Answer::Failure(json!({ "kind": "nonsense" })), ..get(2, "x") };
        let player = playing(vec![damaged]);
        assert_eq!(ask(&player, get(2, "x")), None);
        assert!(player.finish().unwrap().to_string().contains("was the file edited"));
    }
}
