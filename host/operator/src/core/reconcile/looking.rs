//! A look at an instance, and what follows from what it shows.

use std::time::Duration;

use egress_contract::{Error, ErrorClass, State};

use super::{Flow, Reconciler};
use crate::{
    api::ProxyStatus,
    core::{
        backoff::Call,
        store::{ActiveProvider, Providers, ProxyRecord, Store, StoreError},
    },
};

impl<S: Store, P: Providers> Reconciler<S, P> {
    pub(super) async fn get(&self, record: ProxyRecord, active: &ActiveProvider) -> Result<Flow, StoreError> {
        let key = self.key(Call::Get, &record, active, &[]);
        if let Some(left) = self.held_up(&record, &key, active) {
            return Ok(self.rest_held_up(record, left));
        }
        let Some(instance) = &record.status.instance else { return Ok(Flow::On(Box::new(record))) };
        let answer = match self.target(&record, instance) {
            Ok(target) => active.provider.get(&target).await,
            Err(error) => Err(error),
        };
        let name = &instance.name;
        match answer {
            Ok(seen) => match seen.state {
                State::Running | State::Provisioning => {
                    let stored = record.clone();
                    self.seen((stored, record), &seen, active).await
                }
                State::Stopped => {
                    let why = if seen.message.is_empty() { &seen.reason } else { &seen.message };
                    let error = Error::transient(
                        "stopped",
                        told(&format!("{name} stands still and is started again"), why),
                    );
                    let (failure, rest) = self.restart_failure(&record, active, &error);
                    let status = self.change(&record).stopped(&seen, failure);
                    let record = self.write(record, status).await?;
                    Ok(self.rest_held_up(record, rest))
                }
                State::Deleting => {
                    let message = format!(
                        "{name} is being removed at its backend by somebody else; its successor follows"
                    );
                    self.ended(record, active, Error::transient("leaving", message)).await
                }
            },
            Err(error) => match error.class {
                ErrorClass::NotFound => {
                    let message = told(
                        &format!("{name} is gone at its backend; its successor follows"),
                        &error.message,
                    );
                    self.ended(record, active, Error::transient("gone", message)).await
                }
                ErrorClass::Transient | ErrorClass::Permanent | ErrorClass::QuotaExceeded => {
                    self.failed(record, Call::Get, key, &error).await
                }
            },
        }
    }

    /// It is made, and is looked at before that is stored: mostly both are one write. Cut off before it, the
    /// next process asks `create` again, which finds what it made. A look that finds anything else than what
    /// is on its way up comes again, with what was made stored before.
    pub(super) async fn made(
        &self,
        record: ProxyRecord,
        status: ProxyStatus,
        looks: &ActiveProvider,
    ) -> Result<Flow, StoreError> {
        let made = ProxyRecord { status, ..record.clone() };
        let target = made.status.instance.as_ref().map(|instance| self.target(&made, instance));
        let seen = match target {
            Some(Ok(target)) => looks.provider.get(&target).await.ok(),
            Some(Err(_)) | None => None,
        };
        match seen.filter(|seen| matches!(seen.state, State::Running | State::Provisioning)) {
            Some(seen) => self.seen((record, made), &seen, looks).await,
            None => {
                let record = self.write(record, made.status).await?;
                Ok(Flow::Rest(Box::new(record), Duration::ZERO))
            }
        }
    }
}

fn told(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}
