//! `--backend real`: the clusters or hypervisors that an entry's grants reach, and an administrator's way to them.
//!
//! The component gets what the entry lends it, and no more. The suite looks and acts behind its back, so of a cluster it
//! takes the identity that the grant names without the grant's rules; or another's, where one is given.

use std::{collections::BTreeSet, sync::Arc};

use egress_capabilities::{
    ClusterGrant, HomeCluster, KubernetesCapability, KubernetesGrant, LibvirtGrant, Rule,
};
use egress_conformance::kind::{Kind, kubernetes::RealKubernetes, libvirt::RealLibvirt};
use egress_contract::Installation;

use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    provider::{entry::Subject, world},
    setup,
};

/// Everything, in a rule.
const ANY: &str = "*";
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

/// Where Proxies live while a component is tried at a real backend.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "With --backend real")]
pub struct Namespaces {
    /// A namespace that is there and where nobody works, for Proxies and what is made for them; give two [default:
    /// the two that the entry's grants name]
    #[arg(short = 'n', long = "namespace", value_name = "NAMESPACE")]
    pub given: Vec<String>,
}

impl Namespaces {
    /// Two, which the entry's grants reach.
    fn of(&self, grant: &KubernetesGrant) -> Result<[String; 2], Failure> {
        let named: BTreeSet<&String> =
            rules(grant).flat_map(|rule| &rule.namespaces).filter(|name| *name != ANY).collect();
        let (chosen, from): (Vec<String>, _) = match self.given.is_empty() {
            false => (self.given.clone(), "--namespace was given"),
            true => (named.into_iter().cloned().collect(), "the entry's grants name"),
        };
        let [one, two] = <[String; 2]>::try_from(chosen).map_err(|chosen| {
            Failure::Usage(format!(
                "--backend real needs two namespaces where nobody works, and {from} {}: give --namespace twice",
                if chosen.is_empty() { "none".to_owned() } else { chosen.join(", ") }
            ))
        })?;
        if one == two {
            return Err(Failure::Usage(format!(
                "--namespace {one} is given twice; --backend real needs two"
            )));
        }
        for namespace in [&one, &two] {
            let reached = |name: &String| name == ANY || name == namespace;
            if !rules(grant).any(|rule| rule.namespaces.iter().any(reached)) {
                return Err(Failure::Usage(format!(
                    "no rule of the entry's grants reaches namespace {namespace}: add it to their namespaces, and to the \
                     config where that names namespaces too, or give another --namespace"
                )));
            }
        }
        Ok([one, two])
    }
}

fn rules(grant: &KubernetesGrant) -> impl Iterator<Item = &Rule> {
    grant.clusters.values().flat_map(|cluster| &cluster.rules)
}

/// What the entry reaches.
pub async fn kind(
    subject: &Subject,
    namespaces: &Namespaces,
    given: &ClusterArgs,
) -> Result<Arc<dyn Kind>, Failure> {
    match &subject.settings.grants.libvirt {
        Some(grant) => Ok(Arc::new(hypervisors(subject, grant)?)),
        None => Ok(Arc::new(clusters(subject, namespaces, given).await?)),
    }
}

fn hypervisors(subject: &Subject, grant: &LibvirtGrant) -> Result<RealLibvirt, Failure> {
    setup::tls()?;
    let transfer = subject.settings.grants.transfer.clone().unwrap_or_default();
    let made = RealLibvirt::new(subject.entry.clone(), grant.clone(), transfer, None);
    made.map_err(|faults| Failure::Grants { entry: subject.entry.clone(), faults })
}

async fn clusters(
    subject: &Subject,
    namespaces: &Namespaces,
    given: &ClusterArgs,
) -> Result<RealKubernetes, Failure> {
    let none = || {
        Failure::Usage(
            "--backend real tries what makes proxies in Kubernetes or on hypervisors, and the entry grants neither: \
             add grants.kubernetes or grants.libvirt, which says where that is, and as whom it is asked"
                .to_owned(),
        )
    };
    let grant = subject.settings.grants.kubernetes.as_ref().ok_or_else(none)?;
    let namespaces = namespaces.of(grant)?;
    let lent = world::lent(subject, given, &Installation::new("test")).await?.kubernetes.ok_or_else(none)?;
    let admin = administrator(subject, grant, given).await?;
    let clusters = grant.clusters.keys().cloned().collect();
    Ok(RealKubernetes::new(lent, Arc::new(admin), clusters, namespaces))
}

async fn administrator(
    subject: &Subject,
    grant: &KubernetesGrant,
    given: &ClusterArgs,
) -> Result<KubernetesCapability, Failure> {
    // Whoever is named on the command line is the administrator of the entry's one cluster; of several nobody
    // could say which.
    let named = given.is_given() && grant.clusters.len() == 1;
    let mut wide = grant.clone();
    for cluster in wide.clusters.values_mut() {
        *cluster = ClusterGrant {
            rules: vec![everything()],
            service_account: None,
            operator: cluster.operator || named,
            in_cluster: cluster.in_cluster && !named,
            kubeconfig: cluster.kubeconfig.take().filter(|_| !named),
            ..cluster.clone()
        };
    }
    let home = match wide.clusters.values().any(|cluster| cluster.operator) {
        true => Some(HomeCluster { config: given.config().await?, uid: String::new() }),
        false => None,
    };
    let made = KubernetesCapability::new(&subject.entry, wide, home);
    made.map_err(|faults| Failure::Grants { entry: subject.entry.clone(), faults })
}

fn everything() -> Rule {
    Rule {
        api_groups: vec![ANY.to_owned()],
        resources: vec![ANY.to_owned()],
        verbs: VERBS.map(str::to_owned).to_vec(),
        namespaces: vec![ANY.to_owned()],
        resource_names: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(namespaces: &[&str]) -> KubernetesGrant {
        let names = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let cluster = ClusterGrant {
            rules: vec![Rule { namespaces: names, ..everything() }],
            ..ClusterGrant::default()
        };
        KubernetesGrant { clusters: [("home".to_owned(), cluster)].into() }
    }

    fn chosen(given: &[&str], granted: &[&str]) -> Result<[String; 2], String> {
        let given = Namespaces { given: given.iter().map(|name| (*name).to_owned()).collect() };
        given.of(&grant(granted)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn two_namespaces_come_from_the_command_line_or_else_from_the_grants() {
        let both = ["a", "b"].map(str::to_owned);
        assert_eq!(chosen(&[], &["b", "a"]), Ok(both.clone()));
        assert_eq!(chosen(&["a", "b"], &["*"]), Ok(both.clone()));
        assert_eq!(chosen(&["a", "b"], &["a", "b", "c"]), Ok(both));
    }

    #[test]
    fn what_is_not_two_namespaces_is_told() {
        for (given, granted, said) in [
            (&[][..], &["*"][..], "name none: give --namespace twice"),
            (&[], &["a", "b", "c"], "name a, b, c"),
            (&["a"], &["*"], "was given a:"),
            (&["a", "a"], &["*"], "given twice"),
            (&["a", "x"], &["a", "b"], "reaches namespace x"),
        ] {
            let told = chosen(given, granted).unwrap_err();
            assert!(told.contains(said), "{told}");
        }
    }
}
