//! `epo provider call`: a component's exports, called by hand.
//!
//! It stands where the operator stands: it gives the target and keeps id and progress between calls. What the
//! component asks of the host goes to a simulated backend, or to the real one of an entry, and is shown while it
//! happens.

mod credentials;
mod live;
mod record;
mod text;
mod whom;

use std::path::PathBuf;

use clap::ValueEnum;
use egress_conformance::{
    call::{Answer, Call},
    session::{Heard, Session},
};
use egress_contract::{Created, Page, Target};
use egress_runtime::Refusal;
use egress_sim::{
    recording::Recorder,
    redactor::Redactor,
    watched::{Beside, Watch},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    ComponentFile,
    entry::{Backend, EntryFile, Subject},
    runtime,
    world::Behind,
};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{self, TextOrJson},
    setup,
    telemetry::Telemetry,
};
use live::Live;
use record::RecordingFile;
use whom::{What, Whom};

/// Steps after which nothing will come of it any more.
const MOST_STEPS: usize = 1_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # who is it, and what does it say of its own example of a config?
  epo provider call mine.wasm describe configure

  # an instance's whole life, at a simulated backend
  epo provider call mine.wasm check create get list delete --until-done

  # can it serve this entry, for real? nothing is changed
  epo provider call mine.wasm check list --entry kubernetes.yaml --backend real --read-only

  # what happened there becomes a test: see epo provider replay
  epo provider call mine.wasm create get delete --until-done --entry kubernetes.yaml --backend real \\
    --record life.json

Host calls and the component's log go to the standard error, answers to the standard output. A recording holds what
the backend answered, without user-data, credentials and the content of Secrets: look into it before you pass it on.
With OTEL_EXPORTER_OTLP_ENDPOINT the calls are traced to a collector, as the operator's are.

Exit codes:
  0  each call was answered
  1  a call was answered with a failure; those behind it were not made
  2  could not run: usage, a file, the component, the entry, the backend's address")]
pub struct CallCommand {
    #[command(flatten)]
    file: ComponentFile,
    /// What to call, one after the other; id and progress go from each to the next
    #[arg(value_enum, required = true, num_args = 1..)]
    exports: Vec<Export>,
    #[command(flatten)]
    entry: EntryFile,
    /// What stands behind the capabilities
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
    /// Repeat create and delete until they are done, and list until its last page, as the operator does
    #[arg(long)]
    until_done: bool,
    /// Deny every host call that writes
    #[arg(long)]
    read_only: bool,
    /// Write calls and host calls to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The place that list and check ask [default: each place of the config]
    #[arg(long)]
    place: Option<String>,
    /// Where list goes on
    #[arg(long)]
    cursor: Option<String>,
    /// Decides whatever a simulated backend draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the answers are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: TextOrJson,
    #[command(flatten)]
    home: ClusterArgs,
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    what: What,
}

/// What a provider exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Export {
    /// Who it is
    Describe,
    /// The places of the config, or what is wrong with it
    Configure,
    /// One step towards a running instance
    Create,
    /// What the backend shows of it
    Get,
    /// One step towards nothing
    Delete,
    /// What is owned at a place
    List,
    /// Whether a place could serve a create
    Check,
}

