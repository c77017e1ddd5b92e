//! What is stored before a step of create: the name of what is about to be made, and who makes it.

use super::Reconciler;
use crate::{
    api::InstanceStatus,
    core::store::{Providers, ProxyRecord, Store, StoreError},
};

impl<S: Store, P: Providers> Reconciler<S, P> {
    /// Before a step of create: what is about to be made is stored, and the record is still the newest. The
    /// read comes last, after all that may take its time.
    pub(super) async fn claim(&self, record: ProxyRecord, revision: &str) -> Result<ProxyRecord, StoreError> {
        let record = match &record.status.instance {
            None => {
                // Raised four billion times it would stand still, and the backend would show a name twice.
                let incarnation = record.status.incarnation.saturating_add(1);
                let name = self.setup.installation.instance_name(&record.key.name, &record.uid, incarnation);
                let status = self.change(&record).begun(incarnation, name.to_string(), revision);
                self.write(record, status).await?
            }
            Some(instance) if begins_anew(instance, &record, revision) => {
                let status = self.change(&record).taken_over(revision);
                self.write(record, status).await?
            }
            Some(_) => record,
        };
        match self.store.get(&record.key).await? {
            Some(newest) if newest.version == record.version => Ok(newest),
            Some(_) => Err(StoreError::Conflict(record.key)),
            None => Err(StoreError::Gone(record.key)),
        }
    }
}

/// Whether a first step failed and nothing was made, as far as anybody was told: the next one is another revision's first.
fn begins_anew(instance: &InstanceStatus, record: &ProxyRecord, revision: &str) -> bool {
    let nothing_made = instance.id.is_none() && instance.progress.is_none();
    let by_another = instance.created_by.as_deref() != Some(revision);
    by_another && (instance.created_by.is_none() || (nothing_made && record.status.failure.is_some()))
}
