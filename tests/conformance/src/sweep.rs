//! Running the same again and again, each time disturbed at another point.
//!
//! The healthy run comes first and says which points there are: every call of a provider and of a capability
//! has a number in the journal. Then each is tried, on a backend of its own.

use std::pin::pin;

use egress_sim::fault::{Fault, Point, When};

use crate::{
    halt::{Go, Halt, broken},
    host::{Host, Patience},
    proxy::Proxy,
    sight,
    stage::{Stage, Subject},
    trial::Trial,
};

/// Progress as no revision on trial can have written it.
const STRANGE_PROGRESS: &str = "{\"written-by\":\"another revision\",\"step\":";
/// How many pairs of points two hosts are tried at.
const PAIRS: usize = 30;

/// A host at work on one Proxy.
pub struct Play {
    /// Where.
    pub stage: Stage,
    /// Who.
    pub host: Host,
    /// On what.
    pub proxy: Proxy,
    /// How long it goes on.
    pub patience: Patience,
}

impl Play {
    /// On a fresh stage.
    pub async fn new(trial: &mut Trial<'_>) -> Go<Self> {
        let stage = trial.stage().await?;
        let host = stage.host("a").await?;
        Ok(Self { proxy: stage.proxy(1), stage, host, patience: Patience::default() })
    }

    /// The same with some revision.
    pub async fn new_as(trial: &mut Trial<'_>, subject: &Subject) -> Go<Self> {
        let stage = trial.stage().await?;
        let host = stage.host_as("a", subject).await?;
        Ok(Self { proxy: stage.proxy(1), stage, host, patience: Patience::default() })
    }

    /// Another host that knows of the Proxy what this one had kept.
    pub async fn beside(&self, name: &str) -> Go<Self> {
        let host = self.stage.host(name).await?;
        Ok(Self { stage: self.stage.clone(), host, proxy: self.proxy.clone(), patience: self.patience })
    }

    /// The host is gone; another goes on.
    pub async fn restart(&mut self) -> Go {
        self.host = self.stage.host("b").await?;
        Ok(())
    }

    /// The host is gone; another goes on that runs another revision.
    pub async fn restart_as(&mut self, subject: &Subject) -> Go {
        self.host = self.stage.host_as("b", subject).await?;
        Ok(())
    }

    /// Create, to its end.
    pub async fn make(&mut self) -> Go {
        match self.host.create(&mut self.proxy, self.patience).await? {
            Ok(()) => Ok(()),
            Err(error) => crate::trial::unexpected("create failed", &error),
        }
    }

    /// Delete, to its end.
    pub async fn unmake(&mut self) -> Go {
        match self.host.delete(&mut self.proxy, self.patience).await? {
            Ok(()) => Ok(()),
            Err(error) => crate::trial::unexpected("delete failed", &error),
        }
    }
}

/// A part of a scenario that makes nothing ready.
pub async fn nothing_before(_: &mut Play) -> Go {
    Ok(())
}

/// A part of a scenario: the instance is made.
pub async fn made(play: &mut Play) -> Go {
    play.make().await
}

/// A part of a scenario: the instance is removed.
pub async fn unmade(play: &mut Play) -> Go {
    play.unmake().await
}

/// The numbers of what `run` asks when nothing disturbs it; `then` must hold after it.
async fn healthy(
    play: &mut Play,
    prepare: impl AsyncFn(&mut Play) -> Go,
    run: impl AsyncFn(&mut Play) -> Go,
) -> Go<(u64, u64)> {
    prepare(play).await?;
    let first = play.stage.journal().last() + 1;
    run(play).await?;
    Ok((first, play.stage.journal().last()))
}

fn points(first: u64, last: u64) -> Vec<Point> {
    (first..=last).flat_map(|number| When::BOTH.map(|when| Point { number, when })).collect()
}

/// The host dies at each point of `run`; then another one goes on with `then`.
pub async fn each_cut(
    trial: &mut Trial<'_>,
    prepare: impl AsyncFn(&mut Play) -> Go,
    run: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    let mut play = Play::new(trial).await?;
    let (first, last) = healthy(&mut play, &prepare, &run).await?;
    play.restart().await?;
    then(&mut play).await?;
    for point in trial.points(points(first, last)) {
        let mut play = Play::new(trial).await?;
        die_at(trial, &mut play, point, &prepare, &run).await?;
        trial.counts().interruptions += 1;
        play.restart().await?;
        then(&mut play).await?;
    }
    Ok(())
}

/// At each point of `run` one revision ends and another goes on; both ways.
pub async fn each_hand_over(
    trial: &mut Trial<'_>,
    prepare: impl AsyncFn(&mut Play) -> Go,
    run: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    let (one, other) = (trial.subject().clone(), trial.other().clone());
    for (before, after) in [(&one, &other), (&other, &one)] {
        let mut play = Play::new_as(trial, before).await?;
        let (first, last) = healthy(&mut play, &prepare, &run).await?;
        for point in trial.points(points(first, last)) {
            let mut play = Play::new_as(trial, before).await?;
            die_at(trial, &mut play, point, &prepare, &run).await?;
            trial.counts().hand_overs += 1;
            play.restart_as(after).await?;
            // Where both are the same component, it could read what itself wrote.
            if before.module.digest() == after.module.digest() && play.proxy.progress.is_some() {
                play.proxy.progress = Some(STRANGE_PROGRESS.to_owned());
            }
            then(&mut play).await?;
        }
    }
    Ok(())
}

