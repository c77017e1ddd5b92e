//! Create, undisturbed.

use egress_contract::{Created, ErrorClass, Placement};
use egress_sim::{
    backend::{Action, Condition},
    fault::{Point, When},
};

use crate::{
    halt::{Go, Halt, broken, ensure, skip},
    host::failed,
    sight,
    sweep::{Play, each_moment, made},
    trial::Trial,
};

/// A value that nothing can be called.
const NO_NAME: &str = "no such thing/?";
/// Bytes that no text survives: no UTF-8, both kinds of line ends, blanks at both ends, a zero.
const AWKWARD: &[u8] = b" \t#cloud-config\r\n\xff\xfe password: hunter2\n\0 last line without end ";

/// Once more, with and without the record: the same id, and nothing new.
pub async fn is_repeatable(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let (before, id) = (play.stage.inventory().await?, play.proxy.id.clone());
    play.make().await?;
    play.proxy.id = None;
    play.proxy.progress = None;
    play.make().await?;
    ensure(play.proxy.id == id, || format!("create said id {id:?} first, and {:?} later", play.proxy.id))?;
    sight::untouched(&play.stage, &before).await
}

/// At no moment is there an instance without its whole mark, or anything that says not whose it is.
pub async fn marks_at_once(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    each_moment(&mut play, made, async |stage, proxy| {
        for thing in stage.inventory().await? {
            if thing.instance {
                sight::marked(&thing, proxy)?;
            }
            let name = proxy.name();
            ensure(thing.name.contains(name.as_str()) || thing.mark == proxy.mark(), || {
                format!("{thing} bears neither the name {name} nor the mark")
            })?;
        }
        Ok(())
    })
    .await
}

/// The id that is told first is the id that stays.
pub async fn id_stays(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    let mut first: Option<String> = None;
    for _ in 0..100 {
        let heard = play.host.create_step(&mut play.proxy).await?;
        let (told, done) = match &heard.answer {
            Ok(Created::Done(id)) => (Some(id.clone()), true),
            Ok(Created::Pending(step)) => (step.id.clone(), false),
            Err(error) => return broken(format!("create failed: {}", failed(error))),
        };
        if let (Some(first), Some(told)) = (&first, &told) {
            ensure(first == told, || format!("create said id {first} first, and {told} later"))?;
        }
        first = first.or(told);
        if done {
            return sight::one_instance(&play).await;
        }
        if let Ok(Created::Pending(step)) = &heard.answer {
            play.stage.wait(step.poll).await;
        }
    }
    broken("create is not done after 100 calls")
}

/// What can't come up is not done.
pub async fn done_means_it_runs(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.stage.world().backend.impose(Condition::NeverStarts).await?;
    for _ in 0..12 {
        let heard = play.host.create_step(&mut play.proxy).await?;
        match &heard.answer {
            Ok(Created::Done(id)) => {
                return broken(format!("create says that {id} is done, and it never came up"));
            }
            Ok(Created::Pending(step)) => play.stage.wait(step.poll).await,
            // To say why it does not come up is as good.
            Err(error) => {
                play.stage.wait(error.retry_after.unwrap_or(std::time::Duration::from_secs(5))).await
            }
        }
    }
    play.stage.world().backend.lift(Condition::NeverStarts).await?;
    play.patience.through_permanent = true;
    play.make().await?;
    sight::one_instance(&play).await
}

/// A placement that can't be honoured is refused by its field's name, before anything is asked.
pub async fn placement_is_honoured_or_refused(trial: &mut Trial<'_>) -> Go {
    let set = |field: &str| {
        let value = |this: &str| (this == field).then(|| NO_NAME.to_owned());
        Placement {
            region: value("region"),
            zone: value("zone"),
            machine_type: value("machineType"),
            image: value("image"),
        }
    };
    for field in ["region", "zone", "machineType", "image"] {
        let mut play = Play::new(trial).await?;
        play.proxy.spec.placement = set(field);
        refused_at_once(&mut play, &format!("placement.{field} {NO_NAME:?}"), &[field]).await?;
    }
    Ok(())
}

