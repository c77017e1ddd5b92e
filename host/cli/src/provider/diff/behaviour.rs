//! What two components do: in one instance's life, and under the suite.

use std::collections::BTreeMap;

use egress_conformance::{CannotRun, Outcome, Report, Settings, Suite, Verdict, kind};
use egress_runtime::Runtime;
use egress_sim::difference;
use serde::Serialize;
use serde_json::Value;

use super::Side;
use crate::{
    failure::Failure,
    provider::{entry::Subject, life::Lives},
};

/// In the order of a life.
const EXPORTS: [&str; 5] = ["check", "create", "get", "list", "delete"];

/// What is tried of the promises.
pub struct Tried<'t> {
    /// Decides every draw.
    pub seed: u64,
    /// Only these; all where there are none.
    pub only: &'t [String],
}

/// See the module; the names are those of the JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Behaviour {
    /// Why NEW takes not the config that OLD takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why one of them does not come to the end of a life.
    #[serde(skip_serializing_if = "Fails::is_empty")]
    fails: Fails,
    /// In one life, by export.
    host_calls: Vec<HostCalls>,
    /// None where they were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    promises: Option<Promises>,
}

#[derive(Serialize, Default)]
struct Fails {
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<String>,
}

#[derive(Serialize)]
struct HostCalls {
    export: &'static str,
    old: Vec<String>,
    new: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Promises {
    old: Figures,
    new: Figures,
    /// Those that fared otherwise, and those that one of them breaks.
    told: Vec<Told>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    kept: usize,
    broken: usize,
    not_applicable: usize,
    not_tried: usize,
    host_calls: u64,
}

#[derive(Serialize)]
struct Told {
    id: &'static str,
    says: &'static str,
    old: Fared,
    new: Fared,
}

#[derive(Serialize, PartialEq)]
struct Fared {
    verdict: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
}

impl Behaviour {
    /// One life of each, with the same config.
    pub async fn lives(runtime: &Runtime, old: &Side, new: &mut Side, seed: u64) -> Result<Self, Failure> {
        let mut behaviour =
            Self { refused: None, fails: Fails::default(), host_calls: Vec::new(), promises: None };
        let own = new.subject.settings.config.clone();
        new.subject.settings.config = old.subject.settings.config.clone();
        let before = Lives::open(runtime.clone(), &old.file, &old.subject, seed).await?;
        let before = calls(&before, &mut behaviour.fails.old).await;
        let lives = Lives::open(runtime.clone(), &new.file, &new.subject, seed).await;
        if let Err(Failure::Refused { refusal, .. }) = &lives
            && !refusal.faults.is_empty()
        {
            behaviour.refused = Some(refusal.message.clone());
            // What it does is not to be known with that config.
            new.subject.settings.config = own;
            return Ok(behaviour);
        }
        let after = calls(&lives?, &mut behaviour.fails.new).await;
        behaviour.host_calls = EXPORTS
            .into_iter()
            .map(|export| {
                let of = |calls: &BTreeMap<&str, Vec<String>>| calls.get(export).cloned().unwrap_or_default();
                HostCalls { export, old: of(&before), new: of(&after) }
            })
            .collect();
        Ok(behaviour)
    }

    /// Every promise, or those that were asked for, for both.
    pub fn promises(
        &mut self,
        runtime: &Runtime,
        old: &Side,
        new: &Side,
        tried: &Tried<'_>,
    ) -> Result<(), Failure> {
        let before = suite(runtime, old, None, tried)?;
        let after = suite(runtime, new, Some(old), tried)?;
        let pairs = before.outcomes.iter().zip(&after.outcomes);
        let told = pairs.filter_map(|(before, after)| Told::new(before, after)).collect();
        self.promises = Some(Promises { old: Figures::of(&before), new: Figures::of(&after), told });
        Ok(())
    }

    /// Whether nothing differs. A promise that both break is no difference.
    pub fn is_same(&self) -> bool {
        let fare_alike = |promises: &Promises| promises.told.iter().all(|told| told.old == told.new);
        self.refused.is_none()
            && self.fails.is_empty()
            && self.host_calls.iter().all(|calls| calls.old == calls.new)
            && self.promises.as_ref().is_none_or(fare_alike)
    }

    /// For people.
    pub fn sections(&self) -> Vec<(&'static str, String)> {
        let refused = self.refused.as_ref().map_or_else(String::new, |why| format!("  {why}\n"));
        let host_calls: String = self.host_calls.iter().map(HostCalls::text).collect();
        let promises = self.promises.iter().flat_map(|promises| &promises.told).map(Told::text).collect();
        vec![
            ("NEW refuses the config that OLD takes", refused),
            ("One instance's life", self.fails.text()),
            ("Host calls in one instance's life", host_calls),
            ("Promises of the contract", promises),
        ]
    }

