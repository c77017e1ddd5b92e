//! What an entry lends to its component.

use egress_capabilities::{HttpGrant, KubernetesGrant, LibvirtGrant, TransferGrant};
use serde::{Deserialize, Serialize};

use super::faults::Faults;

/// Each is a capability; what is none is not lent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Grants {
    /// HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpGrant>,
    /// The Kubernetes API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesGrant>,
    /// Hypervisors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libvirt: Option<LibvirtGrant>,
    /// Volumes of these, filled from URLs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferGrant>,
}

impl Grants {
    pub(super) fn check(&self, faults: &mut Faults) {
        if let Some(grant) = &self.http {
            faults.extend("grants.http", grant.faults());
        }
        if let Some(grant) = &self.kubernetes {
            faults.extend("grants.kubernetes", grant.faults());
        }
        if let Some(grant) = &self.libvirt {
            faults.extend("grants.libvirt", grant.faults());
        }
        if let Some(grant) = &self.transfer {
            faults.extend("grants.transfer", grant.faults());
            if self.libvirt.is_none() {
                faults
                    .add("grants.transfer", "fills volumes of hosts under grants.libvirt, and there is none");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use egress_contract::EntryName;

    use super::super::{EntryConfig, read_entry};

    const HOST: &str = "address: hv1, user: root, key: {file: /id}, knownHosts: {file: /known}, pools: [default], \
                        bridges: [br0]";

    fn read(grants: &str) -> Result<EntryConfig, Vec<String>> {
        let entry: EntryName = "kvm".parse().unwrap();
        read_entry(&entry, &format!("module: {{file: a}}\ngrants: {{{grants}}}"))
            .map_err(|invalid| invalid.faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_entry_may_be_granted_hypervisors_and_images() {
        let grants =
            read(&format!("libvirt: {{hosts: {{hv1: {{{HOST}}}}}}}, transfer: {{inside: [10.0.0.0/8]}}"))
                .unwrap()
                .settings
                .grants;
        let host = grants.libvirt.as_ref().unwrap().hosts.get("hv1").unwrap().clone();
        assert_eq!((host.port, host.socket.as_str()), (22, "/var/run/libvirt/libvirt-sock"));
        assert_eq!(grants.transfer.as_ref().unwrap().inside, ["10.0.0.0/8"]);
        let again = serde_json::to_value(&grants).unwrap();
        assert_eq!(serde_json::from_value::<super::Grants>(again).unwrap(), grants, "as a revision keeps it");
    }

    #[test]
    fn faults_of_these_grants_are_told_by_their_whole_paths() {
        let begins = |grants: &str, path: &str| {
            let faults = read(grants).unwrap_err();
            assert!(faults.iter().any(|fault| fault.starts_with(path)), "{faults:?}");
        };
        begins(
            &format!("libvirt: {{hosts: {{hv1: {{{HOST}, port: 0}}}}}}"),
            "grants.libvirt.hosts.hv1.port: ",
        );
        begins(
            &format!("libvirt: {{hosts: {{hv1: {{{HOST}, prot: 1}}}}}}"),
            "grants.libvirt.hosts.hv1.prot: ",
        );
        begins("libvirt: {hosts: {}}, transfer: {inside: [a]}", "grants.transfer.inside[0]: ");
        begins("libvirt: {hosts: {}}, transfer: {maxBytes: 0}", "grants.transfer.maxBytes: ");
        begins("transfer: {}", "grants.transfer: ");
    }
}
