//! What must not come out: user-data, and what stands at the backend for others.

use std::sync::{Arc, Mutex, PoisonError};

use egress_contract::{Created, Deleted};
use egress_runtime::Scrubber;
use egress_sim::fault::{Fault, Point, When};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

use crate::{
    halt::{Go, ensure},
    sweep::{Play, host_calls},
    trial::Trial,
};

/// Long enough to be struck out by the line, and to be found by.
const SENTINEL: &str = "password: sentinel-of-the-conformance-suite-4711";

/// Everything that is logged, with its spans and their fields.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl<S: tracing::Subscriber> Layer<S> for Said {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: Context<'_, S>,
    ) {
        self.add(|said| attributes.record(&mut Fields(said)));
    }

    fn on_record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>, _: Context<'_, S>) {
        self.add(|said| values.record(&mut Fields(said)));
    }

    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        self.add(|said| event.record(&mut Fields(said)));
    }
}

impl Said {
    fn add(&self, write: impl FnOnce(&mut String)) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut said);
        said.push('\n');
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A whole life, then the same with something going wrong at each call; all that was said on the way.
async fn whole_life(trial: &mut Trial<'_>, user_data: &str) -> Go<Vec<(&'static str, String)>> {
    let said = Said::default();
    // For this thread alone, as long as the guard lives; the executor has one thread.
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(said.clone()));
    let mut play = Play::new(trial).await?;
    let mut told = life(&mut play, user_data, trial.places()).await?;
    told.extend(left(&play).await?);
    let calls = trial.some(host_calls(&play.stage, 1, play.stage.journal().last()));
    for number in calls {
        for fault in [Fault::Garbage, Fault::WrongContentType, Fault::Lost] {
            let mut play = Play::new(trial).await?;
            play.stage.plan().at(Point { number, when: When::After }, fault);
            told.extend(life(&mut play, user_data, trial.places()).await?);
            told.push(("the journal", play.stage.journal().to_string()));
            trial.counts().faults += 1;
        }
    }
    told.push(("logs and spans", said.text()));
    Ok(told)
}

/// What anybody can read who may look at the backend: names and marks.
async fn left(play: &Play) -> Go<Vec<(&'static str, String)>> {
    let things = play.stage.inventory().await?;
    let mut told: Vec<_> = things.iter().map(|thing| ("what is at the backend", thing.to_string())).collect();
    told.push(("the journal", play.stage.journal().to_string()));
    Ok(told)
}

async fn life(play: &mut Play, user_data: &str, places: &[String]) -> Go<Vec<(&'static str, String)>> {
    play.proxy.user_data = format!("#cloud-config\n{user_data}\n").into_bytes();
    let mut told = Vec::new();
    for _ in 0..12 {
        let answer = play.host.create_step(&mut play.proxy).await?.answer;
        told.push(("create's answer", format!("{answer:?}")));
        if matches!(answer, Ok(Created::Done(_))) {
            break;
        }
        play.host.pause().await;
    }
    // Where user-data is not taken, something must stand there all the same.
    play.proxy.user_data.clear();
    for _ in 0..12 {
        let answer = play.host.create_step(&mut play.proxy).await?.answer;
        told.push(("create's answer", format!("{answer:?}")));
        if matches!(answer, Ok(Created::Done(_))) {
            break;
        }
        play.host.pause().await;
    }
    told.push(("get's answer", format!("{:?}", play.host.get(&play.proxy).await?.answer)));
    for place in places {
        told.push(("list's answer", format!("{:?}", play.host.list_place(place).await?)));
        told.push(("check's answer", format!("{:?}", play.host.check(place).await?.answer)));
    }
    told.extend(left(play).await?);
    for _ in 0..12 {
        let answer = play.host.delete_step(&mut play.proxy).await?.answer;
        told.push(("delete's answer", format!("{answer:?}")));
        if matches!(answer, Ok(Deleted::Done)) {
            break;
        }
        play.host.pause().await;
    }
    Ok(told)
}

fn absent(secret: &str, told: &[(&'static str, String)], what: &str) -> Go {
    let scrubber = Scrubber::new(secret.as_bytes());
    for (channel, text) in told {
        // What it would strike out stands there.
        let found = scrubber.as_ref().is_some_and(|scrubber| scrubber.text(text) != text.as_str());
        ensure(!found, || format!("{what} stands in {channel}"))?;
    }
    Ok(())
}

/// No line of user-data in an answer, an error, a log, a span, a journal, a name or a mark.
pub async fn user_data_stays_inside(trial: &mut Trial<'_>) -> Go {
    let told = whole_life(trial, SENTINEL).await?;
    absent(SENTINEL, &told, "user-data")
}

/// The same of what stands at the backend for others.
pub async fn credentials_stay_inside(trial: &mut Trial<'_>) -> Go {
    let stage = trial.stage().await?;
    let secrets = stage.world().secrets.clone();
    if secrets.is_empty() {
        return crate::halt::skip("nothing secret can be put at this backend");
    }
    let told = whole_life(trial, "nothing: here").await?;
    secrets.iter().try_for_each(|secret| absent(secret, &told, "somebody else's secret"))
}