    /// The figures.
    pub fn summary(&self) -> String {
        let Some(Promises { old, new, .. }) = &self.promises else { return String::new() };
        let line = |name: &str, figures: &Figures| {
            let Figures { kept, broken, not_applicable, not_tried, host_calls } = figures;
            format!(
                "{name}: {kept} promises kept, {broken} broken, {not_applicable} not applicable, {not_tried} not \
                 tried; {host_calls} host calls\n"
            )
        };
        format!("\n{}{}", line("OLD", old), line("NEW", new))
    }
}

/// What it asks for in one life, as far as that goes.
async fn calls(lives: &Lives, fails: &mut Option<String>) -> BTreeMap<&'static str, Vec<String>> {
    let mut calls: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let lived = lives.live(1, |step| calls.entry(step.export).or_default().extend(step.host_calls)).await;
    *fails = lived.err().map(|failure| failure.to_string());
    calls
}

fn suite(
    runtime: &Runtime,
    side: &Side,
    other: Option<&Side>,
    Tried { seed, only }: &Tried<'_>,
) -> Result<Report, Failure> {
    let Subject { settings, module, .. } = &side.subject;
    let kind = kind::simulated(module, &settings.config, &side.subject.grants()?)
        .map_err(|error| Failure::Setup(error.to_string()))?;
    let settings = Settings {
        entry: Some(side.subject.tried()?),
        other: other.map(|other| other.subject.module.clone()),
        seed: *seed,
        only: only.to_vec(),
        ..Settings::new(module.clone())
    };
    let failed = |error: CannotRun| match error {
        CannotRun::Refused(refusal) => side.file.refused(refusal),
        unknown @ CannotRun::NoPromise(..) => Failure::Usage(unknown.to_string()),
        other => Failure::Setup(format!("{}: {other}", side.file.path().display())),
    };
    Suite::open_in(runtime.clone(), kind, settings).and_then(|suite| suite.run(&())).map_err(failed)
}

impl Fails {
    fn is_empty(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }

    fn text(&self) -> String {
        let sides = [('-', &self.old), ('+', &self.new)].into_iter();
        sides.filter_map(|(sign, why)| why.as_ref().map(|why| format!("  {sign} {why}\n"))).collect()
    }
}

impl HostCalls {
    fn text(&self) -> String {
        let Self { export, old, new } = self;
        if old == new {
            return String::new();
        }
        let as_json = |calls: &[String]| Value::from(calls.to_vec());
        let mut text = format!("  {export}: {} -> {}\n", old.len(), new.len());
        for change in difference::between(&as_json(old), &as_json(new)) {
            for (sign, call) in [('-', change.before), ('+', change.after)] {
                if let Some(Value::String(call)) = call {
                    text += &format!("    {sign} {call}\n");
                }
            }
        }
        text
    }
}

impl Figures {
    fn of(report: &Report) -> Self {
        Self {
            kept: report.kept(),
            broken: report.broken(),
            not_applicable: report.skipped(),
            not_tried: report.failed(),
            host_calls: report.counts.host_calls,
        }
    }
}

impl Fared {
    fn of(verdict: &Verdict) -> Self {
        let (verdict, why) = match verdict {
            Verdict::Kept => ("kept", String::new()),
            Verdict::Broken(breach) => ("broken", breach.why.clone()),
            Verdict::Skipped(why) => ("not applicable", why.clone()),
            Verdict::Failed(why) => ("not tried", why.clone()),
        };
        Self { verdict, why }
    }
}

impl Told {
    fn new(before: &Outcome, after: &Outcome) -> Option<Self> {
        let (old, new) = (Fared::of(&before.verdict), Fared::of(&after.verdict));
        let worth = old.verdict != new.verdict || [&old, &new].iter().any(|fared| fared.verdict == "broken");
        worth.then_some(Self { id: before.promise.id, says: before.promise.says, old, new })
    }

    fn text(&self) -> String {
        let Self { id, says, old, new } = self;
        let mut text = format!("  {id}: {} -> {}\n    {says}\n", old.verdict, new.verdict);
        for (sign, fared) in [('-', old), ('+', new)] {
            if !fared.why.is_empty() {
                text += &format!("    {sign} {}\n", fared.why.replace('\n', "\n      "));
            }
        }
        text
    }
}
