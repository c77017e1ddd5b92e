//! Two hosts at once on one target: two operators' processes, which share the backend and nothing else.
//!
//! Locks of the contract and the host's own order of calls reach no further than one process; so what keeps
//! two of them apart is the backend alone.

use crate::{
    halt::{Go, ensure},
    sight,
    sweep::{Play, each_switch, made, nothing_before, nothing_is_lost, unmade},
    trial::Trial,
};

/// Two creates make one instance.
pub async fn two_creates(trial: &mut Trial<'_>) -> Go {
    each_switch(trial, nothing_before, made, made, async |play| sight::one_instance(play).await).await
}

/// Two deletes leave nothing.
pub async fn two_deletes(trial: &mut Trial<'_>) -> Go {
    each_switch(trial, made, unmade, unmade, async |play| sight::nothing(&play.stage).await).await
}

/// A create beside a delete leaves one instance or none, and the collector finds what is left.
pub async fn create_beside_delete(trial: &mut Trial<'_>) -> Go {
    each_switch(trial, nothing_before, made, unmade, one_or_none).await?;
    each_switch(trial, made, unmade, made, one_or_none).await
}

async fn one_or_none(play: &mut Play) -> Go {
    nothing_is_lost(play).await?;
    for thing in play.stage.inventory().await? {
        ensure(thing.mark == play.proxy.mark() || thing.name.contains(play.proxy.name().as_str()), || {
            format!("{thing} is marked as nobody's")
        })?;
    }
    play.host.collect_all().await?;
    sight::nothing(&play.stage).await
}
