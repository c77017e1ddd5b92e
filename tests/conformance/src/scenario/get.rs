//! Get, and what looking does.

use std::time::Duration;

use egress_contract::{ErrorClass, Instance, State};
use egress_sim::{backend::Action, journal::Effect};

use crate::{
    halt::{Go, broken, ensure},
    host::failed,
    sweep::Play,
    trial::Trial,
};

/// From done to an address, by the profile: "seconds" and "a boot".
const IMMEDIATE: Duration = Duration::from_secs(60);
const A_BOOT: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_secs(5);

async fn seen(play: &Play) -> Go<Instance> {
    match play.host.get(&play.proxy).await?.answer {
        Ok(instance) => Ok(instance),
        Err(error) => broken(format!("get failed: {}", failed(&error))),
    }
}

/// What is done has an address within what the profile says.
pub async fn shows_it_running(trial: &mut Trial<'_>) -> Go {
    let window = if trial.profile("readiness") == "immediate" { IMMEDIATE } else { A_BOOT };
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let mut waited = Duration::ZERO;
    loop {
        let instance = seen(&play).await?;
        match instance.state {
            State::Running => {
                return ensure(!instance.addresses.is_empty(), || "it runs without an address".to_owned());
            }
            State::Provisioning if waited < window => {
                play.stage.wait(LOOK).await;
                waited += LOOK;
            }
            State::Provisioning | State::Stopped | State::Deleting => {
                return broken(format!(
                    "{} s after create was done, get says {:?} {}: {}",
                    waited.as_secs(),
                    instance.state,
                    instance.reason,
                    instance.message
                ));
            }
        }
    }
}

/// The mark is what stands at the backend, the age what passed since.
pub async fn tells_mark_and_age(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.stage.wait(Duration::from_secs(86_400)).await;
    let before = play.stage.clock().now_ms();
    play.make().await?;
    let after = play.stage.clock().now_ms();
    play.stage.wait(Duration::from_secs(3_600)).await;
    let instance = seen(&play).await?;
    let proxy = &play.proxy;
    let mark = proxy.installation.mark(&proxy.uid, proxy.incarnation, &proxy.namespace, &proxy.proxy);
    ensure(instance.mark == mark, || {
        format!("get reads back the mark {:?}, and written was {mark:?}", instance.mark)
    })?;
    // Backends tell whole seconds, and their clocks are not ours.
    let slack = if trial.is_simulated() { 1_000 } else { 120_000 };
    ensure(
        instance.created_ms.is_some_and(|at| (before.saturating_sub(slack)..=after + slack).contains(&at)),
        || {
            format!(
                "get says that it was created at {:?}; it was between {before} and {after}",
                instance.created_ms
            )
        },
    )
}

/// What is gone is not-found: never made, removed by delete, removed by somebody.
pub async fn gone_is_not_found(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    gone(&play, "an instance that was never made").await?;
    play.make().await?;
    play.unmake().await?;
    gone(&play, "a deleted instance").await?;
    play.proxy.raise();
    play.make().await?;
    let instance = play.stage.instance().await?;
    play.stage.act(&instance, Action::Remove).await?;
    gone(&play, "an instance that an administrator removed").await
}

async fn gone(play: &Play, what: &str) -> Go {
    match play.host.get(&play.proxy).await?.answer {
        Err(error) if error.class == ErrorClass::NotFound => Ok(()),
        Err(error) => broken(format!("get of {what} says {}; it should be not-found", failed(&error))),
        Ok(instance) => broken(format!("get of {what} says {:?}", instance.state)),
    }
}

/// What an administrator does to an instance, and what get must say then.
async fn after(trial: &mut Trial<'_>, action: Action, wanted: State) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let instance = play.stage.instance().await?;
    play.stage.act(&instance, action.clone()).await?;
    let seen = seen(&play).await?;
    ensure(seen.state == wanted, || {
        format!("after {action:?} get says {:?}; it should be {wanted:?}", seen.state)
    })
}

/// Without an address it is not running.
pub async fn runs_only_with_an_address(trial: &mut Trial<'_>) -> Go {
    after(trial, Action::TakeAddresses, State::Provisioning).await
}

/// A state that nobody knows is "stopped".
pub async fn unknown_is_stopped(trial: &mut Trial<'_>) -> Go {
    after(trial, Action::Bewitch, State::Stopped).await
}

/// One that ended is "stopped".
pub async fn ended_is_stopped(trial: &mut Trial<'_>) -> Go {
    after(trial, Action::Finish, State::Stopped).await
}

/// One being removed is "deleting".
pub async fn being_removed_is_deleting(trial: &mut Trial<'_>) -> Go {
    after(trial, Action::HoldRemoval, State::Deleting).await
}

/// Get, list and check write nothing, in whatever state an instance is.
pub async fn changes_nothing(trial: &mut Trial<'_>) -> Go {
    let actions = [
        None,
        Some(Action::Finish),
        Some(Action::Bewitch),
        Some(Action::TakeAddresses),
        Some(Action::Remove),
    ];
    for action in actions {
        let mut play = Play::new(trial).await?;
        play.make().await?;
        if let Some(action) = action {
            let instance = play.stage.instance().await?;
            match play.stage.act(&instance, action).await {
                // One way to be is as good as another here.
                Err(crate::halt::Halt::Skipped(_)) => continue,
                other => other?,
            }
        }
        let first = play.stage.journal().last();
        // What they answer is other promises' affair.
        play.host.get(&play.proxy).await?.answer.ok();
        for place in trial.places() {
            play.host.list_place(place).await?.ok();
            play.host.check(place).await?.answer.ok();
        }
        let lines = play.stage.journal().lines();
        let written = lines.iter().find(|line| line.number > first && line.effect == Some(Effect::Write));
        ensure(written.is_none(), || {
            format!(
                "get, list and check must change nothing: {}",
                written.map(ToString::to_string).unwrap_or_default()
            )
        })?;
    }
    Ok(())
}
