//! Two hosts over one store, as when a lease was lost unnoticed.

use std::{future::Future, pin::Pin, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::core::{
    backoff::Pace,
    reconcile::Next,
    tests::world::{Host, World, poll},
};

/// Both hosts run, one point at a time, in the order that the seed gives; people interfere.
fn interleave(world: &World, hosts: &[Host; 2], seed: u64) -> bool {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut passes: [Option<Pin<Box<dyn Future<Output = Next> + '_>>>; 2] = [None, None];
    let mut deleted = false;
    for _ in 0..40 {
        let which = usize::from(rng.random_bool(0.5));
        // Some go far while the other stands still: that is when records get stale.
        for _ in 0..rng.random_range(1..60) {
            world.clock.advance(Duration::from_millis(50));
            let pass = passes[which].get_or_insert_with(|| Box::pin(hosts[which].reconcile(&world.key)));
            if poll(pass.as_mut()).is_ready() {
                passes[which] = None;
            }
        }
        match rng.random_range(0..30) {
            0 | 4 | 5 if !deleted => world.apply(|spec| spec.port = rng.random_range(1..5)),
            1 => hosts.iter().for_each(|host| host.wake(&world.key)),
            2 if !deleted => world.backend.inner().machines.clear(),
            3 if rng.random_bool(0.3) => {
                world.store.request_delete(&world.key);
                deleted = true;
            }
            _ => {}
        }
        if world.store.peek(&world.key).is_none() {
            break;
        }
    }
    // What is still under way comes to its end.
    for mut pass in passes.into_iter().flatten() {
        while poll(pass.as_mut()).is_pending() {}
    }
    deleted
}

/// So that neither host ever waits long, and both are mostly at the same thing.
fn brisk() -> Pace {
    let soon = Duration::from_millis(200);
    Pace { transient: soon, transient_most: soon, running: soon, recheck: soon, ..Pace::default() }
}

#[test]
fn two_hosts_never_make_two_instances() {
    let mut ends = [0, 0];
    for seed in 0..250 {
        let world = World::new();
        world.backend.inner().at_once = true;
        let deleted = interleave(&world, &[world.host_with(brisk()), world.host_with(brisk())], seed);
        let host = world.host();
        if deleted {
            world.until_gone(&host);
            world.backend.assert_empty();
        } else {
            world.pass(&host);
            world.until_running(&host);
            world.backend.assert_only(&world.name());
        }
        ends[usize::from(deleted)] += 1;
    }
    assert!(ends[0] > 40 && ends[1] > 40, "{ends:?}");
}

#[test]
fn no_create_begins_under_an_incarnation_that_was_given_up() {
    let mut late = 0;
    for seed in 0..250 {
        let world = World::new();
        interleave(&world, &[world.host_with(brisk()), world.host_with(brisk())], seed);
        assert_eq!(world.backend.inner().faults, Vec::<String>::new(), "seed {seed}");
        // A create that was sent before the other host gave up may arrive after; that is the collector's.
        late += usize::from(world.backend.names().len() > 1);
    }
    assert!(late < 25, "{late}");
}
