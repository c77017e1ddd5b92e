//! One call of the logic as a document: what the plugin process is sent.

use provider_sdk::{Created, Spec, Target};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    backend::{HostCall, Refused},
    native::{self, Lent},
};

/// Which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// One step of create.
    Create,
    /// A call that asks the backend nothing.
    Empty,
}

/// A call and all that a fresh instance would be told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) progress: Option<String>,
    pub(crate) port: u16,
    pub(crate) config: Value,
    pub(crate) mark: Vec<(String, String)>,
}

/// What it came to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Done(String),
    Pending { id: Option<String>, progress: String },
    Refused(String),
}

impl Operation {
    /// Runs it; the answer as JSON.
    pub(crate) fn run(self, call: impl Fn(HostCall) -> Result<Value, Refused>) -> String {
        serde_json::to_string(&self.answer(call)).unwrap_or_default()
    }

    /// Runs it.
    pub(crate) fn answer(self, call: impl Fn(HostCall) -> Result<Value, Refused>) -> Answer {
        let target = Target {
            name: self.name,
            uid: "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33".into(),
            incarnation: 1,
            namespace: "bench".into(),
            proxy: "bench".into(),
            id: self.id,
            progress: self.progress,
        };
        let lent = Lent { call, config: self.config, mark: self.mark };
        match self.kind {
            Kind::Empty => Answer::Refused(format!("{}", native::empty(lent, &target))),
            Kind::Create => {
                let spec = Spec { port: self.port, ..Spec::default() };
                match native::create(lent, &target, &spec) {
                    Ok(Created::Done(id)) => Answer::Done(id),
                    Ok(Created::Pending(pending)) => {
                        Answer::Pending { id: pending.id, progress: pending.progress }
                    }
                    Err(error) => Answer::Refused(error.message),
                }
            }
        }
    }
}