async fn die_at(
    trial: &mut Trial<'_>,
    play: &mut Play,
    point: Point,
    prepare: impl AsyncFn(&mut Play) -> Go,
    run: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    play.stage.plan().at(point, Fault::Death);
    trial.at(point);
    prepare(play).await?;
    match run(play).await {
        Err(Halt::Died) => Ok(()),
        Err(other) => Err(other),
        Ok(()) => Err(Halt::Failed(format!(
            "a run ended before the point {point}, where the healthy run went on: what the provider asks is not \
             the same each time"
        ))),
    }
}

/// At each host call of `run` something goes wrong once, on either side of its effect; `then` must hold.
pub async fn each_fault(
    trial: &mut Trial<'_>,
    prepare: impl AsyncFn(&mut Play) -> Go,
    run: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    let mut play = Play::new(trial).await?;
    let (first, last) = healthy(&mut play, &prepare, &run).await?;
    let host_calls = host_calls(&play.stage, first, last);
    for point in trial.points(points(first, last)) {
        for fault in Fault::failures().into_iter().filter(|_| host_calls.contains(&point.number)) {
            let mut play = Play::new(trial).await?;
            trial.at(point);
            play.stage.plan().at(point, fault.clone());
            prepare(&mut play).await?;
            // Who is not known any more may take it for final, and is asked again later.
            play.patience.through_permanent = fault == Fault::NoCredentials;
            run(&mut play).await?;
            trial.counts().faults += 1;
            then(&mut play).await?;
        }
    }
    Ok(())
}

/// The numbers of host calls in a range.
pub fn host_calls(stage: &Stage, first: u64, last: u64) -> Vec<u64> {
    let lines = stage.journal().lines();
    let within = lines.iter().filter(|line| (first..=last).contains(&line.number) && line.is_host_call());
    within.map(|line| line.number).collect()
}

/// Two hosts that share nothing but the backend: one stops before each of its calls, the other runs `two` to
/// its end, and the first goes on. Then pairs of points: the second stops too, and the first ends before it.
pub async fn each_switch(
    trial: &mut Trial<'_>,
    prepare: impl AsyncFn(&mut Play) -> Go,
    one: impl AsyncFn(&mut Play) -> Go,
    two: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    let mut play = Play::new(trial).await?;
    let (first, last) = healthy(&mut play, &prepare, &one).await?;
    let stops: Vec<Point> = (first..=last).map(|number| Point { number, when: When::Before }).collect();
    let mut pairs = Vec::new();
    for point in trial.points(stops) {
        let asked = switch(trial, point, None, &prepare, &one, &two, &then).await?;
        pairs.extend((1..=asked).map(|second| (point, second)));
    }
    for (point, second) in trial.random().sample(pairs, PAIRS) {
        switch(trial, point, Some(second), &prepare, &one, &two, &then).await?;
    }
    Ok(())
}

/// How many calls the second made until its end.
async fn switch(
    trial: &mut Trial<'_>,
    point: Point,
    second: Option<u64>,
    prepare: impl AsyncFn(&mut Play) -> Go,
    one: impl AsyncFn(&mut Play) -> Go,
    two: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go<u64> {
    let mut first = Play::new(trial).await?;
    trial.at(point);
    prepare(&mut first).await?;
    let mut other = first.beside("b").await?;
    let stage = first.stage.clone();
    stage.plan().stop_before(point.number);
    let (watch, other_watch) = (first.host.watch().clone(), other.host.watch().clone());
    let asked = {
        let mut running = pin!(one(&mut first));
        tokio::select! {
            biased;
            ended = &mut running => {
                ended?;
                return Err(Halt::Failed(format!("a run ended before it came to {point}")));
            }
            _ = watch.stopped() => {}
        }
        let before = stage.journal().last();
        if let Some(second) = second {
            stage.plan().stop_before(before + second);
        }
        let mut beside = pin!(two(&mut other));
        let stopped = tokio::select! {
            biased;
            ended = &mut beside => { ended?; false }
            _ = other_watch.stopped() => true,
        };
        let asked = stage.journal().last() - before;
        watch.let_on();
        running.await?;
        if stopped {
            other_watch.let_on();
            beside.await?;
        }
        asked
    };
    trial.counts().interleavings += 1;
    first.host = stage.host("c").await?;
    then(&mut first).await?;
    Ok(asked)
}

/// `run` stops before each of its calls, and `look` must hold there.
pub async fn each_moment(
    play: &mut Play,
    run: impl AsyncFn(&mut Play) -> Go,
    look: impl AsyncFn(&Stage, &Proxy) -> Go,
) -> Go {
    let (stage, proxy) = (play.stage.clone(), play.proxy.clone());
    stage.plan().stop_always(true);
    let watch = play.host.watch().clone();
    let mut running = pin!(run(play));
    loop {
        tokio::select! {
            biased;
            ended = &mut running => { ended?; break }
            _ = watch.stopped() => {
                look(&stage, &proxy).await?;
                watch.let_on();
            }
        }
    }
    stage.plan().stop_always(false);
    look(&stage, &proxy).await
}

/// What a cut may leave behind: whatever stands is listed, and there is at most one instance.
pub async fn nothing_is_lost(play: &mut Play) -> Go {
    let instances = play.stage.instances().await?;
    if instances.len() > 1 {
        return broken(format!("there are {} instances:{}", instances.len(), sight::lines(&instances)));
    }
    sight::everything_is_listed(&play.stage, &play.host).await
}
