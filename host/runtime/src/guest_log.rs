//! What a guest says: its log, and what it writes to its standard output.
//!
//! Lines go out within the operation's span, so they carry its trace. They are counted: a guest that floods
//! costs its own lines, and the call's end says how many.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use egress_contract::EntryName;

use crate::scrub::Scrubber;

/// Longer lines are cut.
const LONGEST_LINE: usize = 8 * 1024;
/// What is kept of the errors that the guest logged last: after a trap they are the best explanation, and a
/// toolchain's own report of a panic or an exception has several lines.
const LAST_WORDS: usize = 1024;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// One call's log.
pub(crate) struct GuestLog {
    entry: EntryName,
    limit: u32,
    lines: AtomicU32,
    dropped: AtomicU32,
    last_words: Mutex<String>,
    scrubber: Option<Arc<Scrubber>>,
}

impl GuestLog {
    pub(crate) fn new(entry: EntryName, limit: u32, scrubber: Option<Arc<Scrubber>>) -> Self {
        Self {
            entry,
            limit,
            lines: AtomicU32::new(0),
            dropped: AtomicU32::new(0),
            last_words: Mutex::default(),
            scrubber,
        }
    }

    /// One line, if there is room for it.
    pub(crate) fn write(&self, level: Level, message: &str, fields: &[(String, String)]) {
        let counted = self.count();
        // An error is remembered also when there is no room: what a panic says comes last.
        if !counted && level != Level::Error {
            return;
        }
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let fields = self.clean(fields.join(" "));
        let message = self.clean(message.to_owned());
        let (message, fields) = (cut(&message, LONGEST_LINE), cut(&fields, LONGEST_LINE));
        if level == Level::Error {
            self.remember(message, fields);
        }
        if !counted {
            return;
        }
        let entry = self.entry.as_str();
        match level {
            Level::Error => tracing::error!(target: "provider", entry, fields, "{message}"),
            Level::Warn => tracing::warn!(target: "provider", entry, fields, "{message}"),
            Level::Info => tracing::info!(target: "provider", entry, fields, "{message}"),
            Level::Debug => tracing::debug!(target: "provider", entry, fields, "{message}"),
            Level::Trace => tracing::trace!(target: "provider", entry, fields, "{message}"),
        }
    }

    /// Whether there is room for one line more.
    fn count(&self) -> bool {
        let one_more = |lines| (lines < self.limit).then(|| lines + 1);
        let counted = self.lines.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        if !counted {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        counted
    }

    /// How many lines did not fit.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The last errors that the guest logged.
    pub(crate) fn last_words(&self) -> Option<String> {
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (!words.is_empty()).then_some(words)
    }

    fn remember(&self, message: &str, fields: &str) {
        let line = format!("{message} {fields}");
        let mut words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        if !words.is_empty() {
            words.push_str(" / ");
        }
        words.push_str(cut(line.trim(), LAST_WORDS));
        let beyond = words.len().saturating_sub(LAST_WORDS);
        let from = words.ceil_char_boundary(beyond);
        words.drain(..from);
    }

    // Struck out before it is cut: half a line would not be found. And one line stays one: a guest can't
    // forge others.
    fn clean(&self, mut text: String) -> String {
        if let Some(scrubber) = &self.scrubber {
            scrubber.string(&mut text);
        }
        if text.contains(char::is_control) {
            text = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        }
        text
    }
}

/// At most so many bytes, whole characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_all_errors_that_were_logged_last_and_no_more() {
        let log = GuestLog::new("kubernetes".parse().unwrap(), 2, None);
        assert_eq!(log.last_words(), None);
        log.write(Level::Info, "all is well", &[]);
        log.write(Level::Error, "Traceback:", &[]);
        // Beyond the limit on lines, and remembered all the same.
        log.write(Level::Error, "  File app.py", &[("line".to_owned(), "7".to_owned())]);
        log.write(Level::Error, "KeyError", &[]);
        assert_eq!(log.last_words().unwrap(), "Traceback: / File app.py line=7 / KeyError");
        for _ in 0..1000 {
            log.write(Level::Error, "ä", &[]);
        }
        log.write(Level::Error, "the end", &[]);
        let words = log.last_words().unwrap();
        assert!(words.len() <= LAST_WORDS && words.ends_with("/ the end"), "{words}");
    }
}
