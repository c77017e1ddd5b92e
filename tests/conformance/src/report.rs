//! What a run showed: for people, for programs, and for those that read JUnit.

use std::{fmt::Write, time::Duration};

use serde::Serialize;

use crate::{
    promise::Promise,
    suite::Suite,
    trial::{Breach, Counts, Verdict},
};

/// Lines of a journal that people are shown; programs get all of it.
const SHOWN: usize = 80;

/// How one promise fared.
pub struct Outcome {
    /// Which.
    pub promise: &'static Promise,
    /// How.
    pub verdict: Verdict,
    /// How much was run for it.
    pub counts: Counts,
    /// What was asked in all of its runs, where that was to be kept.
    pub journals: Vec<String>,
    /// By the machine's clock.
    pub took: Duration,
}

/// See the module.
pub struct Report {
    /// One for each promise that was tried, in the table's order.
    pub outcomes: Vec<Outcome>,
    /// All of them.
    pub counts: Counts,
    /// By the machine's clock.
    pub took: Duration,
    /// What decided the draws.
    pub seed: u64,
    /// The component's name and version, its digest, the backend.
    pub about: About,
}

/// What was tried, at what.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// As `describe` says.
    pub provider: String,
    /// As `describe` says.
    pub version: String,
    /// Of the component's bytes.
    pub digest: String,
    /// Which backend.
    pub backend: String,
}

impl Report {
    pub(crate) fn new(suite: &Suite, outcomes: Vec<Outcome>, took: Duration) -> Self {
        let mut counts = Counts::default();
        outcomes.iter().for_each(|outcome| counts += outcome.counts);
        let description = suite.description();
        let about = About {
            provider: description.name.clone(),
            version: description.version.clone(),
            digest: suite.subject().module.digest().to_string(),
            backend: suite.kind().name(),
        };
        Self { outcomes, counts, took, seed: suite.seed(), about }
    }

    /// So many promises fared so.
    fn number(&self, is: impl Fn(&Verdict) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| is(&outcome.verdict)).count()
    }

    /// Promises that were kept.
    pub fn kept(&self) -> usize {
        self.number(|verdict| matches!(verdict, Verdict::Kept))
    }

    /// Promises that were broken.
    pub fn broken(&self) -> usize {
        self.number(|verdict| matches!(verdict, Verdict::Broken(_)))
    }

    /// Promises that say nothing here.
    pub fn skipped(&self) -> usize {
        self.number(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }

    /// Promises that could not be tried.
    pub fn failed(&self) -> usize {
        self.number(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    /// What was asked in all runs, where that was kept.
    pub fn journal(&self) -> String {
        let mut all = String::new();
        for outcome in &self.outcomes {
            for journal in &outcome.journals {
                // Writing to a String can't fail.
                let _ = write!(all, "{}\n{journal}", outcome.promise.id);
            }
        }
        all
    }

    /// The figures, in two lines.
    pub fn summary(&self) -> String {
        let Counts { runs, interruptions, hand_overs, interleavings, faults, left_out, calls, host_calls } =
            self.counts;
        let left_out = match left_out {
            0 => String::new(),
            points => format!(", {points} points left out"),
        };
        let failed = match self.failed() {
            0 => String::new(),
            failed => format!(", {failed} not tried"),
        };
        format!(
            "{} promises kept, {} broken, {} not applicable{failed}; {} {} against {} in {:.1} s, seed {}\n\
             {interruptions} interruptions, {hand_overs} hand-overs, {interleavings} interleavings, {faults} faults{left_out}; \
             {runs} runs, {calls} calls, {host_calls} host calls\n",
            self.kept(),
            self.broken(),
            self.skipped(),
            self.about.provider,
            self.about.version,
            self.about.backend,
            self.took.as_secs_f64(),
            self.seed,
        )
    }

    /// For programs.
    pub fn json(&self) -> serde_json::Value {
        let outcomes: Vec<OneOutcome<'_>> = self.outcomes.iter().map(OneOutcome::of).collect();
        serde_json::json!({
            "about": self.about,
            "seed": self.seed,
            "tookMs": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "kept": self.kept(),
            "broken": self.broken(),
            "notApplicable": self.skipped(),
            "notTried": self.failed(),
            "counts": self.counts,
            "promises": outcomes,
        })
    }

    /// For continuous integration.
    pub fn junit(&self) -> String {
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" \
             skipped=\"{}\" time=\"{:.3}\">\n",
            escaped(&format!(
                "{} {} against {}",
                self.about.provider, self.about.version, self.about.backend
            )),
            self.outcomes.len(),
            self.broken(),
            self.failed(),
            self.skipped(),
            self.took.as_secs_f64(),
        );
        for outcome in &self.outcomes {
            let one = OneOutcome::of(outcome);
            let id = outcome.promise.id;
            let seconds = outcome.took.as_secs_f64();
            // Writing to a String can't fail.
            let _ = write!(
                xml,
                "  <testcase classname=\"{}\" name=\"{id}\" time=\"{seconds:.3}\"",
                outcome.promise.group.as_str()
            );
            let _ = match &outcome.verdict {
                Verdict::Kept => writeln!(xml, "/>"),
                Verdict::Skipped(why) => writeln!(xml, "><skipped message=\"{}\"/></testcase>", escaped(why)),
                Verdict::Failed(why) => writeln!(xml, "><error message=\"{}\"/></testcase>", escaped(why)),
                Verdict::Broken(breach) => writeln!(
                    xml,
                    "><failure message=\"{}\">{}</failure></testcase>",
                    escaped(&breach.why),
                    escaped(&one.told())
                ),
            };
        }
        xml + "</testsuite>\n"
    }
}

impl Outcome {
    /// A breach for people: the promise, the journal with the point marked, what there was.
    pub fn told(&self) -> String {
        OneOutcome::of(self).told()
    }
}

/// As it stands in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneOutcome<'a> {
    id: &'static str,
    says: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    breach: Option<&'a Breach>,
    counts: Counts,
    took_ms: u64,
}

