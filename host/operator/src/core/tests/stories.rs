//! Passes that belong together are found to, by every process, and looks stay out of it.

use std::{collections::BTreeSet, time::Duration};

use egress_contract::State;

use crate::{
    api::Phase,
    core::{
        store::ProxyRecord,
        story::{Belongs, Plot, Story, belongs, ended},
        tests::world::World,
    },
};

/// Where each pass belongs, and what it ends, until this holds.
fn told(world: &World, until: impl Fn(&World) -> bool) -> (Vec<Belongs>, Vec<Story>) {
    let host = world.host();
    let (mut all, mut over) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        if until(world) {
            return (all, over);
        }
        let before: ProxyRecord = world.record();
        all.push(belongs(&before));
        world.pass(&host);
        over.extend(ended(&before, &world.status()).map(|(story, _)| story));
    }
    panic!("it never came to that: {all:?}");
}

fn runs(world: &World) -> bool {
    world.status().phase == Some(Phase::Running)
}

#[test]
fn all_steps_of_a_create_are_one_story_that_ends_when_it_runs() {
    let world = World::new();
    let (all, over) = told(&world, runs);
    let stories: BTreeSet<String> = all.iter().map(|belongs| format!("{belongs:?}")).collect();
    assert_eq!(stories.len(), 1, "{stories:?}");
    let Belongs::To(story) = &all[0] else { panic!("{all:?}") };
    assert_eq!((story.plot, story.incarnation), (Plot::Create, 1));
    assert!(all.len() > 3, "several passes: {}", all.len());
    assert_eq!(over, std::slice::from_ref(story));
}

#[test]
fn a_look_and_a_new_start_of_what_ran_are_not_part_of_it_and_its_end_is_a_story_of_its_own() {
    let world = World::new();
    told(&world, runs);
    world.clock.advance(Duration::from_secs(10));
    let create = belongs(&world.record());
    assert!(matches!(&create, Belongs::After(story) if story.plot == Plot::Create), "{create:?}");

    world.backend.machine(&world.name(), |machine| machine.state = State::Stopped);
    let (restart, over) = told(&world, |world| !runs(world));
    assert!(restart.iter().all(|belongs| *belongs == create), "{restart:?}");
    let (restart, again) = told(&world, runs);
    assert!(restart.iter().all(|belongs| *belongs == create), "{restart:?}");
    assert_eq!((over, again), (Vec::new(), Vec::new()), "its create was over before");

    world.apply(|spec| spec.port = 8080);
    let (replaced, over) = told(&world, |world| world.status().incarnation == 2 && runs(world));
    let plots: Vec<(Plot, u32)> = over.iter().map(|story| (story.plot, story.incarnation)).collect();
    assert_eq!(plots, [(Plot::Delete, 1), (Plot::Create, 2)]);
    assert!(replaced.iter().all(|belongs| matches!(belongs, Belongs::To(story) if over.contains(story))));
}

#[test]
fn a_story_has_the_same_ids_in_every_process_and_version() {
    let story = |plot, incarnation| Story {
        key: World::new().key,
        uid: "0b0f6b3e-6a2c-4f6a-9f43-3a1f9c2f7d11".to_owned(),
        incarnation,
        plot,
    };
    let hex = |story: &Story| (hex::encode(story.ids().0), hex::encode(story.ids().1));
    let first = hex(&story(Plot::Create, 1));
    assert_eq!(first, ("f92a3fd04f255fecce29b4e1f27e6d7c".to_owned(), "0fb908a8a7774230".to_owned()));
    let others = [story(Plot::Delete, 1), story(Plot::Create, 2)].map(|other| hex(&other));
    assert!(others.iter().all(|other| other.0 != first.0), "{others:?}");
}
