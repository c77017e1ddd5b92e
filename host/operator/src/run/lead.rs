//! Who leads: the one process that there is, or the holder of a Lease.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ObjectReference};
use kube::{Api, Resource};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{LeaseOptions, OperatorError};
use crate::{
    cluster::{Cluster, call},
    core::{
        lease::{Elector, Leadership, Proof},
        store::Notice,
    },
    events::Events,
    kube_lease::{KubeLease, SinceBoot},
};

/// How long what is in flight may go on writing at a stop, while somebody waits to take over.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Who says whether this process leads.
pub(super) struct Lead {
    pub proof: Proof,
    pub told: Leadership,
    pub by: LeadBy,
}

pub(super) enum LeadBy {
    Lease(Box<Elector<KubeLease>>),
    /// Nobody else is there. Its sender is kept so that the loops go on.
    Itself(watch::Sender<Option<u32>>),
}

impl Lead {
    pub fn new(cluster: &Cluster, lease: Option<&LeaseOptions>) -> Self {
        let Some(LeaseOptions { namespace, name, terms }) = lease else {
            metrics::gauge!("egress_leader").set(1.0);
            let told = watch::Sender::new(Some(0));
            return Self { proof: Proof::always(), told: told.subscribe(), by: LeadBy::Itself(told) };
        };
        metrics::gauge!("egress_leader").set(0.0);
        let lease = KubeLease::new(cluster, namespace, name);
        let elector = Elector::new(lease, terms.clone(), Arc::new(SinceBoot));
        Self { proof: elector.proof(), told: elector.leadership(), by: LeadBy::Lease(Box::new(elector)) }
    }

    /// Holds the lease, and gives it back at the stop: after what is in flight has ended, or soon.
    pub fn start(by: LeadBy, stop: CancellationToken, passes: CancellationToken) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            match by {
                LeadBy::Lease(mut elector) => {
                    elector.run(&stop).await;
                    let _ = tokio::time::timeout(HAND_OVER, passes.cancelled()).await;
                    elector.release().await;
                }
                LeadBy::Itself(_told) => passes.cancelled().await,
            }
        }))
    }
}

/// A Lease that may not be read is never held, and nothing would say so but a log.
pub(super) async fn leased(cluster: &Cluster, lease: &LeaseOptions) -> Result<(), OperatorError> {
    let LeaseOptions { namespace, name, .. } = lease;
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), namespace);
    match call(api.get_opt(name)).await {
        Ok(_) => Ok(()),
        Err(cause) => Err(OperatorError::Lease { namespace: namespace.clone(), name: name.clone(), cause }),
    }
}

/// An Event at the Lease, as others tell it. Of a loss the next one tells, by leading.
pub(super) async fn tell_of_lead(
    cluster: &Cluster,
    lease: &LeaseOptions,
    events: &Events,
    mut told: Leadership,
) {
    let api: Api<Lease> = Api::namespaced(cluster.client.clone(), &lease.namespace);
    while told.wait_for(Option::is_some).await.is_ok() {
        if let Ok(found) = call(api.get(&lease.name)).await {
            let about = ObjectReference { resource_version: None, ..found.object_ref(&()) };
            let message = format!("{} became leader", lease.terms.identity);
            let notice = Notice { warning: false, reason: "LeaderElection".to_owned(), message };
            events.publish(&about, "Lead", &notice).await;
        }
        if told.wait_for(Option::is_none).await.is_err() {
            return;
        }
    }
}
