//! What was asked, in order.
//!
//! Every call of a capability has a number here, and so has every call of a provider that led to them: one
//! counting for all hosts of a run. So a number names a point of a run, and the same seed gives the same text
//! to the byte. No body stands here, hence no credential and no user-data.

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What a call does to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
}

/// One call, or a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1; 0 for a remark.
    pub number: u64,
    /// Since the run began.
    pub at: Duration,
    /// Which host.
    pub host: String,
    /// `kubernetes.get`, `provider.create`.
    pub call: String,
    /// What it is about: place, kind, name.
    pub about: String,
    /// None where it is a call of a provider, or a remark.
    pub effect: Option<Effect>,
    /// What was made to go wrong.
    pub fault: Option<String>,
    /// None until it ended.
    pub outcome: Option<String>,
}

impl Line {
    /// Whether it is a call of a capability.
    pub fn is_host_call(&self) -> bool {
        self.effect.is_some()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = match self.number {
            0 => String::new(),
            number => number.to_string(),
        };
        let indent = if self.effect.is_some() { "  " } else { "" };
        let effect = match self.effect {
            Some(Effect::Read) => "read  ",
            Some(Effect::Write) => "write ",
            None => "",
        };
        let (seconds, ms) = (self.at.as_secs(), self.at.subsec_millis());
        write!(
            f,
            "{number:>5} {seconds:>6}.{ms:03}s {} {indent}{} {effect}{}",
            self.host, self.call, self.about
        )?;
        if let Some(fault) = &self.fault {
            write!(f, " !! {fault}")?;
        }
        match &self.outcome {
            Some(outcome) => write!(f, " -> {outcome}"),
            None => Ok(()),
        }
    }
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A call begins.
    Begun,
    /// It ended.
    Ended,
    /// A remark.
    Remark,
}

type Onlooker = Arc<dyn Fn(News, &Line) + Send + Sync>;

/// The list. Clones are the same list.
#[derive(Clone, Default)]
pub struct Journal {
    lines: Arc<Mutex<Vec<Line>>>,
    onlooker: Option<Onlooker>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Journal {
    /// An empty one that tells somebody of each line while it is written.
    pub fn told(onlooker: impl Fn(News, &Line) + Send + Sync + 'static) -> Self {
        Self { lines: Arc::default(), onlooker: Some(Arc::new(onlooker)) }
    }

    fn tell(&self, news: News, line: &Line) {
        if let Some(onlooker) = &self.onlooker {
            onlooker(news, line);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins; its number.
    pub fn begin(&self, line: Line) -> u64 {
        let mut lines = self.lock();
        let number = 1 + lines.iter().rev().map(|line| line.number).find(|number| *number > 0).unwrap_or(0);
        let line = Line { number, ..line };
        lines.push(line.clone());
        // Whoever looks on may be slow, or look into the journal.
        drop(lines);
        self.tell(News::Begun, &line);
        number
    }

    /// How it ended.
    pub fn end(&self, number: u64, outcome: impl Into<String>) {
        if let Some(line) = self.change(number, |line| line.outcome = Some(outcome.into())) {
            self.tell(News::Ended, &line);
        }
    }

    /// What was made to go wrong in it.
    pub fn fault(&self, number: u64, fault: impl Into<String>) {
        self.change(number, |line| line.fault = Some(fault.into()));
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Line)) -> Option<Line> {
        let mut lines = self.lock();
        let line = lines.iter_mut().rev().find(|line| line.number == number)?;
        change(line);
        Some(line.clone())
    }

    /// Something that explains the calls around it.
    pub fn remark(&self, at: Duration, host: &str, text: impl Into<String>) {
        let remark = Line {
            number: 0,
            at,
            host: host.to_owned(),
            call: text.into(),
            about: String::new(),
            effect: None,
            fault: None,
            outcome: None,
        };
        self.lock().push(remark.clone());
        self.tell(News::Remark, &remark);
    }

    /// The number of the last call; 0 before the first.
    pub fn last(&self) -> u64 {
        self.lock().iter().rev().map(|line| line.number).find(|number| *number > 0).unwrap_or(0)
    }

    /// All of it so far.
    pub fn lines(&self) -> Vec<Line> {
        self.lock().clone()
    }

    /// Another list that begins with what stands here.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self { lines: Arc::new(Mutex::new(self.lines())), onlooker: self.onlooker.clone() }
    }

    /// All that came after the call of this number.
    pub fn after(&self, number: u64) -> Vec<Line> {
        let lines = self.lock();
        let from = lines.iter().rposition(|line| line.number == number).map_or(0, |at| at + 1);
        lines.get(from..).unwrap_or_default().to_vec()
    }

    /// For people, the line of this number pointed at.
    pub fn marked(&self, point: Option<u64>) -> String {
        let mut text = String::new();
        for line in self.lock().iter() {
            let pointer = if point == Some(line.number) { "==>" } else { "   " };
            // Writing to a String can't fail.
            let _ = writeln!(text, "{pointer}{}", line.to_string().trim_end());
        }
        text
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.marked(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_on_sees_a_call_begin_and_end() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = Arc::clone(&seen);
        let journal = Journal::told(move |news, line| sees.lock().unwrap().push((news, line.to_string())));
        let line = Line {
            number: 0,
            at: Duration::ZERO,
            host: "a".to_owned(),
            call: "kubernetes.get".to_owned(),
            about: "home".to_owned(),
            effect: Some(Effect::Read),
            fault: None,
            outcome: None,
        };
        let number = journal.begin(line);
        journal.remark(Duration::ZERO, "a", "slow");
        journal.end(number, "ok");
        let seen = seen.lock().unwrap();
        let news: Vec<News> = seen.iter().map(|(news, _)| *news).collect();
        assert_eq!(news, [News::Begun, News::Remark, News::Ended]);
        assert!(seen[2].1.ends_with("read  home -> ok"), "{seen:?}");
    }

    #[test]
    fn a_number_names_one_call_and_remarks_have_none() {
        let journal = Journal::default();
        let line = |call: &str, effect| Line {
            number: 0,
            at: Duration::from_millis(1_500),
            host: "a".to_owned(),
            call: call.to_owned(),
            about: "home".to_owned(),
            effect,
            fault: None,
            outcome: None,
        };
        assert_eq!(journal.begin(line("provider.create", None)), 1);
        journal.remark(Duration::ZERO, "a", "the admin looks away");
        assert_eq!(journal.begin(line("kubernetes.get", Some(Effect::Read))), 2);
        journal.fault(2, "timeout before");
        journal.end(2, "timeout");
        journal.end(1, "transient");
        assert_eq!(journal.after(2), []);
        assert_eq!(journal.after(1), journal.lines()[1..]);
        assert_eq!(
            journal.marked(Some(2)),
            "       1      1.500s a provider.create home -> transient\n              0.000s a the admin looks away\n\
             ==>    2      1.500s a   kubernetes.get read  home !! timeout before -> timeout\n"
        );
    }
}