impl<'a> OneOutcome<'a> {
    fn of(outcome: &'a Outcome) -> Self {
        let (verdict, why, breach) = match &outcome.verdict {
            Verdict::Kept => ("kept", None, None),
            Verdict::Broken(breach) => ("broken", None, Some(&**breach)),
            Verdict::Skipped(why) => ("notApplicable", Some(why.as_str()), None),
            Verdict::Failed(why) => ("notTried", Some(why.as_str()), None),
        };
        Self {
            id: outcome.promise.id,
            says: outcome.promise.says,
            verdict,
            why,
            breach,
            counts: outcome.counts,
            took_ms: u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn told(&self) -> String {
        let Some(breach) = self.breach else { return String::new() };
        let mut text = format!("{}: {}\n\n  {}\n", self.id, self.says, breach.why.replace('\n', "\n  "));
        if !breach.journal.is_empty() {
            let point = breach.point.map_or(String::new(), |point| format!(", the point {point} marked"));
            // Writing to a String can't fail.
            let _ = write!(text, "\nWhat was asked{point}:\n{}", end_of(&breach.journal));
        }
        text += "\nWhat there is at the backend:\n";
        match breach.inventory.as_slice() {
            [] => text += "  nothing\n",
            things => things.iter().for_each(|thing| {
                let _ = writeln!(text, "  {thing}");
            }),
        }
        text
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML knows no others of these.
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// What led to the breach stands at the end, where it was not the point.
fn end_of(journal: &str) -> String {
    let lines: Vec<&str> = journal.lines().collect();
    let point = lines.iter().position(|line| line.starts_with("==>")).unwrap_or(lines.len());
    let from = lines.len().saturating_sub(SHOWN);
    let before = if point < from { point.saturating_sub(SHOWN / 4) } else { from };
    let mut text = String::new();
    let mut skipped = 0;
    for (number, line) in lines.iter().enumerate() {
        if number >= from || (before..before + SHOWN / 2).contains(&number) {
            if skipped > 0 {
                // Writing to a String can't fail.
                let _ = writeln!(text, "        ... {skipped} lines; --output json has all of them");
                skipped = 0;
            }
            text.push_str(line);
            text.push('\n');
        } else {
            skipped += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_journal_the_point_and_the_end_are_shown() {
        let lines: Vec<String> =
            (1..=400).map(|number| format!("{}{number}", if number == 50 { "==>" } else { "   " })).collect();
        let shown = end_of(&lines.join("\n"));
        for line in ["==>50", "   400", "   321"] {
            assert!(shown.contains(line), "{shown}");
        }
        assert!(shown.lines().count() < 130 && shown.contains("lines; --output json"), "{shown}");
        let short = "   1\n==>2\n   3\n";
        assert_eq!(end_of(short), short);
    }
}
