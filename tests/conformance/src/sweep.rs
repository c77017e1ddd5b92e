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
        let subject = trial.subject().clone();
        Self::new_as(trial, &subject).await
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

/// How a scenario begins, made ready once and taken up from there again and again.
pub struct Beginning<P> {
    play: Play,
    subject: Subject,
    prepare: P,
}

impl<P: AsyncFn(&mut Play) -> Go> Beginning<P> {
    /// Makes it ready.
    pub async fn new(trial: &mut Trial<'_>, subject: &Subject, prepare: P) -> Go<Self> {
        let mut play = Play::new_as(trial, subject).await?;
        prepare(&mut play).await?;
        Ok(Self { play, subject: subject.clone(), prepare })
    }

    /// The number of the first call behind it.
    pub fn first(&self) -> u64 {
        self.play.stage.journal().last() + 1
    }

    /// A play that begins so, on a backend of its own.
    pub async fn take(&self, trial: &mut Trial<'_>) -> Go<Play> {
        let Some(stage) = trial.fork(&self.play.stage) else {
            let mut play = Play::new_as(trial, &self.subject).await?;
            (self.prepare)(&mut play).await?;
            return match play.stage.journal().last() + 1 == self.first() {
                true => Ok(play),
                false => Err(Halt::Failed("what the provider asks is not the same each time".to_owned())),
            };
        };
        let host = stage.host_as("a", &self.subject).await?;
        Ok(Play { stage, host, proxy: self.play.proxy.clone(), patience: self.play.patience })
    }

    /// The numbers of what `run` asks when nothing disturbs it, and how that left things.
    pub async fn healthy(
        &self,
        trial: &mut Trial<'_>,
        run: impl AsyncFn(&mut Play) -> Go,
    ) -> Go<(std::ops::RangeInclusive<u64>, Play)> {
        let mut play = self.take(trial).await?;
        run(&mut play).await?;
        Ok((self.first()..=play.stage.journal().last(), play))
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

fn points(numbers: std::ops::RangeInclusive<u64>) -> Vec<Point> {
    numbers.flat_map(|number| When::BOTH.map(|when| Point { number, when })).collect()
}

/// The host dies at each point of `run`; then another one goes on with `then`.
pub async fn each_cut(
    trial: &mut Trial<'_>,
    prepare: impl AsyncFn(&mut Play) -> Go,
    run: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    let subject = trial.subject().clone();
    let beginning = Beginning::new(trial, &subject, prepare).await?;
    let (numbers, mut play) = beginning.healthy(trial, &run).await?;
    play.restart().await?;
    then(&mut play).await?;
    for point in trial.points(points(numbers)) {
        let mut play = beginning.take(trial).await?;
        die_at(trial, &mut play, point, &run).await?;
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
        let beginning = Beginning::new(trial, before, &prepare).await?;
        let (numbers, _) = beginning.healthy(trial, &run).await?;
        for point in trial.points(points(numbers)) {
            let mut play = beginning.take(trial).await?;
            die_at(trial, &mut play, point, &run).await?;
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
    run: impl AsyncFn(&mut Play) -> Go,
) -> Go {
    play.stage.plan().at(point, Fault::Death);
    trial.at(point);
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
    let subject = trial.subject().clone();
    let beginning = Beginning::new(trial, &subject, prepare).await?;
    let (numbers, play) = beginning.healthy(trial, &run).await?;
    for point in trial.points(host_call_points(&play.stage, numbers)) {
        for fault in trial.faults() {
            let mut play = beginning.take(trial).await?;
            trial.at(point);
            play.stage.plan().at(point, fault.clone());
            // Who is not known any more may take it for final, and is asked again later.
            play.patience.through_permanent = fault == Fault::NoCredentials;
            run(&mut play).await?;
            trial.counts().faults += 1;
            then(&mut play).await?;
        }
    }
    Ok(())
}

/// Both sides of each host call in a range.
pub fn host_call_points(stage: &Stage, numbers: std::ops::RangeInclusive<u64>) -> Vec<Point> {
    let calls = host_calls(stage, *numbers.start(), *numbers.end());
    points(numbers).into_iter().filter(|point| calls.contains(&point.number)).collect()
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
    let subject = trial.subject().clone();
    let beginning = Beginning::new(trial, &subject, prepare).await?;
    let (numbers, _) = beginning.healthy(trial, &one).await?;
    let stops: Vec<Point> = numbers.map(|number| Point { number, when: When::Before }).collect();
    let mut pairs = Vec::new();
    for point in trial.points(stops) {
        let asked = switch(trial, point, None, &beginning, &one, &two, &then).await?;
        pairs.extend((1..=asked).map(|second| (point, second)));
    }
    let drawn = trial.random().sample(pairs, PAIRS);
    for (point, second) in trial.some(drawn) {
        switch(trial, point, Some(second), &beginning, &one, &two, &then).await?;
    }
    Ok(())
}

/// How many calls the second made until its end.
async fn switch<P: AsyncFn(&mut Play) -> Go>(
    trial: &mut Trial<'_>,
    point: Point,
    second: Option<u64>,
    beginning: &Beginning<P>,
    one: impl AsyncFn(&mut Play) -> Go,
    two: impl AsyncFn(&mut Play) -> Go,
    then: impl AsyncFn(&mut Play) -> Go,
) -> Go<u64> {
    let mut first = beginning.take(trial).await?;
    trial.at(point);
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
