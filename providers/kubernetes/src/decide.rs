//! What follows from what was read. Tables only: no request, no clock.

use provider_sdk::{Address, AddressKind, Error, Instance, Mark, State, mark::show, reason};

use crate::{
    id::Location,
    observe::{ConfigMap, Found, Owned, Phase, Pod, Why},
};

/// What the kubelet says while it waits for a volume, or makes a container.
const CONTAINER_CREATING: &str = "ContainerCreating";

/// What a create does next.
#[derive(Clone, Debug, PartialEq)]
pub enum CreateStep {
    /// Make ConfigMap and Pod.
    Make,
    /// Kubernetes is at work.
    Wait(Why),
    Done,
    Fail(Error),
}

/// The table of create.
pub fn create(at: &Location, found: &Found<Pod>, ours: &Mark) -> CreateStep {
    let pod = match found {
        Found::Nothing => return CreateStep::Make,
        Found::Foreign(mark) => return CreateStep::Fail(foreign("Pod", at, mark, ours)),
        Found::Ours(pod) => pod,
    };
    if pod.owned.deleting().is_some() {
        return CreateStep::Fail(being_deleted("Pod", at));
    }
    match (&pod.phase, pod.ready) {
        (Phase::Pending, _) => CreateStep::Wait(or(&pod.why, "Pending")),
        (Phase::Running, true) => CreateStep::Done,
        (Phase::Running, false) => CreateStep::Wait(or(&pod.why, "NotReady")),
        (Phase::Succeeded | Phase::Failed, _) => CreateStep::Fail(Error::permanent(
            reason::FINISHED,
            format!(
                "Pod {} has ended and can't be started again ({}): it is to be replaced",
                at.id(),
                or(&pod.why, "no reason given").show()
            ),
        )),
        (Phase::Unknown(phase), _) => CreateStep::Fail(Error::transient(
            reason::BACKEND,
            format!(
                "Pod {} has phase {phase:?}: its node does not answer; bring the node back, or delete the Pod",
                at.id()
            ),
        )),
    }
}

/// Whether the kubelet may be waiting for the ConfigMap: somebody may have removed it since the Pod was made,
/// and then it waits for ever.
pub fn may_lack_its_config(found: &Found<Pod>) -> bool {
    match found {
        Found::Ours(pod) => pod.phase == Phase::Pending && pod.why.reason == CONTAINER_CREATING,
        Found::Nothing | Found::Foreign(_) => false,
    }
}

/// What a create does about the ConfigMap before it makes the Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigStep {
    Make,
    /// It says something else: another revision of the provider, or another config, began.
    Rewrite,
    Keep,
    Fail(Error),
}

/// The table of the ConfigMap in create.
pub fn config_map(at: &Location, found: &Found<ConfigMap>, ours: &Mark, key: &str, conf: &str) -> ConfigStep {
    match found {
        Found::Nothing => ConfigStep::Make,
        Found::Foreign(mark) => ConfigStep::Fail(foreign("ConfigMap", at, mark, ours)),
        Found::Ours(map) if map.owned.deleting().is_some() => {
            ConfigStep::Fail(being_deleted("ConfigMap", at))
        }
        Found::Ours(map) if map.data.get(key).is_some_and(|data| data == conf) => ConfigStep::Keep,
        Found::Ours(_) => ConfigStep::Rewrite,
    }
}

/// The table of get.
pub fn get(at: &Location, found: &Found<Pod>, ours: &Mark) -> Result<Instance, Error> {
    let pod = match found {
        Found::Nothing => return Err(Error::not_found(format!("there is no Pod {}", at.id()))),
        Found::Foreign(mark) => return Err(foreign("Pod", at, mark, ours)),
        Found::Ours(pod) => pod,
    };
    let (state, why) = match (&pod.phase, pod.ready, pod.owned.deleting()) {
        (_, _, Some(deleting)) => (
            State::Deleting,
            Why { reason: "Terminating".to_owned(), message: format!("waits for {}", deleting.waits_for()) },
        ),
        (Phase::Pending, _, None) => (State::Provisioning, or(&pod.why, "Pending")),
        (Phase::Running, true, None) if pod.ips.is_empty() => {
            (State::Provisioning, or(&pod.why, "NoAddress"))
        }
        (Phase::Running, true, None) => (State::Running, Why::default()),
        (Phase::Running, false, None) => (State::Provisioning, or(&pod.why, "NotReady")),
        (Phase::Succeeded, _, None) => (State::Stopped, or(&pod.why, "Succeeded")),
        (Phase::Failed, _, None) => (State::Stopped, or(&pod.why, "Failed")),
        (Phase::Unknown(phase), _, None) => (State::Stopped, or(&pod.why, phase)),
    };
    let address = |ip: &String| Address { kind: AddressKind::Internal, ip: ip.clone() };
    let addresses = match state {
        State::Running => pod.ips.iter().map(address).collect(),
        State::Provisioning | State::Stopped | State::Deleting => Vec::new(),
    };
    Ok(Instance {
        id: at.id(),
        state,
        addresses,
        mark: pod.owned.mark().clone(),
        created_ms: pod.owned.created_ms(),
        reason: why.reason,
        message: why.message,
        details: pod.details.clone(),
    })
}

/// What delete does about one object.
#[derive(Clone, Debug, PartialEq)]
pub enum DeleteStep<'a> {
    /// It is gone.
    Gone,
    Destroy(&'a Owned),
    /// It is being deleted; what that waits for.
    Wait(String),
}

/// The table of delete, for each object of an instance.
pub fn delete<'a, T>(
    kind: &str,
    at: &Location,
    found: &'a Found<T>,
    ours: &Mark,
    owned: fn(&T) -> &Owned,
) -> Result<DeleteStep<'a>, Error> {
    let owned = match found {
        Found::Nothing => return Ok(DeleteStep::Gone),
        Found::Foreign(mark) => return Err(foreign(kind, at, mark, ours)),
        Found::Ours(object) => owned(object),
    };
    Ok(match owned.deleting() {
        Some(deleting) => DeleteStep::Wait(format!("{kind} waits for {}", deleting.waits_for())),
        None => DeleteStep::Destroy(owned),
    })
}

/// Our name with another's mark, or none.
pub fn foreign(kind: &str, at: &Location, found: &Mark, ours: &Mark) -> Error {
    Error::permanent(
        reason::FOREIGN,
        format!(
            "{kind} {} bears {}, not {}; remove it, or give it back its labels if it is this Proxy's",
            at.id(),
            show(found),
            show(ours)
        ),
    )
}

fn being_deleted(kind: &str, at: &Location) -> Error {
    Error::transient(reason::DELETING, format!("{kind} {} is being deleted: waits until it is gone", at.id()))
}

fn or(why: &Why, reason: &str) -> Why {
    if why.reason.is_empty() { Why { reason: reason.to_owned(), ..why.clone() } } else { why.clone() }
}
