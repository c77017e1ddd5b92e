//! The lease as an API server keeps it, and the clock that it is held by.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    cluster::{CallError, Cluster, FIELD_MANAGER, MANAGED_BY, call},
    core::lease::{Claim, LeaseError, LeaseRecord, Leases, Monotonic},
};

/// The machine's own clock since its start, suspension included. That of the standard library stands still
/// while the machine is suspended.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinceBoot;

impl Monotonic for SinceBoot {
    fn elapsed(&self) -> Duration {
        // Elsewhere, the monotonic clock is the one that counts suspension.
        #[cfg(target_os = "linux")]
        let id = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let id = ClockId::Monotonic;
        let time = clock_gettime(id);
        Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
    }
}

/// One Lease.
pub struct KubeLease {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// As it was read or written last: what others put into it stays.
    last: Mutex<Option<Lease>>,
}

impl KubeLease {
    /// Through a client on which this may always be written.
    pub fn new(cluster: &Cluster, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(cluster.client.clone(), namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            last: Mutex::default(),
        }
    }

    fn remember(&self, lease: Lease) -> LeaseRecord {
        let record = record(&lease);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease);
        record
    }

    fn as_it_was(&self, record: &LeaseRecord) -> Option<Lease> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().filter(|lease| lease.resource_version().as_deref() == Some(&record.version))
    }
}

#[async_trait]
impl Leases for KubeLease {
    async fn read(&self) -> Result<Option<LeaseRecord>, LeaseError> {
        let found = call(self.api.get_opt(&self.name)).await.map_err(failed)?;
        Ok(found.map(|lease| self.remember(lease)))
    }

    async fn write(&self, before: Option<&LeaseRecord>, claim: Claim) -> Result<LeaseRecord, LeaseError> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = match before {
            None => {
                let mut lease = Lease { metadata: self.metadata(), spec: None };
                put(&mut lease, claim);
                call(self.api.create(&params, &lease)).await
            }
            Some(before) => {
                // Another version than the one that was seen is somebody else's word.
                let mut lease = self.as_it_was(before).ok_or(LeaseError::Overtaken)?;
                put(&mut lease, claim);
                call(self.api.replace(&self.name, &params, &lease)).await
            }
        };
        written.map(|lease| self.remember(lease)).map_err(failed)
    }
}

impl KubeLease {
    fn metadata(&self) -> ObjectMeta {
        let (key, value) = MANAGED_BY;
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            labels: Some([(key.to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        }
    }
}

fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: seconds.map(Duration::from_secs),
        transitions: spec.lease_transitions.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
        version: lease.resource_version().unwrap_or_default(),
    }
}

/// Times are for people: no process compares them with its own clock.
fn put(lease: &mut Lease, claim: Claim) {
    let now = Some(MicroTime(Timestamp::now()));
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.lease_duration_seconds = Some(i32::try_from(claim.duration.as_secs()).unwrap_or(i32::MAX));
    spec.lease_transitions = Some(i32::try_from(claim.transitions).unwrap_or(i32::MAX));
    spec.holder_identity = Some(claim.holder);
    spec.renew_time = now.clone();
    if claim.acquired {
        spec.acquire_time = now;
    }
}

fn failed(error: CallError) -> LeaseError {
    // One that is gone was removed by somebody, who thereby wrote.
    if error.is_conflict() || error.is_already_exists() || error.is_not_found() {
        LeaseError::Overtaken
    } else {
        LeaseError::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::double::Double;

    const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases/egress-operator";

    fn lease(double: &Double) -> KubeLease {
        let cluster = Cluster { client: double.client(), namespace: "system".to_owned() };
        KubeLease::new(&cluster, "system", "egress-operator")
    }

    fn claim(holder: &str) -> Claim {
        Claim { holder: holder.to_owned(), duration: Duration::from_secs(15), transitions: 1, acquired: true }
    }

    #[test]
    fn the_clock_goes_on() {
        let before = SinceBoot.elapsed();
        assert!(!before.is_zero() && SinceBoot.elapsed() >= before);
    }

    #[tokio::test]
    async fn a_lease_is_made_renewed_and_given_back_and_what_others_put_into_it_stays() {
        let double = Double::default();
        let lease = lease(&double);
        assert_eq!(lease.read().await, Ok(None));
        let made = lease.write(None, claim("one")).await.unwrap();
        assert_eq!((made.holder.as_str(), made.duration), ("one", Some(Duration::from_secs(15))));
        assert_eq!(lease.write(None, claim("two")).await, Err(LeaseError::Overtaken));
        let mut found = double.object(PATH).unwrap();
        assert!(found["spec"]["acquireTime"].as_str().unwrap().len() == "2026-01-02T03:04:05.123456Z".len());
        found["spec"]["strategy"] = json!("OldestEmulationVersion");
        double.put(PATH, found);
        assert_eq!(
            lease.write(Some(&made), claim("one")).await,
            Err(LeaseError::Overtaken),
            "it has changed"
        );
        let read = lease.read().await.unwrap().unwrap();
        let back = Claim { holder: String::new(), acquired: false, ..claim("one") };
        assert_eq!(lease.write(Some(&read), back).await.unwrap().holder, "");
        assert_eq!(double.object(PATH).unwrap()["spec"]["strategy"], "OldestEmulationVersion");
    }
}
