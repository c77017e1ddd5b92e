//! Samples of many calls, and the figures that are made of them.

use std::time::Duration;

use serde::Serialize;

use super::usage::Used;
use crate::{
    output::{bytes, columns},
    provider::life::Step,
};

/// In the order of a life.
const EXPORTS: [&str; 5] = ["check", "create", "get", "list", "delete"];

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// `create: call, median`.
    pub name: String,
    /// `us`, `bytes` or `count`.
    pub unit: &'static str,
    /// How much.
    pub value: f64,
}

impl Figure {
    /// A size.
    pub fn bytes(name: &str, bytes: u64) -> Self {
        Self { name: name.to_owned(), unit: "bytes", value: bytes as f64 }
    }

    /// A time.
    pub fn time(name: &str, time: Duration) -> Self {
        Self { name: name.to_owned(), unit: "us", value: time.as_secs_f64() * 1e6 }
    }

    fn count(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), unit: "count", value }
    }

    fn shown(&self) -> String {
        match self.unit {
            "bytes" => bytes(self.value.round().max(0.0) as u64),
            "us" if self.value >= 10_000.0 => format!("{:.1} ms", self.value / 1e3),
            "us" => format!("{:.1} us", self.value),
            _ if self.value.fract() == 0.0 => format!("{:.0}", self.value),
            _ => format!("{:.2}", self.value),
        }
    }
}

/// What was measured of one component.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    calls: Vec<Sample>,
    lives: usize,
}

#[derive(Clone, Debug)]
struct Sample {
    export: &'static str,
    took: Duration,
    computes: Duration,
    memory: f64,
    host_calls: usize,
}

impl Samples {
    /// One call more.
    pub fn add(&mut self, step: &Step, used: Used) {
        self.calls.push(Sample {
            export: step.export,
            took: step.took,
            computes: Duration::try_from_secs_f64(used.computes).unwrap_or_default(),
            memory: used.memory,
            host_calls: step.host_calls.len(),
        });
    }

    /// One life has ended.
    pub fn live(&mut self) {
        self.lives += 1;
    }

    /// Of each export.
    pub fn figures(&self) -> Vec<Figure> {
        EXPORTS.iter().flat_map(|export| self.figures_of(export)).collect()
    }

    fn of(&self, export: &str) -> impl Iterator<Item = &Sample> {
        self.calls.iter().filter(move |sample| sample.export == export)
    }

    fn figures_of(&self, export: &str) -> Vec<Figure> {
        let took: Vec<Duration> = self.of(export).map(|sample| sample.took).collect();
        let computes: Vec<Duration> = self.of(export).map(|sample| sample.computes).collect();
        let memory = self.of(export).map(|sample| sample.memory).fold(0.0, f64::max);
        let host_calls: usize = self.of(export).map(|sample| sample.host_calls).sum();
        let name = |what: &str| format!("{export}: {what}");
        let each = |number: usize| number as f64 / self.lives.max(1) as f64;
        vec![
            Figure::time(&name("a call, median"), median(&took)),
            Figure::time(&name("a call, 95th percentile"), percentile(&took, 95)),
            Figure::time(&name("computes, median"), median(&computes)),
            Figure { name: name("memory, most"), unit: "bytes", value: memory },
            Figure::count(&name("calls in a life"), each(took.len())),
            Figure::count(&name("host calls in a life"), each(host_calls)),
        ]
    }
}

/// Half of them are shorter.
pub fn median(times: &[Duration]) -> Duration {
    percentile(times, 50)
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

/// Of one component.
pub fn table(figures: &[Figure]) -> String {
    columns(&figures.iter().map(|figure| [figure.name.clone(), figure.shown()]).collect::<Vec<_>>())
}

/// Of two, side by side.
pub fn comparison(one: &[Figure], other: &[Figure]) -> String {
    let mut rows = vec![["", "FIRST", "SECOND", "CHANGE"].map(str::to_owned)];
    rows.extend(
        one.iter().zip(other).map(|(one, other)| {
            [one.name.clone(), one.shown(), other.shown(), change(one.value, other.value)]
        }),
    );
    columns(&rows)
}

fn change(from: f64, to: f64) -> String {
    match (from, to) {
        (from, to) if from == to => "=".to_owned(),
        (0.0, _) => "new".to_owned(),
        (from, to) => format!("{:+.1} %", (to - from) / from * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_calls_and_counts_are_of_lives() {
        let mut samples = Samples::default();
        for took in 1..=100 {
            for (export, host_calls) in
                [("check", 3), ("create", 0), ("create", 2), ("get", 1), ("list", 1), ("delete", 1)]
            {
                let took = Duration::from_micros(took);
                let step = Step { export, took, host_calls: vec![String::new(); host_calls] };
                samples.add(&step, Used { memory: 65_536.0, computes: 1e-6 });
            }
            samples.live();
        }
        let figures = samples.figures();
        let of = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().shown();
        assert_eq!(of("get: a call, median"), "51.0 us");
        assert_eq!(of("get: a call, 95th percentile"), "96.0 us");
        assert_eq!(of("create: calls in a life"), "2");
        assert_eq!(of("check: host calls in a life"), "3");
        assert_eq!(of("list: memory, most"), "64.0 KiB");
        assert_eq!(of("delete: computes, median"), "1.0 us");
    }

    #[test]
    fn two_are_shown_side_by_side_with_what_changed() {
        let one = [Figure::bytes("size", 1000), Figure::count("a", 0.0), Figure::count("b", 2.0)];
        let other = [Figure::bytes("size", 1100), Figure::count("a", 1.0), Figure::count("b", 2.0)];
        assert_eq!(
            comparison(&one, &other),
            "      FIRST       SECOND   CHANGE\nsize  1000 bytes  1.0 KiB  +10.0 %\na     0           1        new\nb     2           2        =\n"
        );
    }
}
