//! One promise on trial: its stages, what was counted, and where it stood when it was found broken.

use std::{ops::AddAssign, time::Duration};

use egress_contract::Description;
use egress_sim::{
    fault::{Fault, Point},
    random::Random,
};
use serde::Serialize;

use crate::{
    halt::{Go, Halt, broken},
    promise::Promise,
    stage::{Stage, Subject},
    suite::Suite,
};

/// How much was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Runs, each on a backend of its own.
    pub runs: u64,
    /// Points at which a host died.
    pub interruptions: u64,
    /// Points at which another revision took over.
    pub hand_overs: u64,
    /// Points at which a host waited for another.
    pub interleavings: u64,
    /// Points at which something went wrong, times what went wrong there.
    pub faults: u64,
    /// Points that were not tried, because only some were asked for.
    pub left_out: u64,
    /// Calls of a provider.
    pub calls: u64,
    /// Calls of capabilities.
    pub host_calls: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.runs += more.runs;
        self.interruptions += more.interruptions;
        self.hand_overs += more.hand_overs;
        self.interleavings += more.interleavings;
        self.faults += more.faults;
        self.left_out += more.left_out;
        self.calls += more.calls;
        self.host_calls += more.host_calls;
    }
}

/// See the module.
pub struct Trial<'s> {
    suite: &'s Suite,
    promise: &'static Promise,
    stage: Option<Stage>,
    /// The last call on it that was counted already.
    counted: u64,
    point: Option<Point>,
    journals: Vec<String>,
    counts: Counts,
    /// Whether the point that was asked for was come to.
    reached: bool,
    /// The points that there were.
    seen: Option<(u64, u64)>,
}

impl<'s> Trial<'s> {
    pub(crate) fn new(suite: &'s Suite, promise: &'static Promise) -> Self {
        Self {
            suite,
            promise,
            stage: None,
            counted: 0,
            point: None,
            journals: Vec::new(),
            counts: Counts::default(),
            reached: false,
            seen: None,
        }
    }

    /// A fresh backend, with nothing on it.
    pub async fn stage(&mut self) -> Go<Stage> {
        self.close();
        let world = self.suite.kind().world(self.suite.seed()).await?;
        let stage = Stage::new(self.suite.runtime().clone(), self.suite.subject().clone(), world);
        self.counts.runs += 1;
        self.stage = Some(stage.clone());
        Ok(stage)
    }

    /// A stage that is now as this one is, where that can be had.
    pub fn fork(&mut self, stage: &Stage) -> Option<Stage> {
        let fork = stage.fork()?;
        self.close();
        self.counts.runs += 1;
        self.counted = fork.journal().last();
        self.stage = Some(fork.clone());
        Some(fork)
    }

    /// What was counted on the stage that is left.
    fn close(&mut self) {
        self.point = None;
        let counted = std::mem::take(&mut self.counted);
        let Some(stage) = self.stage.take() else { return };
        let (mut calls, mut host_calls) = (0, 0);
        for line in stage.journal().lines().iter().filter(|line| line.number > counted) {
            if line.is_host_call() {
                host_calls += 1;
            } else {
                calls += 1;
            }
        }
        self.counts += Counts { calls, host_calls, ..Counts::default() };
        if self.suite.keeps_journals() {
            self.journals.push(stage.journal().to_string());
        }
    }

    /// The component on trial.
    pub fn subject(&self) -> &Subject {
        self.suite.subject()
    }

    /// Another revision of it: another component, or the same with another config.
    pub fn other(&self) -> &Subject {
        self.suite.other()
    }

    /// What the component says of itself.
    pub fn description(&self) -> &Description {
        self.suite.description()
    }

    /// Its value on one axis.
    pub fn profile(&self, axis: &str) -> &str {
        self.description().profile.get(axis).and_then(serde_json::Value::as_str).unwrap_or_default()
    }

    /// Its places.
    pub fn places(&self) -> &[String] {
        self.suite.places()
    }

    /// Whether time is virtual, and a backend costs nothing.
    pub fn is_simulated(&self) -> bool {
        self.suite.kind().is_simulated()
    }

