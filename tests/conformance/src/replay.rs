//! A recording against a component: does it ask and answer what was asked and answered then?
//!
//! No backend, no network, no credential: the recording of a real failure becomes a test of the component that is
//! to mend it.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use egress_runtime::{
    Candidate, Lent, Module, Refusal, Runtime,
    capability::{
        Clock, Http, HttpFailure, HttpFailureKind, HttpRequest, HttpResponse, Kubernetes, Transfer,
    },
};
use egress_sim::{
    clock::VirtualClock,
    difference::{self, Change},
    journal::Journal,
    kubernetes::Clusters,
    libvirt::{Hosts, Transfers},
    redactor::Redactor,
    replay::{Difference, Player},
    watched::{Beside, Watch, Watched, WatchedLibvirt},
};
use serde_json::{Value, json};

use crate::{
    call::{Answer, Call, InvalidCall},
    patience::patient,
    recording::{BadRecording, Recorded, Recording},
    session::Session,
};

/// A line of what stands in for user-data, long enough to be known for it.
const STAND_IN: &[u8] = b"# stands in for user-data\n";

/// How a replay ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All was asked and answered as it was then.
    Same,
    /// Up to here.
    Differs(Divergence),
}

/// The first thing that was not as it was then.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// Which call of the recording, counted from 1.
    pub call: usize,
    /// What was called.
    pub export: String,
    /// Whom or what it is about.
    pub subject: String,
    /// What it asked otherwise.
    pub asked: Option<Difference>,
    /// What it answered otherwise: then, and now.
    pub answered: Option<(Value, Value)>,
}

/// Why nothing was replayed.
#[derive(Debug, thiserror::Error)]
pub enum CannotReplay {
    /// The recording is at fault.
    #[error(transparent)]
    Recording(#[from] BadRecording),
    /// A call in it is.
    #[error("call {0} of the recording is none: {1}")]
    Call(usize, InvalidCall),
    /// The component is refused.
    #[error("the component is refused at the stage {}: {}", .0.stage, .0.message)]
    Refused(Refusal),
}

/// Replays it. `user_data` is what create was given then; without it, something of the same length stands in.
pub async fn replay(
    runtime: Runtime,
    module: Module,
    recording: &Recording,
    user_data: Option<&[u8]>,
    journal: Journal,
) -> Result<Outcome, CannotReplay> {
    let most = recording.calls.iter().map(|recorded| recorded.call.user_data_bytes).max().unwrap_or(0);
    let stand_in: Vec<u8> = STAND_IN.iter().copied().cycle().take(most).collect();
    let given = user_data.unwrap_or(&stand_in);
    let redactor = Redactor::default().and_user_data(given);
    let player = Player::new(redactor.clone(), recording.began_ms);
    let session = open(runtime, module, recording, &player, journal).await?;
    for (at, recorded) in recording.calls.iter().enumerate() {
        let bytes = given.get(..recorded.call.user_data_bytes).unwrap_or(given);
        let call = recorded.call.call(bytes).map_err(|invalid| CannotReplay::Call(at + 1, invalid))?;
        if let Some(divergence) = play(&session, &player, &redactor, at + 1, recorded, &call).await {
            return Ok(Outcome::Differs(divergence));
        }
    }
    Ok(Outcome::Same)
}

async fn open(
    runtime: Runtime,
    module: Module,
    recording: &Recording,
    player: &Player,
    journal: Journal,
) -> Result<Session, CannotReplay> {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::default());
    let beside = Beside { player: Some(player.clone()), ..Beside::default() };
    let watch = Watch::with("-", journal, Arc::clone(&clock), beside);
    // Nobody asks them: the player answers.
    let http: Arc<dyn Http> = Arc::new(NoServer);
    let clusters: Arc<dyn Kubernetes> = Arc::new(Clusters::default());
    let hosts = Hosts::new(Arc::clone(&clock), &[]);
    let transfer: Arc<dyn Transfer> = Arc::new(Transfers::new(hosts.clone()));
    let candidate = Candidate {
        module,
        pinned: None,
        config: recording.config.clone(),
        lent: Lent {
            http: Some(Arc::new(Watched::new(watch.clone(), http))),
            kubernetes: Some(Arc::new(Watched::new(watch.clone(), clusters))),
            libvirt: Some(Arc::new(WatchedLibvirt::new(watch.clone(), Arc::new(hosts)))),
            transfer: Some(Arc::new(Watched::new(watch.clone(), transfer))),
            clock: Some(Arc::new(Watched::new(watch.clone(), clock))),
        },
        grants: json!({}),
        limits: patient(&recording.limits),
        legacy: recording.legacy_marks.clone(),
    };
    let (entry, installation) = (recording.entry()?, recording.installation()?);
    Session::open(runtime, entry, installation, candidate, watch).await.map_err(CannotReplay::Refused)
}

/// Of HTTP: what a request does is not recorded by the endpoint, and the usual methods read.
struct NoServer;

fn no_server<T>() -> Result<T, HttpFailure> {
    let message = "a recording has no servers".to_owned();
    Err(HttpFailure { kind: HttpFailureKind::Connect, message, sent: false })
}

#[async_trait]
impl Http for NoServer {
    fn is_read(&self, request: &HttpRequest) -> bool {
        matches!(request.method.as_str(), "GET" | "HEAD")
    }

    async fn send(&self, _: &HttpRequest) -> Result<HttpResponse, HttpFailure> {
        no_server()
    }

    async fn info(&self, _: &str) -> Result<Value, HttpFailure> {
        no_server()
    }
}

async fn play(
    session: &Session,
    player: &Player,
    redactor: &Redactor,
    number: usize,
    recorded: &Recorded,
    call: &Call,
) -> Option<Divergence> {
    player.begin(recorded.at_ms, recorded.host_calls.clone());
    let heard = session.ask(call).await;
    let asked = player.finish();
    let answered = heard.answer.as_ref().map(|answer| redactor.clean(Answer::json(answer)));
    let answered = answered.filter(|now| *now != recorded.outcome).map(|now| (recorded.outcome.clone(), now));
    (asked.is_some() || answered.is_some() || heard.answer.is_none()).then(|| Divergence {
        call: number,
        export: call.export().to_owned(),
        subject: call.subject().to_owned(),
        asked,
        answered,
    })
}

impl Divergence {
    /// What is different in what was asked, and in what was answered.
    pub fn changes(&self) -> (Vec<Change>, Vec<Change>) {
        let asked = self.asked.as_ref().map(Difference::changes).unwrap_or_default();
        let answered =
            self.answered.as_ref().map(|(then, now)| difference::between(then, now)).unwrap_or_default();
        (asked, answered)
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, export, subject, asked, answered } = self;
        writeln!(f, "call {call} of the recording, {export} {subject}:")?;
        if let Some(asked) = asked {
            write!(f, "{asked}")?;
        }
        if answered.is_some() {
            let (_, changes) = self.changes();
            write!(f, "it answers otherwise:\n{}", difference::shown(&changes, "    "))?;
        }
        Ok(())
    }
}
