//! The process ends between any two awaits: exactly one instance is there afterwards, or none.

use egress_contract::{Error, ErrorClass, State};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    api::Phase,
    core::{
        reconcile::Next,
        tests::{
            provider::When,
            world::{Host, World, drive},
        },
    },
};

/// What happens to the Proxy, and how it must end.
#[derive(Clone, Copy, Debug)]
enum Story {
    Create,
    Replace,
    ReplaceHalfMade,
    Delete,
    DeleteHalfMade,
    Gone,
    Finished,
    Restart,
}

const STORIES: [Story; 8] = [
    Story::Create,
    Story::Replace,
    Story::ReplaceHalfMade,
    Story::Delete,
    Story::DeleteHalfMade,
    Story::Gone,
    Story::Finished,
    Story::Restart,
];

impl Story {
    /// The world in which it begins.
    fn begin(self) -> World {
        let world = match self {
            Self::Create => World::new(),
            Self::DeleteHalfMade | Self::ReplaceHalfMade => {
                let world = World::new();
                world.until(&world.host(), |_| !world.backend.inner().tasks.is_empty());
                world
            }
            Self::Replace | Self::Delete | Self::Gone | Self::Finished | Self::Restart => World::running().0,
        };
        match self {
            Self::Create => {}
            Self::Replace | Self::ReplaceHalfMade => world.apply(|spec| spec.port = 8080),
            Self::Delete | Self::DeleteHalfMade => world.store.request_delete(&world.key),
            Self::Gone => world.backend.inner().machines.clear(),
            Self::Finished => {
                world.backend.machine(&world.name(), |m| (m.state, m.finished) = (State::Stopped, true));
            }
            Self::Restart => world.backend.machine(&world.name(), |m| m.state = State::Stopped),
        }
        world
    }

    fn incarnation(self) -> Option<u32> {
        match self {
            Self::Create | Self::Restart => Some(1),
            Self::Replace | Self::ReplaceHalfMade | Self::Gone | Self::Finished => Some(2),
            Self::Delete | Self::DeleteHalfMade => None,
        }
    }

    fn assert_ended(self, world: &World, host: &Host) {
        match self.incarnation() {
            Some(incarnation) => {
                // The backend is asked, too: what ended by itself still looks alive in the status.
                world.until(host, |record| {
                    let name = record.status.instance.as_ref().map(|i| &i.name);
                    record.status.phase == Some(Phase::Running)
                        && record.status.observed_generation == Some(record.generation)
                        && name.is_some_and(|name| world.backend.runs(name))
                });
                world.backend.assert_only(&world.name());
                let status = world.status();
                assert_eq!(status.incarnation, incarnation, "no incarnation was wasted");
                assert!(status.instance.as_ref().is_some_and(|i| i.created && !i.deleting), "{status:#?}");
                assert_eq!(world.condition("Ready").0, "True");
            }
            None => {
                world.until_gone(host);
                world.backend.assert_empty();
            }
        }
    }
}

/// Passes until the story has ended or `points` were passed, where the process ends. How many were passed.
fn live(world: &World, host: &Host, cut: Option<usize>) -> usize {
    let mut points = 0;
    // More than any of the stories takes.
    for _ in 0..25 {
        let (answer, passed) = drive(host.reconcile(&world.key), cut.map(|cut| cut - points));
        points += passed;
        match answer {
            Some(Next::Requeue(after)) => world.clock.advance(after),
            Some(Next::Wait) | None => break,
        }
    }
    points
}

#[test]
fn a_process_that_ends_anywhere_leaves_one_instance_or_none() {
    for story in STORIES {
        let world = story.begin();
        let points = live(&world, &world.host(), None);
        assert!(points > 15, "{story:?}: {points} points");
        for cut in 0..points {
            let world = story.begin();
            live(&world, &world.host(), Some(cut));
            world.entries.set("one", Some((world.backend.clone(), "r2")));
            story.assert_ended(&world, &world.host());
        }
    }
}

#[test]
fn a_delete_that_follows_a_cut_anywhere_leaves_nothing() {
    for story in STORIES {
        let world = story.begin();
        let points = live(&world, &world.host(), None);
        for cut in 0..points {
            let world = story.begin();
            live(&world, &world.host(), Some(cut));
            world.store.request_delete(&world.key);
            world.until_gone(&world.host());
            world.backend.assert_empty();
        }
    }
}

#[test]
fn a_process_that_ends_twice_leaves_one_instance_or_none() {
    for story in STORIES {
        let world = story.begin();
        let points = live(&world, &world.host(), None);
        let mut rng = StdRng::seed_from_u64(points as u64);
        for _ in 0..200 {
            let world = story.begin();
            live(&world, &world.host(), Some(rng.random_range(0..points)));
            live(&world, &world.host(), Some(rng.random_range(0..points)));
            story.assert_ended(&world, &world.host());
        }
    }
}

#[test]
fn a_call_that_fails_before_or_after_its_effect_leaves_one_instance_or_none() {
    let failures = [
        Error::transient("busy", "busy"),
        Error::permanent("forbidden", "forbidden"),
        Error::new(ErrorClass::QuotaExceeded, "quota", "no room"),
    ];
    for story in STORIES {
        let world = story.begin();
        world.backend.clear_log();
        live(&world, &world.host(), None);
        for call in 0..world.backend.log().len() {
            for when in [When::Before, When::After] {
                for failure in &failures {
                    let world = story.begin();
                    world.backend.pass_then_fail(call, (when, failure.clone()));
                    story.assert_ended(&world, &world.host());
                }
            }
        }
    }
}

#[test]
fn what_was_made_names_the_revision_that_was_active_when_it_was_begun() {
    let world = World::new();
    let points = live(&world, &world.host(), None);
    for cut in 0..points {
        let world = World::new();
        live(&world, &world.host(), Some(cut));
        let begun = world.status().instance.is_some();
        world.entries.set("one", Some((world.backend.clone(), "r2")));
        world.until_running(&world.host());
        let created_by = world.status().instance.unwrap().created_by.unwrap();
        assert_eq!(created_by, if begun { "r1" } else { "r2" }, "cut at {cut}");
    }
}
