//! What a call does, on the standard error while it does it: host calls, and what the component logs.

use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use egress_sim::{
    journal::{Journal, Line, News},
    redactor::Redactor,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

/// Under this target stands what components say.
const GUESTS: &str = "provider";

/// See the module. Clones write to the same place.
#[derive(Clone)]
pub struct Live {
    redactor: Redactor,
    out: Arc<Mutex<Out>>,
}

struct Out {
    /// Whether somebody sees a line before it is whole.
    terminal: bool,
    /// The call whose line has no end yet.
    open: Option<u64>,
}

impl Live {
    /// Leaves out what the redactor knows.
    pub fn new(redactor: Redactor) -> Self {
        let out = Out { terminal: io::stderr().is_terminal(), open: None };
        Self { redactor, out: Arc::new(Mutex::new(out)) }
    }

    /// A journal that is shown while it is written.
    pub fn journal(&self) -> Journal {
        let live = self.clone();
        Journal::told(move |news, line| live.show(news, line))
    }

    /// Shows what components log.
    pub fn logs<S: Subscriber>(&self) -> impl Layer<S> + use<S> {
        Logs(self.clone())
    }

    fn show(&self, news: News, line: &Line) {
        let is_host_call = line.is_host_call();
        let clean = |text: &Option<String>| text.as_ref().map(|text| self.clean(text));
        let line = &Line {
            call: self.clean(&line.call),
            about: self.clean(&line.about),
            outcome: clean(&line.outcome),
            ..line.clone()
        };
        let text = || line.to_string().trim_end().to_owned();
        match (news, is_host_call) {
            (News::Begun, true) if self.out().terminal => self.begin(line.number, &text()),
            // Shown when it is whole.
            (News::Begun, true) => {}
            (News::Ended, true) => self.end(line, &text()),
            (News::Begun, false) | (News::Remark, _) => self.whole(&text()),
            (News::Ended, false) => {
                let outcome = line.outcome.as_deref().unwrap_or_default();
                self.whole(&format!("{:>5} -> {outcome}", line.number));
            }
        }
    }

    /// Without secrets, and one line: whoever names a place could else forge others.
    fn clean(&self, text: &str) -> String {
        let text = self.redactor.text(text);
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, number: u64, text: &str) {
        let mut out = self.out();
        out.break_line();
        print(text);
        out.open = Some(number);
    }

    fn end(&self, line: &Line, text: &str) {
        let mut out = self.out();
        if out.open == Some(line.number) {
            // What it began with stands there already.
            let outcome = line.outcome.as_deref().unwrap_or_default();
            let fault = line.fault.as_ref().map_or_else(String::new, |fault| format!(" !! {fault}"));
            print(&format!("{fault} -> {outcome}\n"));
            out.open = None;
        } else {
            out.break_line();
            print(&format!("{text}\n"));
        }
    }

    fn whole(&self, text: &str) {
        let mut out = self.out();
        out.break_line();
        print(&format!("{text}\n"));
    }
}

impl Out {
    fn break_line(&mut self) {
        if self.open.take().is_some() {
            print(" ...\n");
        }
    }
}

/// Nobody is left to tell when this fails.
fn print(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

struct Logs(Live);

impl<S: Subscriber> Layer<S> for Logs {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != GUESTS {
            return;
        }
        let mut said = Said::default();
        event.record(&mut said);
        let level = event.metadata().level().as_str().to_lowercase();
        let Said { message, fields } = said;
        let said = self.0.clean(format!("{message} {fields}").trim_end());
        self.0.whole(&format!("{:>5} log {level}: {said}", ""));
    }
}

#[derive(Default)]
struct Said {
    message: String,
    fields: String,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "fields" {
            value.clone_into(&mut self.fields);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a String can't fail.
            let _ = write!(self.message, "{value:?}");
        }
    }
}
