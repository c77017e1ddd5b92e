//! Check: whether a place could serve a create.

use egress_contract::Health;
use egress_sim::{
    backend::Condition,
    fault::{Fault, REQUEST_DEADLINE},
};

use crate::{
    halt::{Go, broken, ensure},
    host::failed,
    profile::HEALTH_REASONS,
    sweep::Play,
    trial::Trial,
};

async fn health(play: &Play, place: &str) -> Go<Health> {
    match play.host.check(place).await?.answer {
        Ok(health) => Ok(health),
        Err(error) => broken(format!("check of {place} failed: {}", failed(&error))),
    }
}

fn known(health: &Health) -> Go {
    ensure(HEALTH_REASONS.contains(&health.reason.as_str()), || {
        format!("check says {:?}, which is none of the contract's reasons", health.reason)
    })
}

/// A place that is well is ready.
pub async fn a_sound_place_is_ready(trial: &mut Trial<'_>) -> Go {
    let play = Play::new(trial).await?;
    for place in trial.places() {
        let health = health(&play, place).await?;
        known(&health)?;
        ensure(health.ready && health.reason == "reachable", || {
            format!("{place} is well, and check says {} {}: {}", health.ready, health.reason, health.message)
        })?;
    }
    Ok(())
}

/// One that can't be reached, or answers nonsense, is not, and the reason says which.
pub async fn a_broken_place_is_not_ready(trial: &mut Trial<'_>) -> Go {
    let expected: [(Fault, &[&str]); 8] = [
        (Fault::Refused, &["unreachable"]),
        (Fault::Lost, &["unreachable"]),
        (Fault::Timeout(REQUEST_DEADLINE), &["timeout"]),
        (Fault::CutShort, &["unreachable", "api-error"]),
        (Fault::RateLimited(REQUEST_DEADLINE), &["api-error", "timeout"]),
        (Fault::Garbage, &["unreachable", "api-error"]),
        (Fault::WrongContentType, &["api-error"]),
        (Fault::NoCredentials, &["credentials-unavailable", "unauthorized"]),
    ];
    let play = Play::new(trial).await?;
    for place in trial.places() {
        for (fault, reasons) in expected.iter().filter(|(fault, _)| trial.can_fail_so(fault)) {
            play.stage.plan().clear();
            play.stage.plan().place(place, fault.clone());
            let health = health(&play, place).await?;
            known(&health)?;
            ensure(!health.ready && reasons.contains(&health.reason.as_str()), || {
                let ready = if health.ready { "ready" } else { "not ready" };
                format!(
                    "every call to {place} ends as {}, and check says {ready} {}; it should be not ready {}",
                    fault.as_str(),
                    health.reason,
                    reasons.join(" or ")
                )
            })?;
            ensure(!health.message.is_empty(), || "check says why in no word".to_owned())?;
        }
    }
    Ok(())
}

/// One that lets us look and not make is not ready.
pub async fn missing_rights_are_not_ready(trial: &mut Trial<'_>) -> Go {
    let play = Play::new(trial).await?;
    play.stage.world().backend.impose(Condition::RightsMissing).await?;
    for place in trial.places() {
        let health = health(&play, place).await?;
        known(&health)?;
        let told = ["rights-missing", "forbidden"].contains(&health.reason.as_str());
        ensure(!health.ready && told, || {
            format!(
                "nothing may be made at {place}, and check says {} {}",
                if health.ready { "ready" } else { "not ready" },
                health.reason
            )
        })?;
    }
    Ok(())
}
