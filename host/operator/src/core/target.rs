//! Whom a call is about, and what it asks for.

use egress_contract::{Error, Installation, Placement, Spec, Target};

use crate::{
    api::{InstanceStatus, ProxySpec},
    core::store::ProxyRecord,
};

/// The target of a call about this instance. An instance of another name than this installation gives to
/// this Proxy is not called about.
pub fn target(
    installation: &Installation,
    record: &ProxyRecord,
    instance: &InstanceStatus,
) -> Result<Target, Error> {
    let incarnation = record.status.incarnation;
    let name = installation.instance_name(&record.key.name, &record.uid, incarnation);
    let stored = &instance.name;
    if name.as_str() != stored {
        return Err(Error::permanent(
            "foreign",
            format!(
                "the status names the instance {stored}, but for this Proxy and this installation it would be \
                 {name}: the status was copied, or the installation's identity was lost. Restore the identity; or \
                 see that nothing of {stored} is left at its backend, and remove status.instance"
            ),
        ));
    }
    Ok(Target {
        name,
        uid: record.uid.clone(),
        incarnation,
        namespace: record.key.namespace.clone(),
        proxy: record.key.name.clone(),
        id: instance.id.clone(),
        progress: instance.progress.clone(),
    })
}

/// What the Proxy asks of its provider.
pub fn spec(spec: &ProxySpec) -> Spec {
    let placement = spec.placement.clone().unwrap_or_default();
    Spec {
        port: spec.port,
        placement: Placement {
            region: placement.region,
            zone: placement.zone,
            machine_type: placement.machine_type,
            image: placement.image,
        },
    }
}
