//! One instance's life at a simulated backend, call by call: what a component is measured and compared by.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use egress_conformance::{
    call::{Answer, Call},
    patience::patient,
    session::Session,
};
use egress_contract::{Created, Installation, Spec, State, Target};
use egress_runtime::{Candidate, Runtime, capability::Clock};
use egress_sim::{
    journal::Journal,
    watched::{Beside, Watch},
};

use super::{ComponentFile, entry::Subject, world::Behind};
use crate::failure::Failure;

/// Steps after which nothing will come of it any more.
const MOST_STEPS: usize = 200;
/// Between two looks at an instance that does not run yet.
const LOOK: Duration = Duration::from_secs(1);
const UID: &str = "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33";

/// One call of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// What was called.
    pub export: &'static str,
    /// By the machine's clock.
    pub took: Duration,
    /// What it asked of the host, in order: `kubernetes.get read home v1/pods a/b`.
    pub host_calls: Vec<String>,
}

/// A component at a backend of its own.
pub struct Lives {
    session: Session,
    behind: Behind,
    clock: Arc<dyn Clock>,
    installation: Installation,
    path: String,
}

impl Lives {
    /// Ready for the first.
    pub async fn open(
        runtime: Runtime,
        file: &ComponentFile,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Failure> {
        let behind = Behind::simulated(subject, seed).await?;
        let (clock, installation) = (behind.clock(), Installation::new("life"));
        let watch = Watch::with("-", Journal::default(), Arc::clone(&clock), Beside::default());
        let candidate = subject.candidate(behind.lend(&watch, &installation))?;
        let candidate = Candidate { limits: patient(&candidate.limits), ..candidate };
        let opened =
            Session::open(runtime, subject.entry.clone(), installation.clone(), candidate, watch).await;
        let session = opened.map_err(|refusal| file.refused(refusal))?;
        Ok(Self { session, behind, clock, installation, path: file.path().display().to_string() })
    }

    /// From check to nothing left. `number` tells instances apart; `told` is told of each call as it ends.
    pub async fn live(&self, number: u32, mut told: impl FnMut(Step)) -> Result<(), Failure> {
        let mut target = Target {
            name: self.installation.instance_name("web", UID, number),
            uid: UID.to_owned(),
            incarnation: number,
            namespace: self.behind.namespace().to_owned(),
            proxy: "web".to_owned(),
            id: None,
            progress: None,
        };
        let places = self.session.revision().places().to_vec();
        for place in &places {
            self.ask(Call::Check { place: place.clone() }, &mut told).await?;
        }
        self.to_the_end(&mut target, true, &mut told).await?;
        self.until_it_runs(&target, &mut told).await?;
        for place in &places {
            self.list(place, &mut told).await?;
        }
        self.to_the_end(&mut target, false, &mut told).await
    }

    async fn to_the_end(
        &self,
        target: &mut Target,
        create: bool,
        told: &mut impl FnMut(Step),
    ) -> Result<(), Failure> {
        for _ in 0..MOST_STEPS {
            let spec = Spec { port: 3128, ..Spec::default() };
            let call = match create {
                true => Call::Create { target: target.clone(), spec, user_data: Vec::new() },
                false => Call::Delete(target.clone()),
            };
            let answer = self.ask(call, told).await?;
            if let Answer::Created(Created::Done(id)) = &answer {
                (target.id, target.progress) = (Some(id.clone()), None);
            }
            let Some(step) = answer.pending() else { return Ok(()) };
            target.progress = Some(step.progress.clone());
            target.id = step.id.clone().or_else(|| target.id.take());
            self.clock.sleep(step.poll).await;
        }
        Err(self.failed(&format!("it is not done after {MOST_STEPS} calls")))
    }

    async fn until_it_runs(&self, target: &Target, told: &mut impl FnMut(Step)) -> Result<(), Failure> {
        for _ in 0..MOST_STEPS {
            match self.ask(Call::Get(target.clone()), told).await? {
                Answer::Instance(instance) if instance.state == State::Running => return Ok(()),
                _ => self.clock.sleep(LOOK).await,
            }
        }
        Err(self.failed(&format!("what create made does not run after {MOST_STEPS} looks")))
    }

    async fn list(&self, place: &str, told: &mut impl FnMut(Step)) -> Result<(), Failure> {
        let mut cursor = None;
        for _ in 0..MOST_STEPS {
            match self.ask(Call::List { place: place.to_owned(), cursor }, told).await? {
                Answer::Page(page) if page.next.is_some() => cursor = page.next,
                _ => return Ok(()),
            }
        }
        Err(self.failed(&format!("the list of {place} has no end: {MOST_STEPS} pages")))
    }

    async fn ask(&self, call: Call, told: &mut impl FnMut(Step)) -> Result<Answer, Failure> {
        let before = Instant::now();
        let heard = self.session.ask(&call).await;
        let took = before.elapsed();
        let host_calls = self.session.host_calls(&heard);
        let spelled = host_calls.iter().map(|line| {
            let effect =
                if line.effect == Some(egress_sim::journal::Effect::Write) { "write" } else { "read" };
            format!("{} {effect} {}", line.call, line.about)
        });
        told(Step { export: call.export(), took, host_calls: spelled.collect() });
        match heard.answer {
            Some(Answer::Failed(error)) => Err(self.failed(&format!(
                "{} {} failed at the simulated backend ({} {}): {}",
                call.export(),
                call.subject(),
                error.class.as_str(),
                error.reason,
                error.message
            ))),
            Some(answer) => Ok(answer),
            None => Err(self.failed(&format!("{} was cut off", call.export()))),
        }
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::Setup(format!("{}: {why}; epo provider call shows what it asks of the host", self.path))
    }
}
