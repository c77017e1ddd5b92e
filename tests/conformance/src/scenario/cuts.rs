//! Interruption and hand-over: the host dies at every point, and another goes on, perhaps with another
//! revision.

use crate::{
    halt::{Go, ensure},
    sight,
    sweep::{Play, each_cut, each_hand_over, made, nothing_before, nothing_is_lost, unmade},
    trial::Trial,
};

/// Create dies anywhere, and create goes on.
pub async fn create_is_taken_up(trial: &mut Trial<'_>) -> Go {
    each_cut(trial, nothing_before, made, async |play| {
        nothing_is_lost(play).await?;
        play.make().await?;
        sight::one_instance(play).await
    })
    .await
}

/// Create dies anywhere, and delete follows.
pub async fn create_can_be_deleted(trial: &mut Trial<'_>) -> Go {
    each_cut(trial, nothing_before, made, async |play| {
        play.unmake().await?;
        sight::nothing(&play.stage).await
    })
    .await
}

/// Create dies anywhere, its Proxy is gone, and the collector sees to it.
pub async fn create_can_be_collected(trial: &mut Trial<'_>) -> Go {
    each_cut(trial, nothing_before, made, async |play| {
        nothing_is_lost(play).await?;
        play.host.collect_all().await?;
        sight::nothing(&play.stage).await
    })
    .await
}

/// Delete dies anywhere, and delete goes on.
pub async fn delete_is_taken_up(trial: &mut Trial<'_>) -> Go {
    each_cut(trial, made, unmade, async |play| {
        nothing_is_lost(play).await?;
        play.unmake().await?;
        sight::nothing(&play.stage).await
    })
    .await
}

async fn replaced(play: &mut Play) -> Go {
    if play.proxy.incarnation == 1 {
        play.unmake().await?;
        play.proxy.raise();
    }
    play.make().await
}

/// A replacement dies anywhere, and goes on: the new incarnation alone is there.
pub async fn replacement_is_taken_up(trial: &mut Trial<'_>) -> Go {
    each_cut(trial, made, replaced, async |play| {
        nothing_is_lost(play).await?;
        replaced(play).await?;
        ensure(play.proxy.incarnation == 2, || "the incarnation was not raised".to_owned())?;
        sight::one_instance(play).await
    })
    .await
}

/// One that has an owner, one that has none, and what is left of a third.
async fn owned_and_ownerless(play: &mut Play) -> Go {
    play.make().await?;
    let mut ownerless = play.stage.proxy(2);
    play.host.make(&mut ownerless).await?;
    let mut left = play.stage.proxy(3);
    play.host.make(&mut left).await?;
    let name = left.name();
    for thing in play.stage.instances().await?.iter().filter(|thing| thing.name.contains(name.as_str())) {
        play.stage.act(thing, egress_sim::backend::Action::Remove).await?;
    }
    Ok(())
}

async fn collected(play: &mut Play) -> Go {
    let owned = play.proxy.name();
    for item in play.host.list().await? {
        if item.name != owned.as_str() {
            play.host.collect(&item).await?;
        }
    }
    Ok(())
}

/// List-and-collect dies anywhere, and goes on: what has an owner stays, and nothing else.
pub async fn collecting_is_taken_up(trial: &mut Trial<'_>) -> Go {
    each_cut(trial, owned_and_ownerless, collected, async |play| {
        sight::everything_is_listed(&play.stage, &play.host).await?;
        collected(play).await?;
        sight::one_instance(play).await
    })
    .await
}

/// Another revision takes a create up.
pub async fn create_is_handed_over(trial: &mut Trial<'_>) -> Go {
    each_hand_over(trial, nothing_before, made, async |play| {
        nothing_is_lost(play).await?;
        play.make().await?;
        sight::one_instance(play).await
    })
    .await
}

/// Another revision deletes what one began to make.
pub async fn create_is_handed_over_to_delete(trial: &mut Trial<'_>) -> Go {
    each_hand_over(trial, nothing_before, made, async |play| {
        play.unmake().await?;
        sight::nothing(&play.stage).await
    })
    .await
}

/// Another revision takes a delete up.
pub async fn delete_is_handed_over(trial: &mut Trial<'_>) -> Go {
    each_hand_over(trial, made, unmade, async |play| {
        nothing_is_lost(play).await?;
        play.unmake().await?;
        sight::nothing(&play.stage).await
    })
    .await
}
