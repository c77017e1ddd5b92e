//! The recording of what is called, written anew after each call: one that never comes back, or is interrupted,
//! loses nothing of what was before.

use std::{
    fs,
    path::{Path, PathBuf},
};

use egress_conformance::{
    call::{Answer, Call, WrittenCall},
    recording::{FORMAT, Recorded, Recording, Who},
};
use egress_contract::Installation;
use egress_sim::recording::Recorder;

use crate::{
    failure::Failure,
    provider::{entry::Subject, world::Behind},
};

/// See the module.
pub struct RecordingFile {
    path: PathBuf,
    recorder: Recorder,
    recording: Recording,
}

impl RecordingFile {
    /// With nothing in it yet: whether it can be written is known before anything is called.
    pub fn create(
        path: &Path,
        recorder: Recorder,
        subject: &Subject,
        behind: &Behind,
        installation: &Installation,
    ) -> Result<Self, Failure> {
        let description = subject.description();
        let recording = Recording {
            format: FORMAT.to_owned(),
            began_ms: behind.clock().now_ms(),
            provider: Who {
                name: description.name.clone(),
                version: description.version.clone(),
                digest: subject.module.digest().to_string(),
            },
            backend: behind.name().to_owned(),
            entry: subject.entry.to_string(),
            installation: installation.hash().to_owned(),
            config: recorder.redactor().clean(subject.settings.config.clone()),
            limits: subject.settings.limits.clone(),
            legacy_marks: subject.settings.legacy(),
            calls: Vec::new(),
        };
        let file = Self { path: path.to_owned(), recorder, recording };
        file.write()?;
        Ok(file)
    }

    /// What the host read of the clock before this is of no call.
    pub fn begin(&self) {
        self.recorder.take();
    }

    /// One call more.
    pub fn add(&mut self, at_ms: u64, call: &Call, answer: &Answer) -> Result<(), Failure> {
        let redactor = self.recorder.redactor();
        let written = serde_json::to_value(WrittenCall::from(call));
        let cleaned = written.map(|call| redactor.clean(call)).and_then(serde_json::from_value);
        self.recording.calls.push(Recorded {
            at_ms,
            call: cleaned.map_err(|error| Failure::Render(error.to_string()))?,
            host_calls: self.recorder.take(),
            outcome: redactor.clean(answer.json()),
        });
        self.write()
    }

    fn write(&self) -> Result<(), Failure> {
        let text = self.recording.text().map_err(|error| Failure::Render(error.to_string()))?;
        let written = fs::write(&self.path, text);
        written.map_err(|source| Failure::Write { path: self.path.clone(), source })
    }
}