    /// Draws that the seed and the promise fix.
    pub fn random(&self) -> Random {
        let mixed = self.promise.id.bytes().fold(self.suite.seed(), |mixed, byte| {
            mixed.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(byte))
        });
        Random::seeded(mixed)
    }

    /// For what is counted while it runs.
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// Of these points, those that are to be run: all, or the one that was asked for.
    pub fn points(&mut self, points: Vec<Point>) -> Vec<Point> {
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            let (least, most) = self.seen.unwrap_or((first.number, last.number));
            self.seen = Some((least.min(first.number), most.max(last.number)));
        }
        let Some(cut) = self.suite.cut() else {
            let all = points.len();
            let some = self.some(points);
            self.counts.left_out += (all - some.len()) as u64;
            return some;
        };
        let asked: Vec<Point> = points.into_iter().filter(|point| *point == cut).collect();
        self.reached |= !asked.is_empty();
        asked
    }

    /// All of these, or as many as the suite is to try.
    pub fn some<T>(&self, of: Vec<T>) -> Vec<T> {
        match self.suite.most_points() {
            Some(most) => self.random().sample(of, most),
            None => of,
        }
    }

    /// What goes wrong, one after the other.
    pub fn faults(&self) -> Vec<Fault> {
        let faults = Fault::failures().into_iter().map(|fault| match fault {
            // Nobody is to wait for real.
            Fault::Timeout(_) if !self.is_simulated() => Fault::Timeout(Duration::from_secs(1)),
            Fault::RateLimited(_) if !self.is_simulated() => Fault::RateLimited(Duration::from_secs(1)),
            other => other,
        });
        self.some(faults.filter(|fault| self.can_fail_so(fault)).collect())
    }

    /// Whether calls of this backend can fail in this way.
    pub fn can_fail_so(&self, fault: &Fault) -> bool {
        self.suite.kind().can_fail_so(fault)
    }

    /// From now on this run is about a point.
    pub fn at(&mut self, point: Point) {
        self.point = Some(point);
    }

    /// The verdict on a scenario that ended so.
    pub(crate) async fn judge(mut self, ended: Go) -> (Verdict, Counts, Vec<String>) {
        let verdict = match ended {
            Ok(()) => self.unreached().map_or(Verdict::Kept, Verdict::Failed),
            Err(Halt::Skipped(why)) => Verdict::Skipped(why),
            Err(Halt::Failed(why)) => Verdict::Failed(why),
            Err(Halt::Died) => Verdict::Failed("a host died where nobody wanted it".to_owned()),
            Err(Halt::Broken(why)) => Verdict::Broken(Box::new(self.breach(why).await)),
        };
        self.close();
        (verdict, self.counts, self.journals)
    }

    fn unreached(&self) -> Option<String> {
        let cut = self.suite.cut().filter(|_| !self.reached)?;
        Some(match self.seen {
            Some((first, last)) => {
                format!("there is no point {cut} here; those of {} are {first} to {last}", self.promise.id)
            }
            None => format!("{} has no points to cut at; leave out --cut", self.promise.id),
        })
    }

    async fn breach(&self, why: String) -> Breach {
        let Some(stage) = &self.stage else {
            return Breach { why, point: self.point, journal: String::new(), inventory: Vec::new() };
        };
        let inventory = match stage.world().backend.inventory().await {
            Ok(things) => things.iter().map(ToString::to_string).collect(),
            Err(unable) => vec![unable.to_string()],
        };
        let journal = stage.journal().marked(self.point.map(|point| point.number));
        Breach { why, point: self.point, journal, inventory }
    }
}

/// How a promise fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was found against it.
    Kept,
    /// It is broken.
    Broken(Box<Breach>),
    /// It says nothing about this component, or can't be tried at this backend: why.
    Skipped(String),
    /// The suite could not try it: why.
    Failed(String),
}

/// How a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Breach {
    /// What was seen instead.
    pub why: String,
    /// Where in the run it was provoked.
    #[serde(serialize_with = "point")]
    pub point: Option<Point>,
    /// What was asked until then, the point marked.
    pub journal: String,
    /// What existed at the backend then.
    pub inventory: Vec<String>,
}

fn point<S: serde::Serializer>(point: &Option<Point>, serializer: S) -> Result<S::Ok, S::Error> {
    point.map(|point| point.to_string()).serialize(serializer)
}

/// A failure that nobody expected, in a scenario's words.
pub fn unexpected<T>(what: &str, error: &egress_contract::Error) -> Go<T> {
    broken(format!("{what}: {}", crate::host::failed(error)))
}
