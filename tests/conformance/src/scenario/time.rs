//! Time: nothing that waits holds a call, and nobody is asked more often than makes sense.

use std::time::Duration;

use egress_contract::{Created, Deleted};
use egress_sim::{
    backend::{Action, Condition},
    fault::{Fault, REQUEST_DEADLINE},
};

use crate::{
    halt::{Go, broken, ensure, skip},
    host::{Heard, failed},
    sight,
    sweep::Play,
    trial::Trial,
};

/// What a call may wait by itself where the backend answers at once.
const LONGEST_STEP: Duration = Duration::from_secs(5);
/// The same where time is real.
const SHORT_DEADLINE: Duration = Duration::from_secs(4);
/// Host calls in ten minutes of waiting for what does not come: two a second would be a loop.
const MOST_WHILE_WAITING: usize = 600;

fn short<T>(export: &str, heard: &Heard<T>) -> Go {
    ensure(heard.took <= LONGEST_STEP, || {
        format!("{export} held its call for {} s, and the backend answered at once", heard.took.as_secs_f32())
    })
}

/// Where the backend answers at once, no call waits for what comes later.
pub async fn steps_are_short(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    let place = trial.places().first().cloned().unwrap_or_default();
    let backend = &play.stage.world().backend.clone();
    if backend.impose(Condition::NeverStarts).await.is_ok() {
        for _ in 0..6 {
            let heard = play.host.create_step(&mut play.proxy).await?;
            short("create", &heard)?;
            play.host.pause().await;
        }
        backend.lift(Condition::NeverStarts).await?;
    }
    loop {
        let heard = play.host.create_step(&mut play.proxy).await?;
        short("create", &heard)?;
        match heard.answer {
            Ok(Created::Done(_)) => break,
            Ok(Created::Pending(step)) => play.stage.wait(step.poll).await,
            Err(error) => return broken(format!("create failed: {}", failed(&error))),
        }
    }
    short("get", &play.host.get(&play.proxy).await?)?;
    short("list", &play.host.list_page(&place, None).await?)?;
    short("check", &play.host.check(&place).await?)?;
    let instance = play.stage.instance().await?;
    let held = play.stage.act(&instance, Action::HoldRemoval).await.is_ok();
    for step in 0.. {
        if step == 3 && held {
            play.stage.act(&instance, Action::LetGo).await?;
        }
        let heard = play.host.delete_step(&mut play.proxy).await?;
        short("delete", &heard)?;
        match heard.answer {
            Ok(Deleted::Done) => return Ok(()),
            Ok(Deleted::Pending(step)) => play.stage.wait(step.poll).await,
            Err(error) => return broken(format!("delete failed: {}", failed(&error))),
        }
        ensure(step < 100, || "delete is not done after 100 calls".to_owned())?;
    }
    Ok(())
}

/// A place that does not answer costs a call one deadline, perhaps two: it does not go on asking.
pub async fn a_dead_place_is_not_asked_again(trial: &mut Trial<'_>) -> Go {
    let deadline = if trial.is_simulated() { REQUEST_DEADLINE } else { SHORT_DEADLINE };
    // Two deadlines, and no third.
    let most = deadline * 5 / 2;
    let mut play = Play::new(trial).await?;
    play.make().await?;
    for place in trial.places().to_vec() {
        play.stage.plan().place(&place, Fault::Timeout(deadline));
        let mut took = vec![
            ("check", play.host.check(&place).await?.took),
            ("list", play.host.list_page(&place, None).await?.took),
        ];
        if trial.places().len() == 1 {
            let mut proxy = play.proxy.clone();
            took.push(("get", play.host.get(&play.proxy).await?.took));
            took.push(("create", play.host.create_step(&mut proxy).await?.took));
            took.push(("delete", play.host.delete_step(&mut proxy).await?.took));
        }
        for (export, took) in took {
            ensure(took <= most, || {
                format!(
                    "{place} does not answer, each call to it takes {} s, and {export} took {} s",
                    deadline.as_secs(),
                    took.as_secs()
                )
            })?;
        }
        play.stage.plan().clear();
    }
    Ok(())
}

/// A backend so slow that the host cuts calls off is got on with all the same.
pub async fn slowness_is_got_on_with(trial: &mut Trial<'_>) -> Go {
    if !trial.is_simulated() {
        return skip("it would take minutes of real time");
    }
    let mut play = Play::new(trial).await?;
    for place in trial.places() {
        play.stage.plan().place(place, Fault::Slow(Duration::from_secs(35)));
    }
    play.make().await?;
    play.stage.plan().clear();
    sight::one_instance(&play).await?;
    for place in trial.places() {
        play.stage.plan().place(place, Fault::Slow(Duration::from_secs(35)));
    }
    play.unmake().await?;
    play.stage.plan().clear();
    sight::nothing(&play.stage).await
}

/// Who waits for what does not come asks with patience.
pub async fn waiting_is_patient(trial: &mut Trial<'_>) -> Go {
    if !trial.is_simulated() {
        return skip("it would take minutes of real time");
    }
    let mut play = Play::new(trial).await?;
    play.stage.world().backend.impose(Condition::NeverStarts).await?;
    let start = play.stage.clock().monotonic_ms();
    let before = asked(&play);
    while play.stage.clock().monotonic_ms() - start < 600_000 {
        let wait = match play.host.create_step(&mut play.proxy).await?.answer {
            Ok(Created::Pending(step)) => step.poll,
            Ok(Created::Done(_)) => return broken("create is done, and it never came up"),
            Err(error) => error.retry_after.unwrap_or(Duration::from_secs(60)),
        };
        play.stage.wait(wait.max(Duration::from_millis(100))).await;
    }
    let asked = asked(&play) - before;
    ensure(asked <= MOST_WHILE_WAITING, || {
        format!(
            "in ten minutes of waiting the backend was asked {asked} times; {MOST_WHILE_WAITING} is the most"
        )
    })
}

fn asked(play: &Play) -> usize {
    play.stage.journal().lines().iter().filter(|line| line.is_host_call()).count()
}
