//! What there is: projects with their zones, instances, operations, rules and addresses.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use egress_runtime::capability::{Clock, HttpResponse};
use serde_json::Value;

/// After an insert was accepted: when the instance can be seen, when it is staged, when it runs, when its address
/// shows, and when the operation ends.
pub const VISIBLE_MS: u64 = 1_000;
pub const STAGING_MS: u64 = 3_000;
pub const RUNS_MS: u64 = 8_000;
pub const ADDRESS_MS: u64 = 9_500;
pub const INSERTED_MS: u64 = 9_000;
/// When an insert fails that was accepted.
pub const FAILS_MS: u64 = 3_000;
pub const DELETED_MS: u64 = 12_000;
pub const STARTED_MS: u64 = 5_000;
pub const MADE_MS: u64 = 2_000;

/// A VM.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Its id.
    pub number: u64,
    /// As it was sent.
    pub body: Value,
    /// As they are now.
    pub labels: BTreeMap<String, String>,
    /// Counts the changes of its labels.
    pub label_version: u64,
    /// When the insert was accepted.
    pub inserted_ms: u64,
    /// When it was started last.
    pub started_ms: u64,
    /// When it runs; none while something keeps it from that.
    pub runs_ms: Option<u64>,
    /// What it is besides coming up or running.
    pub forced: Option<String>,
    /// The public one, or empty.
    pub address: String,
    /// The other one.
    pub internal: String,
    /// Somebody took its addresses away.
    pub silent: bool,
    /// Whether a delete is under way.
    pub deleting: bool,
}

impl Vm {
    /// Whether anybody can see it yet.
    pub fn is_visible(&self, now: u64) -> bool {
        now >= self.inserted_ms + VISIBLE_MS
    }

    /// What it shows.
    pub fn status(&self, now: u64) -> String {
        if self.deleting {
            return "STOPPING".to_owned();
        }
        if let Some(forced) = &self.forced {
            return forced.clone();
        }
        if self.runs_ms.is_some_and(|at| now >= at) {
            return "RUNNING".to_owned();
        }
        let word = if now < self.started_ms + STAGING_MS { "PROVISIONING" } else { "STAGING" };
        word.to_owned()
    }
}

/// What an operation does when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Insert,
    Start,
    Delete,
    MakeRule(Box<Value>),
    DeleteRule,
    None,
}

/// Why an operation fails.
#[derive(Clone, Debug, PartialEq)]
pub struct OpError {
    /// `QUOTA_EXCEEDED`.
    pub code: String,
    /// For people.
    pub message: String,
    /// As HTTP would have it.
    pub status: u64,
    /// The same in words.
    pub phrase: &'static str,
    /// `errorDetails`.
    pub details: Vec<Value>,
}

/// An operation.
#[derive(Clone, Debug)]
pub struct Op {
    pub name: String,
    pub number: u64,
    pub kind: String,
    /// A zone's, or the project's.
    pub zone: Option<String>,
    /// `zones/Z/instances/N`.
    pub target: String,
    pub target_number: u64,
    pub inserted_ms: u64,
    /// When it ends; none while something holds it up.
    pub due_ms: Option<u64>,
    pub done_ms: Option<u64>,
    pub error: Option<OpError>,
    pub effect: Effect,
}

/// A region.
#[derive(Clone, Debug)]
pub struct Region {
    pub limits: BTreeMap<String, f64>,
    pub is_down: bool,
    pub hides_quotas: bool,
}

/// A reserved address.
#[derive(Clone, Debug)]
pub struct Reserved {
    pub region: String,
    pub address: String,
}

/// A project.
#[derive(Clone, Debug, Default)]
pub struct Project {
    pub regions: BTreeMap<String, Region>,
    pub zones: BTreeSet<String>,
    /// By zone and name.
    pub vms: BTreeMap<(String, String), Vm>,
    pub ops: Vec<Op>,
    /// By their ids, with the name of the operation.
    pub requests: BTreeMap<String, String>,
    /// With the time when each was made.
    pub rules: BTreeMap<String, (u64, Value)>,
    pub addresses: BTreeMap<String, Reserved>,
    /// Permissions that nobody has.
    pub forbidden: BTreeSet<String>,
}

/// A bad day.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// What is inserted never comes up.
    pub never_starts: bool,
    /// Zones without room.
    pub stocked_out: BTreeSet<String>,
    /// Zones that lists leave out.
    pub unreachable: BTreeSet<String>,
    /// Tokens of lists are forgotten at once.
    pub tokens_expire: bool,
    /// `returnPartialSuccess` and `fields` are refused, as a later revision may.
    pub refused_parameters: BTreeSet<String>,
    /// Images that are not there.
    pub missing_images: BTreeSet<String>,
    /// Images that should not be used any more.
    pub deprecated_images: BTreeSet<String>,
    /// The next inserts fail so, after they were accepted.
    pub insert_fails: VecDeque<OpError>,
    /// The same of deletes.
    pub delete_fails: VecDeque<OpError>,
    /// The next requests of this method whose path ends so are answered so.
    pub answers: VecDeque<(String, String, HttpResponse)>,
    /// A warning that whole lists bear.
    pub list_warning: Option<String>,
}

/// All of it.
#[derive(Clone)]
pub struct World {
    pub clock: Arc<dyn Clock>,
    pub endpoint: String,
    pub manager: Option<String>,
    pub projects: BTreeMap<String, Project>,
    pub weather: Weather,
    /// Counts what was made.
    pub made: u64,
    /// What a page holds at most, whatever is asked for.
    pub page: usize,
}

impl World {
    pub fn now(&self) -> u64 {
        self.clock.now_ms()
    }

    pub fn number(&mut self) -> u64 {
        self.made += 1;
        7_000_000_000_000_000_000 + self.made
    }
}
