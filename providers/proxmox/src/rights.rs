//! What the token may do, and what it must.
//!
//! A list of machines is silently filtered by what the token may see: without a look at its permissions an empty
//! cluster and a blind token are the same.

use std::collections::BTreeMap;

use provider_sdk::{Error, reason};
use serde_json::Value;

use crate::{
    Host,
    cluster::{Cluster, number},
    config::{Config, NodeConfig},
};

/// Permissions by path; each privilege says whether it goes down to what is below.
#[derive(Clone, Debug, Default)]
pub struct Rights(BTreeMap<String, BTreeMap<String, bool>>);

/// A privilege, or one of several, at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub path: String,
    pub any: Vec<&'static str>,
}

impl Need {
    fn new(path: String, any: &[&'static str]) -> Self {
        Self { path, any: any.to_vec() }
    }
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.any.join(" or "), self.path)
    }
}

impl Rights {
    pub fn read(data: &Value) -> Self {
        let of = |at: &Value| -> BTreeMap<String, bool> {
            let set = at.as_object().into_iter().flatten();
            set.map(|(privilege, down)| (privilege.clone(), number(Some(down)) == Some(1))).collect()
        };
        let paths = data.as_object().into_iter().flatten();
        Self(paths.map(|(path, at)| (path.clone(), of(at))).collect())
    }

    /// What is set at a path counts there alone; else what comes down from the nearest one above.
    fn has(&self, path: &str, privilege: &str) -> bool {
        if let Some(at) = self.0.get(path) {
            return at.contains_key(privilege);
        }
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/') {
            let parent = if parent.is_empty() { "/" } else { parent };
            if let Some(at) = self.0.get(parent) {
                return at.get(privilege) == Some(&true);
            }
            if parent == "/" {
                return false;
            }
            above = parent;
        }
        false
    }

    pub fn covers(&self, need: &Need) -> bool {
        need.any.iter().any(|privilege| self.has(&need.path, privilege))
    }
}

/// Where machines are, as far as permissions go.
fn machines(config: &Config) -> String {
    config.pool.as_ref().map_or_else(|| "/vms".to_owned(), |pool| format!("/pool/{pool}"))
}

/// What a create, a get, a delete at this node need. `major` is the server's version.
pub fn needed(config: &Config, node: &NodeConfig, templates: &[u32], major: u64) -> Vec<Need> {
    let at = machines(config);
    let mut needs: Vec<Need> =
        templates.iter().map(|template| Need::new(format!("/vms/{template}"), &["VM.Clone"])).collect();
    for privilege in [
        "VM.Audit",
        "VM.Allocate",
        "VM.PowerMgmt",
        "VM.Config.CPU",
        "VM.Config.Memory",
        "VM.Config.CDROM",
        "VM.Config.Options",
    ] {
        needs.push(Need::new(at.clone(), &[privilege]));
    }
    let agent: &[&str] = match major {
        ..9 => &["VM.Monitor"],
        _ => &["VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"],
    };
    needs.push(Need::new(at.clone(), agent));
    if config.disk_gib.is_some() {
        needs.push(Need::new(at.clone(), &["VM.Config.Disk"]));
    }
    if node.bridge.is_some() || config.vlan.is_some() || config.firewall.is_some() {
        needs.push(Need::new(at, &["VM.Config.Network"]));
    }
    needs.push(Need::new(format!("/nodes/{}", node.name), &["Sys.Audit"]));
    let seeds = format!("/storage/{}", node.iso_storage);
    needs.push(Need::new(seeds.clone(), &["Datastore.AllocateTemplate"]));
    needs.push(Need::new(seeds, &["Datastore.Allocate"]));
    if let Some(storage) = &node.storage {
        needs.push(Need::new(format!("/storage/{storage}"), &["Datastore.AllocateSpace"]));
    }
    if let Some(bridge) = &node.bridge {
        needs.push(Need::new(format!("/sdn/zones/{}/{bridge}", node.zone), &["SDN.Use"]));
    }
    needs
}

/// Before "nothing is there" is believed.
pub fn must_see<H: Host>(cluster: &Cluster<'_, H>) -> Result<(), Error> {
    let mut first = None;
    for endpoint in cluster.config.endpoints() {
        match cluster.permissions(endpoint) {
            Ok(data) => return sees(cluster.config, endpoint, &Rights::read(&data)),
            Err(trouble) if trouble.is_the_nodes() => first = first.or(Some(trouble)),
            Err(trouble) => return Err(trouble.into()),
        }
    }
    match first {
        Some(trouble) => Err(trouble.into()),
        None => Ok(()),
    }
}

/// The same of permissions that were read.
pub fn sees(config: &Config, node: &str, rights: &Rights) -> Result<(), Error> {
    let need = Need::new(machines(config), &["VM.Audit"]);
    if rights.covers(&need) {
        return Ok(());
    }
    Err(Error::permanent(
        reason::FORBIDDEN,
        format!(
            "node {node}: the token lacks {need}, so nobody can say what is there; give it that privilege (a token with \
             privilege separation needs permissions of its own)"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rights() -> Rights {
        Rights::read(&json!({
            "/": { "Sys.Audit": 1, "VM.PowerMgmt": 0 },
            "/vms": { "VM.Audit": 1 },
            "/vms/9000": { "VM.Clone": 0 },
            "/pool/proxies": { "VM.Allocate": 1 },
        }))
    }

    #[test]
    fn privileges_come_down_from_the_nearest_path_above_that_has_any() {
        let has = |path: &str, privilege: &str| rights().has(path, privilege);
        assert!(has("/vms", "VM.Audit") && has("/vms/101", "VM.Audit"));
        assert!(
            has("/vms/9000", "VM.Clone") && !has("/vms/9000", "VM.Audit"),
            "what is set there counts alone"
        );
        assert!(
            has("/nodes/pve1", "Sys.Audit") && !has("/nodes/pve1", "VM.PowerMgmt"),
            "that one stays where it is"
        );
        assert!(!has("/vms/101", "Sys.Audit") && !has("/storage/local", "Datastore.Allocate"));
        assert!(!Rights::default().has("/vms", "VM.Audit"));
    }

    #[test]
    fn the_agents_privilege_has_another_name_before_version_nine() {
        let example: Value = serde_json::from_str(include_str!("config.schema.json")).unwrap();
        let config = Config::read(&example["examples"][0]).unwrap();
        let needs = |major| needed(&config, &config.nodes[0], &[9000], major);
        let told = |needs: Vec<Need>| needs.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(told(needs(8)).contains(&"VM.Monitor at /vms".to_owned()));
        assert!(
            told(needs(9)).contains(&"VM.GuestAgent.Audit or VM.GuestAgent.Unrestricted at /vms".to_owned())
        );
        assert!(told(needs(9)).contains(&"VM.Clone at /vms/9000".to_owned()));
    }
}
