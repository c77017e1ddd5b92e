//! Several places, one of which is out of order.

use std::time::Duration;

use egress_sim::fault::{Fault, REQUEST_DEADLINE};

use crate::{
    halt::{Go, broken, ensure, skip},
    host::failed,
    sweep::Play,
    trial::Trial,
};

/// A place that is dead, slow or answers nonsense costs the others nothing.
pub async fn a_dead_place_costs_only_itself(trial: &mut Trial<'_>) -> Go {
    let places = trial.places().to_vec();
    let Some(last) = places.last().filter(|_| places.len() > 1) else {
        return skip("its config has only one place");
    };
    let faults = [
        Fault::Refused,
        Fault::Timeout(REQUEST_DEADLINE),
        Fault::Slow(Duration::from_secs(30)),
        Fault::Garbage,
        Fault::WrongContentType,
        Fault::NoCredentials,
    ];
    let bearable =
        |fault: &Fault| trial.is_simulated() || !matches!(fault, Fault::Slow(_) | Fault::Timeout(_));
    for fault in faults.into_iter().filter(bearable).collect::<Vec<_>>() {
        let mut play = Play::new(trial).await?;
        play.make().await?;
        let id = play.proxy.id.clone();
        play.stage.plan().place(last, fault.clone());
        let what = format!("while {last} is {}", fault.as_str());
        for place in places.iter().filter(|place| *place != last) {
            match play.host.check(place).await?.answer {
                Ok(health) if health.ready => {}
                Ok(health) => {
                    return broken(format!(
                        "{what}, check of {place} says {}: {}",
                        health.reason, health.message
                    ));
                }
                Err(error) => return broken(format!("{what}, check of {place} fails: {}", failed(&error))),
            }
            match play.host.list_place(place).await? {
                Ok(listed) => ensure(listed.unread.is_empty(), || {
                    format!("{what}, a part of {place} is unread: {:?}", listed.unread)
                })?,
                Err(error) => return broken(format!("{what}, list of {place} fails: {}", failed(&error))),
            }
        }
        match play.host.get(&play.proxy).await?.answer {
            Ok(_) => {}
            Err(error) => {
                return broken(format!("{what}, get of {id:?} at another place fails: {}", failed(&error)));
            }
        }
    }
    Ok(())
}

/// Without an id, a place that can't be read keeps delete from being done.
pub async fn an_unread_place_is_not_empty(trial: &mut Trial<'_>) -> Go {
    for place in trial.places().to_vec() {
        let mut play = Play::new(trial).await?;
        play.make().await?;
        play.proxy.id = None;
        play.proxy.progress = None;
        let fault = Fault::Refused;
        play.stage.plan().place(&place, fault);
        for _ in 0..6 {
            match play.host.delete_step(&mut play.proxy).await?.answer {
                Ok(egress_contract::Deleted::Done) => {
                    return broken(format!("without an id, delete is done while {place} can't be read"));
                }
                Ok(egress_contract::Deleted::Pending(_)) => {}
                Err(error) if error.class == egress_contract::ErrorClass::Transient => {}
                Err(error) => {
                    return broken(format!(
                        "while {place} can't be read, delete says {}; it should be transient",
                        failed(&error)
                    ));
                }
            }
            play.host.pause().await;
        }
        play.stage.plan().clear();
        play.unmake().await?;
        crate::sight::nothing(&play.stage).await?;
    }
    Ok(())
}