impl CallCommand {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(self.call()).map_err(Failure::could_not_run)
    }

    async fn call(self) -> Result<(), Failure> {
        if self.backend == Backend::Real && self.entry.path().is_none() {
            return Err(Failure::Usage(
                "--backend real needs --entry: its grants say where the backend is, and as whom it is asked"
                    .to_owned(),
            ));
        }
        let runtime = runtime()?;
        let subject = Subject::open(&runtime, &self.file, &self.entry).await?;
        let mut report = Report::new(&subject);
        if self.exports.iter().all(|export| *export == Export::Describe) {
            // Its config need not please it.
            report.describe(&subject);
            return report.print(self.output);
        }
        let user_data = self.what.user_data()?;
        let redactor = Redactor::default().and_user_data(&user_data);
        let (behind, redactor) = match self.backend {
            Backend::Sim => (Behind::simulated(&subject, self.seed).await?, redactor),
            Backend::Real => {
                let redactor = credentials::known(redactor, &subject.settings, &self.home);
                (Behind::real(&subject, &self.home, &self.whom.installation()).await?, redactor)
            }
        };
        let recorder = Recorder::new(redactor.clone());
        let live = Live::new(redactor.clone());
        let telemetry = Telemetry::beside(live.logs())?;
        let beside = Beside {
            recorder: self.record.as_ref().map(|_| recorder.clone()),
            read_only: self.read_only,
            ..Beside::default()
        };
        let watch = Watch::with("-", live.journal(), behind.clock(), beside);
        let installation = self.whom.installation();
        let candidate = subject.candidate(behind.lend(&watch, &installation))?;
        let entry = subject.entry.clone();
        let opened = Session::open(runtime, entry, installation.clone(), candidate, watch).await;
        let session = opened.map_err(|refusal| self.refused(&subject, refusal))?;
        let recording = self
            .record
            .as_ref()
            .map(|path| RecordingFile::create(path, recorder, &subject, &behind, &installation))
            .transpose()?;
        report.backend = behind.name();
        let target = self.whom.target(behind.namespace());
        let mut calls =
            Calls { command: &self, session, behind, recording, redactor, report, target, user_data };
        let ended = calls.all(&subject).await;
        telemetry.flush().await;
        calls.report.inventory = calls.behind.inventory().await;
        calls.report.print(self.output)?;
        ended
    }

    fn refused(&self, subject: &Subject, refusal: Refusal) -> Failure {
        match subject.from_entry {
            true => self.file.refused(refusal),
            false => self.file.refused(Refusal {
                message: format!(
                    "{}. That config is the first example of the component's own schema; give another with --entry",
                    refusal.message
                ),
                ..refusal
            }),
        }
    }
}

/// The calls of one command.
struct Calls<'c> {
    command: &'c CallCommand,
    session: Session,
    behind: Behind,
    recording: Option<RecordingFile>,
    redactor: Redactor,
    report: Report,
    target: Target,
    user_data: Vec<u8>,
}

