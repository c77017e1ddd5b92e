//! What goes wrong once, and how it is told.

use std::time::Duration;

use egress_contract::{Error, ErrorClass};
use egress_sim::{
    backend::Condition,
    fault::{Fault, When},
};

use crate::{
    halt::{Go, broken, ensure, skip},
    host::{Host, failed},
    proxy::Proxy,
    sight,
    sweep::{Beginning, Play, each_fault, host_call_points, made, nothing_before, unmade},
    trial::Trial,
};

/// Something goes wrong once at each call of create, which is done in the end.
pub async fn a_create_is_done_in_the_end(trial: &mut Trial<'_>) -> Go {
    each_fault(trial, nothing_before, made, async |play| sight::one_instance(play).await).await
}

/// The same of delete.
pub async fn a_delete_is_done_in_the_end(trial: &mut Trial<'_>) -> Go {
    each_fault(trial, made, unmade, async |play| sight::nothing(&play.stage).await).await
}

/// What is asked once.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Create,
    Get,
    Delete,
    List,
}

impl Asked {
    const ALL: [Self; 4] = [Self::Create, Self::Get, Self::Delete, Self::List];

    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }

    /// Until it fails or comes to its end; the failure.
    async fn run(self, host: &Host, proxy: &mut Proxy, places: &[String]) -> Go<Option<Error>> {
        match self {
            Self::Create => {
                for _ in 0..50 {
                    match host.create_step(proxy).await?.answer {
                        Err(error) => return Ok(Some(error)),
                        Ok(egress_contract::Created::Done(_)) => break,
                        Ok(egress_contract::Created::Pending(_)) => host.pause().await,
                    }
                }
                Ok(None)
            }
            Self::Get => Ok(host.get(proxy).await?.answer.err()),
            Self::Delete => {
                for _ in 0..50 {
                    match host.delete_step(proxy).await?.answer {
                        Err(error) => return Ok(Some(error)),
                        Ok(egress_contract::Deleted::Done) => break,
                        Ok(egress_contract::Deleted::Pending(_)) => host.pause().await,
                    }
                }
                Ok(None)
            }
            Self::List => {
                for place in places {
                    if let Err(error) = host.list_place(place).await? {
                        return Ok(Some(error));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Each fault, at each call of each export, up to the failure that follows; and what is to be said of it.
async fn each_failure(
    trial: &mut Trial<'_>,
    faults: &[Fault],
    judge: impl Fn(Asked, &Fault, When, &Error, &Proxy) -> Go,
) -> Go {
    for asked in Asked::ALL {
        let (places, subject) = (trial.places().to_vec(), trial.subject().clone());
        let prepare = async |play: &mut Play| match asked {
            Asked::Create => Ok(()),
            Asked::Get | Asked::Delete | Asked::List => play.make().await,
        };
        let beginning = Beginning::new(trial, &subject, prepare).await?;
        let run = async |play: &mut Play| asked.run(&play.host, &mut play.proxy, &places).await.map(drop);
        let (numbers, play) = beginning.healthy(trial, run).await?;
        for point in trial.points(host_call_points(&play.stage, numbers)) {
            for fault in faults {
                let mut play = beginning.take(trial).await?;
                trial.at(point);
                play.stage.plan().at(point, fault.clone());
                let failure = asked.run(&play.host, &mut play.proxy, &places).await?;
                trial.counts().faults += 1;
                if let Some(error) = failure {
                    judge(asked, fault, point.when, &error, &play.proxy)?;
                }
            }
        }
    }
    Ok(())
}

/// What is not understood is transient.
pub async fn is_transient(trial: &mut Trial<'_>) -> Go {
    each_failure(trial, &trial.faults(), |asked, fault, when, error, _| {
        let permanent_too = *fault == Fault::NoCredentials && error.class == ErrorClass::Permanent;
        ensure(error.class == ErrorClass::Transient || permanent_too, || {
            format!(
                "{} {} its effect, {} says {}; it should be transient",
                fault.as_str(),
                when.as_str(),
                asked.as_str(),
                failed(error)
            )
        })
    })
    .await
}

/// Nothing that goes wrong makes an instance not-found.
pub async fn is_never_gone(trial: &mut Trial<'_>) -> Go {
    each_failure(trial, &trial.faults(), |asked, fault, when, error, _| {
        ensure(error.class != ErrorClass::NotFound, || {
            format!(
                "{} {} its effect, {} says {}, and the instance is there",
                fault.as_str(),
                when.as_str(),
                asked.as_str(),
                failed(error)
            )
        })
    })
    .await
}

/// A failure says what it is about, and in more than a word.
pub async fn is_named(trial: &mut Trial<'_>) -> Go {
    let places = trial.places().to_vec();
    each_failure(trial, &trial.faults(), |asked, fault, _, error, proxy| {
        let names = error.message.contains(proxy.name().as_str())
            || places.iter().any(|place| error.message.contains(place.as_str()));
        ensure(names && error.message.split_whitespace().count() > 2, || {
            format!(
                "after {}, {} says only {:?}: neither the instance nor the place is named",
                fault.as_str(),
                asked.as_str(),
                error.message
            )
        })
    })
    .await
}

/// When to come back, if the backend says so.
pub async fn hints_are_passed_on(trial: &mut Trial<'_>) -> Go {
    let wait = Duration::from_secs(37);
    if !trial.can_fail_so(&Fault::RateLimited(wait)) {
        return skip("this backend never says when to come back");
    }
    each_failure(trial, &[Fault::RateLimited(wait)], |asked, _, _, error, _| {
        ensure(error.retry_after.is_some_and(|after| after >= wait), || {
            format!(
                "the backend says to come back after {} s, and {} says {:?}",
                wait.as_secs(),
                asked.as_str(),
                error.retry_after
            )
        })
    })
    .await
}

/// Want of room is told apart, and create goes on when there is room.
pub async fn want_of_room_is_told_apart(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.stage.world().backend.impose(Condition::Full).await?;
    let mut told = None;
    for _ in 0..20 {
        match play.host.create_step(&mut play.proxy).await?.answer {
            Ok(egress_contract::Created::Pending(_)) => play.host.pause().await,
            Ok(egress_contract::Created::Done(_)) => return broken("create is done where there is no room"),
            Err(error) => {
                told = Some(error);
                break;
            }
        }
    }
    match told {
        Some(error) if error.class == ErrorClass::QuotaExceeded => {}
        Some(error) => {
            return broken(format!(
                "there is no room, and create says {}; it should be quota-exceeded",
                failed(&error)
            ));
        }
        None => return broken("there is no room, and create says nothing of it"),
    }
    sight::everything_is_listed(&play.stage, &play.host).await?;
    play.stage.world().backend.lift(Condition::Full).await?;
    play.make().await?;
    sight::one_instance(&play).await
}

/// A missing right waits for somebody, and create goes on when it is there.
pub async fn a_missing_right_is_permanent(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.stage.world().backend.impose(Condition::RightsMissing).await?;
    match play.host.create(&mut play.proxy, play.patience).await? {
        Err(error) if error.class == ErrorClass::Permanent && error.reason == "forbidden" => {}
        Err(error) => {
            return broken(format!(
                "nothing may be made, and create says {}; it should be permanent forbidden",
                failed(&error)
            ));
        }
        Ok(()) => return broken("create is done where nothing may be made"),
    }
    play.stage.world().backend.lift(Condition::RightsMissing).await?;
    play.make().await?;
    sight::one_instance(&play).await
}