async fn refused_at_once(play: &mut Play, what: &str, names: &[&str]) -> Go {
    let heard = play.host.create_step(&mut play.proxy).await?;
    match heard.answer {
        Err(error) if error.class == ErrorClass::Permanent => {
            ensure(names.iter().any(|name| error.message.contains(name)), || {
                format!("{what} is refused without naming {}: {}", names.join(" or "), error.message)
            })?;
        }
        Err(error) => {
            return broken(format!(
                "{what} should be refused for good, and the answer is {}",
                failed(&error)
            ));
        }
        Ok(_) => return broken(format!("{what} is neither refused nor can it be honoured")),
    }
    let asked = play.stage.journal().lines().into_iter().find(|line| line.is_host_call());
    ensure(asked.is_none(), || {
        format!(
            "{what} is refused only after the backend was asked: {}",
            asked.map(|line| line.to_string()).unwrap_or_default()
        )
    })
}

/// User-data arrives byte for byte, or is refused before anything is asked.
pub async fn user_data_is_honoured_or_refused(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.proxy.user_data = AWKWARD.to_vec();
    let heard = play.host.create_step(&mut play.proxy).await?;
    if let Err(error) = heard.answer
        && error.class == ErrorClass::Permanent
    {
        let mut play = Play::new(trial).await?;
        play.proxy.user_data = AWKWARD.to_vec();
        return refused_at_once(&mut play, "user-data", &["cloudInit", "user-data", "userData"]).await;
    }
    play.make().await?;
    let instance = play.stage.instance().await?;
    match play.stage.world().backend.user_data(&instance).await? {
        None => broken(format!("create takes user-data, and {instance} was given none")),
        Some(given) => ensure(given == AWKWARD, || {
            format!(
                "the instance was given {:?} as user-data, and not {:?}",
                given.escape_ascii().to_string(),
                AWKWARD.escape_ascii().to_string()
            )
        }),
    }
}

/// One being removed is waited for.
pub async fn waits_for_what_is_being_removed(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let instance = play.stage.instance().await?;
    play.stage.act(&instance, Action::HoldRemoval).await?;
    let heard = play.host.create_step(&mut play.proxy).await?;
    match heard.answer {
        Err(error) if error.class == ErrorClass::Transient && error.reason == "deleting" => {}
        Err(error) => {
            return broken(format!(
                "of one being removed, create says {}; it should be transient deleting",
                failed(&error)
            ));
        }
        Ok(answer) => {
            return broken(format!(
                "of one being removed, create says {answer:?}; it should be transient deleting"
            ));
        }
    }
    play.stage.act(&instance, Action::LetGo).await?;
    play.stage.wait(std::time::Duration::from_secs(600)).await;
    play.make().await?;
    sight::one_instance(&play).await
}

/// One that can't be started again is told as such, so that it is replaced.
pub async fn says_finished(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let instance = play.stage.instance().await?;
    play.stage.act(&instance, Action::Finish).await?;
    let heard = play.host.create_step(&mut play.proxy).await?;
    match heard.answer {
        Err(error) if error.class == ErrorClass::Permanent && error.reason == "finished" => {}
        Err(error) => {
            return broken(format!(
                "of one that can't be started again, create says {}; it should be permanent finished",
                failed(&error)
            ));
        }
        Ok(answer) => {
            return broken(format!(
                "of one that can't be started again, create says {answer:?}; it should be permanent finished"
            ));
        }
    }
    // The operator replaces it.
    play.unmake().await?;
    play.proxy.raise();
    play.make().await?;
    sight::one_instance(&play).await
}

/// What vanishes while it is made is made again, and never told as gone.
pub async fn makes_again_what_vanishes(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let last = play.stage.journal().last();
    let mut tried = false;
    let points: Vec<Point> = (1..=last).map(|number| Point { number, when: When::Before }).collect();
    let points = trial.points(points);
    // The instance goes; or what stands beside it does.
    let cases =
        [true, false].into_iter().flat_map(|instance| points.iter().map(move |point| (instance, *point)));
    for (instance, point) in cases {
        let mut play = Play::new(trial).await?;
        trial.at(point);
        play.stage.plan().stop_before(point.number);
        let (stage, watch) = (play.stage.clone(), play.host.watch().clone());
        {
            let mut running = std::pin::pin!(play.make());
            tokio::select! {
                biased;
                ended = &mut running => {
                    ended?;
                    return Err(Halt::Failed(format!("a run ended before it came to {point}")));
                }
                _ = watch.stopped() => {}
            }
            for thing in stage.inventory().await?.into_iter().filter(|thing| thing.instance == instance) {
                tried = true;
                stage.act(&thing, Action::Remove).await?;
            }
            watch.let_on();
            running.await?;
        }
        // It may have vanished after the last look; then the next call finds out.
        play.make().await?;
        sight::one_instance(&play).await?;
    }
    if tried { Ok(()) } else { skip("there was never anything to remove") }
}