impl Calls<'_> {
    async fn all(&mut self, subject: &Subject) -> Result<(), Failure> {
        for export in &self.command.exports {
            match export {
                Export::Describe => self.report.describe(subject),
                Export::Configure => {
                    let places = self.session.revision().places();
                    self.report.add(
                        "configure",
                        json!({ "answer": { "places": places } }),
                        text::places(places),
                    );
                }
                Export::Create => self.until_done(Self::create).await?,
                Export::Delete => self.until_done(|calls| Call::Delete(calls.target.clone())).await?,
                Export::Get => {
                    self.ask(Call::Get(self.target.clone())).await?;
                }
                Export::List => {
                    for place in self.places() {
                        self.list(place).await?;
                    }
                }
                Export::Check => {
                    for place in self.places() {
                        self.ask(Call::Check { place }).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn create(&self) -> Call {
        Call::Create {
            target: self.target.clone(),
            spec: self.command.what.spec(),
            user_data: self.user_data.clone(),
        }
    }

    fn places(&self) -> Vec<String> {
        match &self.command.place {
            Some(place) => vec![place.clone()],
            None => self.session.revision().places().to_vec(),
        }
    }

    /// One step, or all of them.
    async fn until_done(&mut self, call: impl Fn(&Self) -> Call) -> Result<(), Failure> {
        for _ in 0..MOST_STEPS {
            let answer = self.ask(call(self)).await?;
            match answer.pending() {
                Some(step) if self.command.until_done => self.behind.clock().sleep(step.poll).await,
                _ => return Ok(()),
            }
        }
        Err(Failure::Found(format!("it is not done after {MOST_STEPS} calls")))
    }

    async fn list(&mut self, place: String) -> Result<(), Failure> {
        let mut cursor = self.command.cursor.clone();
        for _ in 0..MOST_STEPS {
            match self.ask(Call::List { place: place.clone(), cursor }).await? {
                Answer::Page(Page { next: Some(next), .. }) if self.command.until_done => cursor = Some(next),
                _ => return Ok(()),
            }
        }
        Err(Failure::Found(format!("the list of {place} has no end: {MOST_STEPS} pages")))
    }

    async fn ask(&mut self, call: Call) -> Result<Answer, Failure> {
        let at_ms = u64::try_from(self.session.watch().elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(recording) = &self.recording {
            recording.begin();
        }
        let heard = self.session.ask(&call).await;
        let Heard { answer: Some(answer), .. } = &heard else {
            return Err(Failure::Setup(format!("{} was cut off", call.export())));
        };
        self.keep(answer);
        if let Some(recording) = &mut self.recording {
            recording.add(at_ms, &call, answer)?;
        }
        self.tell(&call, &heard, answer);
        match answer {
            Answer::Failed(error) => Err(Failure::Found(self.redactor.text(&format!(
                "{} {} failed ({} {}): {}",
                call.export(),
                call.subject(),
                error.class.as_str(),
                error.reason,
                error.message
            )))),
            answer => Ok(answer.clone()),
        }
    }

    /// As the operator keeps it in the Proxy's status.
    fn keep(&mut self, answer: &Answer) {
        if let Some(step) = answer.pending() {
            self.target.progress = Some(step.progress.clone());
            self.target.id = step.id.clone().or_else(|| self.target.id.clone());
        }
        match answer {
            Answer::Created(Created::Done(id)) => {
                self.target.id = Some(id.clone());
                self.target.progress = None;
            }
            Answer::Failed(error) => {
                if let Some(progress) = &error.progress {
                    self.target.progress = Some(progress.to_string()).filter(|progress| !progress.is_empty());
                }
            }
            _ => {}
        }
    }

    fn tell(&mut self, call: &Call, heard: &Heard, answer: &Answer) {
        let host_calls = self.session.host_calls(heard).len();
        let mut told = answer.json();
        if let Value::Object(told) = &mut told {
            told.insert("subject".to_owned(), call.subject().into());
            told.insert("hostCalls".to_owned(), host_calls.into());
            told.insert("ms".to_owned(), u64::try_from(heard.took.as_millis()).unwrap_or(u64::MAX).into());
        }
        // Line by line: one that holds a secret does not take the others with it.
        let shown = text::answer(call, answer);
        let shown = shown.lines().map(|line| self.redactor.text(line) + "\n").collect();
        self.report.add(call.export(), self.redactor.clean(told), shown);
    }
}

/// What is printed; the names are those of the JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    provider: Value,
    backend: &'static str,
    calls: Vec<Value>,
    /// What there is at a simulated backend in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    inventory: Option<Vec<String>>,
    #[serde(skip)]
    text: Vec<String>,
}

impl Report {
    fn new(subject: &Subject) -> Self {
        let description = subject.description();
        let provider = json!({
            "name": description.name, "version": description.version, "digest": subject.module.digest().to_string(),
        });
        Self { provider, backend: "none", calls: Vec::new(), inventory: None, text: Vec::new() }
    }

    fn describe(&mut self, subject: &Subject) {
        let description = subject.description();
        let answer = serde_json::to_value(description).unwrap_or_default();
        self.add("describe", json!({ "answer": answer }), text::description(description));
    }

    fn add(&mut self, export: &str, mut told: Value, text: String) {
        if let Value::Object(told) = &mut told {
            told.insert("export".to_owned(), export.into());
        }
        self.calls.push(told);
        self.text.push(text);
    }

    fn print(&self, format: TextOrJson) -> Result<(), Failure> {
        output::print_as(format.into(), self, |report| {
            let mut text = report.text.join("\n");
            if let Some(inventory) = &report.inventory {
                text += "\nAt the simulated backend there is now:\n";
                match inventory.as_slice() {
                    [] => text += "  nothing of a provider's\n",
                    things => text += &things.iter().map(|thing| format!("  {thing}\n")).collect::<String>(),
                }
            }
            text
        })
    }
}
