//! `epo provider replay`: recorded host calls, answered again.

use std::path::PathBuf;

use egress_conformance::{
    recording::Recording,
    replay::{CannotReplay, Divergence, Outcome, replay},
};
use egress_sim::journal::Journal;
use serde_json::{Value, json};

use super::{ComponentFile, runtime};
use crate::{
    failure::Failure,
    output::{self, TextOrJson},
    setup,
};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # what a provider did at a real backend, as a test of the next build: no backend is asked
  epo provider call mine.wasm create get delete --until-done --entry kubernetes.yaml --backend real \\
    --record life.json
  epo provider replay mine.wasm life.json

Recorded calls are made again in their order, and what they ask of the host is answered as it was then. The first
difference, in what is asked or in what is answered, is shown, and ends it. The clock shows what it showed.

Exit codes:
  0  all was asked and answered as in the recording
  1  something differs
  2  could not run: usage, a file, the component")]
pub struct Replay {
    #[command(flatten)]
    file: ComponentFile,
    /// What epo provider call --record wrote
    recording: PathBuf,
    /// The user-data that create was given then; without it, something of the same length stands in
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
    /// How the outcome is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: TextOrJson,
}

impl Replay {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(self.replay()).map_err(Failure::could_not_run)
    }

    async fn replay(self) -> Result<(), Failure> {
        let unreadable = |why: String| Failure::Recording { path: self.recording.clone(), why };
        let recording = Recording::read(&self.recording).map_err(|error| unreadable(error.to_string()))?;
        let read = |path: &PathBuf| std::fs::read(path).map_err(|source| Failure::read(path, source));
        let user_data = self.user_data.as_ref().map(read).transpose()?;
        let module = self.file.module()?;
        let replayed = replay(runtime()?, module, &recording, user_data.as_deref(), Journal::default()).await;
        let outcome = replayed.map_err(|error| match error {
            CannotReplay::Refused(refusal) => self.file.refused(refusal),
            CannotReplay::Recording(bad) => unreadable(bad.to_string()),
            bad @ CannotReplay::Call(..) => unreadable(bad.to_string()),
        })?;
        let (calls, host_calls) = (recording.calls.len(), recording.host_calls());
        match outcome {
            Outcome::Same => {
                let data = json!({ "same": true, "calls": calls, "hostCalls": host_calls });
                output::print_as(self.output.into(), &data, |_| {
                    format!("the same: {calls} calls with {host_calls} host calls, as recorded\n")
                })
            }
            Outcome::Differs(divergence) => {
                output::print_as(self.output.into(), &json(&divergence), |_| divergence.to_string())?;
                Err(Failure::Found(format!(
                    "{} differs from {} in call {} of {calls}, {}",
                    self.file.path().display(),
                    self.recording.display(),
                    divergence.call,
                    divergence.export
                )))
            }
        }
    }
}

fn json(divergence: &Divergence) -> Value {
    let (asked, answered) = divergence.changes();
    json!({
        "same": false,
        "call": divergence.call,
        "export": divergence.export,
        "subject": divergence.subject,
        "asked": divergence.asked.as_ref().map(ToString::to_string),
        "askedChanges": asked,
        "answeredChanges": answered,
    })
}
