//! A component that is called by hand: loaded, configured, and asked one thing after the other.
//!
//! Everything that it asks of the host goes through one [`Watch`]. What the operator would keep of an answer
//! (id and progress) is its caller's.

use std::{sync::Arc, time::Duration};

use egress_contract::{EntryName, Installation};
use egress_runtime::{Candidate, Refusal, Revision, Runtime, Slot};
use egress_sim::{journal::Line, watched::Watch};

use crate::call::{Answer, Call};

/// See the module.
pub struct Session {
    revision: Arc<Revision>,
    watch: Watch,
}

/// One call, answered.
#[derive(Clone, Debug)]
pub struct Heard {
    /// What came back; none where a recording had no answer for what was asked.
    pub answer: Option<Answer>,
    /// Its number in the journal; its host calls are those behind it.
    pub number: u64,
    /// How long it took, by the watch's clock.
    pub took: Duration,
}

impl Session {
    /// Takes the candidate as far as it goes without any call of a capability. What it is lent is to be watched by
    /// `watch`.
    pub async fn open(
        runtime: Runtime,
        entry: EntryName,
        installation: Installation,
        candidate: Candidate,
        watch: Watch,
    ) -> Result<Self, Refusal> {
        let revision = Arc::new(Slot::new(runtime, entry, installation).configured(candidate).await?);
        Ok(Self { revision, watch })
    }

    /// What is called.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Who looks on.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Makes one call.
    pub async fn ask(&self, call: &Call) -> Heard {
        let number = self.watch.begin(call.export(), call.about()).await;
        let before = self.watch.elapsed();
        let answer = tokio::select! {
            biased;
            answer = call.ask(&*self.revision) => Some(answer),
            _ = self.watch.ended() => None,
        };
        let outcome = answer.as_ref().map_or_else(|| "ended by the recording".to_owned(), Answer::line);
        self.watch.finish(number, outcome).await;
        Heard { answer, number, took: self.watch.elapsed().saturating_sub(before) }
    }

    /// The host calls of a call.
    pub fn host_calls(&self, heard: &Heard) -> Vec<Line> {
        let behind = self.watch.journal().after(heard.number).into_iter();
        behind.take_while(|line| line.is_host_call() || line.number == 0).filter(Line::is_host_call).collect()
    }
}
