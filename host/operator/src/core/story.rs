//! Which story a pass belongs to: a create or a delete takes many short passes, maybe of several processes, and
//! whoever follows one wants to see them together.
//!
//! A story is one incarnation's way up, or its way out. Its ids are derived from UID and incarnation, so that
//! every process and every pass finds them without storing anything. A look at what runs is no part of one:
//! looks go on for months, and no trace should.
//!
//! Nothing here knows how traces are kept: that is a [`Teller`]'s, and without one this costs nothing.

use std::{sync::OnceLock, time::SystemTime};

use sha2::{Digest, Sha256};
use tracing::{Span, field, info_span};

use crate::{
    api::{InstanceStatus, Phase, ProxyStatus},
    core::{
        conditions::READY,
        decide::is_current,
        store::{ProxyKey, ProxyRecord},
    },
};

/// What a story is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// From its name to its first address.
    Create,
    /// Until nothing is left.
    Delete,
}

impl Plot {
    /// Its span's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "proxy.create",
            Self::Delete => "proxy.delete",
        }
    }
}

/// One incarnation's way up, or out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Whose.
    pub key: ProxyKey,
    /// The Proxy's.
    pub uid: String,
    /// The how manieth instance of it.
    pub incarnation: u32,
    /// Which way.
    pub plot: Plot,
}

impl Story {
    /// The ids of its trace and of its first span, the same wherever they are asked for.
    pub fn ids(&self) -> ([u8; 16], [u8; 8]) {
        let mut trace = [0; 16];
        let mut span = [0; 8];
        let hash = Sha256::new()
            .chain_update(b"egressproxies.dev/story\0")
            .chain_update(self.plot.as_str())
            .chain_update(b"\0")
            .chain_update(self.uid.as_bytes())
            .chain_update(b"\0")
            .chain_update(self.incarnation.to_be_bytes())
            .finalize();
        let (first, rest) = hash.split_at(trace.len());
        trace.iter_mut().zip(first).for_each(|(to, from)| *to = *from);
        span.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        (trace, span)
    }

    fn of(record: &ProxyRecord, incarnation: u32, plot: Plot) -> Self {
        Self { key: record.key.clone(), uid: record.uid.clone(), incarnation, plot }
    }
}

/// Where a pass belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// It is a part of this one.
    To(Story),
    /// It looks at what this one made.
    After(Story),
    /// Nothing was begun, and nothing is.
    Nowhere,
}

/// Before a pass: what it goes on with.
pub fn belongs(record: &ProxyRecord) -> Belongs {
    let status = &record.status;
    let now = |plot| Belongs::To(Story::of(record, status.incarnation, plot));
    match &status.instance {
        None if record.deleting => Belongs::Nowhere,
        // An entry may be away for months.
        _ if status.phase == Some(Phase::Waiting) => {
            Belongs::After(Story::of(record, status.incarnation, Plot::Create))
        }
        // The pass that begins it raises the incarnation.
        None => {
            let next = status.incarnation.saturating_add(1);
            Belongs::To(Story::of(record, next, Plot::Create))
        }
        Some(instance) if record.deleting || instance.deleting || !is_current(record) => now(Plot::Delete),
        Some(instance) if is_first_way_up(instance, status) => now(Plot::Create),
        Some(_) => Belongs::After(Story::of(record, status.incarnation, Plot::Create)),
    }
}

/// Whether it is on its way up, and never ran before: Ready was not taken from it since it was begun.
fn is_first_way_up(instance: &InstanceStatus, status: &ProxyStatus) -> bool {
    let under_way = !instance.created || status.phase == Some(Phase::Provisioning);
    let ready = status.conditions.iter().find(|condition| condition.type_ == READY);
    let ran = ready.zip(instance.begun.as_ref()).is_some_and(|(ready, begun)| {
        ready.status == "True" || (ready.status == "False" && ready.last_transition_time.0 > begun.0)
    });
    under_way && !ran
}

/// After a pass: the story that it brought to its end, and when that began, as far as anybody noted it.
pub fn ended(before: &ProxyRecord, after: &ProxyStatus) -> Option<(Story, Option<SystemTime>)> {
    let Belongs::To(story) = belongs(before) else { return None };
    let instance = after.instance.as_ref().or(before.status.instance.as_ref());
    let begun = instance.and_then(|instance| instance.begun.as_ref());
    let (over, since) = match story.plot {
        Plot::Create => {
            (after.phase == Some(Phase::Running) && after.incarnation == story.incarnation, begun)
        }
        // Ready is taken from it before anything is removed; of one that never was ready, nobody notes when.
        Plot::Delete => {
            let ready = before.status.conditions.iter().find(|c| c.type_ == READY && c.status == "False");
            let since = ready.map(|ready| &ready.last_transition_time).filter(|time| begun < Some(*time));
            (after.instance.is_none() && before.status.instance.is_some(), since)
        }
    };
    over.then(|| (story, since.map(|time| SystemTime::from(time.0))))
}

/// What makes traces of stories.
pub trait Teller: Send + Sync {
    /// A pass begins: its span was not entered yet.
    fn pass(&self, span: &Span, belongs: &Belongs);
    /// A story is over. It began then; or nobody knows when, and only the end is told.
    fn ended(&self, story: &Story, since: Option<SystemTime>);
}

static TELLER: OnceLock<Box<dyn Teller>> = OnceLock::new();

/// Stories are told by it from here on. One process has one.
pub fn tell_by(teller: Box<dyn Teller>) {
    // A second one would tell everything twice.
    let _ = TELLER.set(teller);
}

/// The span of one pass.
pub(crate) fn pass_span(record: &ProxyRecord) -> Span {
    let span = info_span!("reconcile", proxy = %record.key, phase = field::Empty, step = field::Empty);
    if let Some(teller) = TELLER.get() {
        teller.pass(&span, &belongs(record));
    }
    span
}

/// What a pass may have to tell in its end.
pub(crate) struct Told(Option<ProxyRecord>);

impl Told {
    pub(crate) fn before(record: &ProxyRecord) -> Self {
        Self(TELLER.get().map(|_| record.clone()))
    }

    pub(crate) fn after(self, status: &ProxyStatus) {
        if let (Some(teller), Some(before)) = (TELLER.get(), self.0)
            && let Some((story, since)) = ended(&before, status)
        {
            teller.ended(&story, since);
        }
    }
}
