//! `epo provider shadow`: what a component sees, beside what an entry runs, before anybody commits to it.

use egress_contract::{EntryName, Fault};
use egress_operator::{
    cluster::Cluster,
    lend,
    trial::{self, Tried},
};
use egress_runtime::RuntimeConfig;
use serde_json::json;

use super::{ComponentFile, runtime};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{self, TextOrJson},
    setup,
};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # would the operator take this build up, or does it see less than what runs?
  epo provider shadow fixed.wasm --entry kubernetes

Both check and list each place of the entry, with every write denied. The entry is read from the providers ConfigMap,
what runs from the kept revisions, and the backends are asked from here: credentials that only the operator has are
missing, and such a place is down for both.

Exit codes:
  0  it sees no less than what runs
  1  it sees less
  2  could not run: usage, the cluster, the entry, a component")]
pub struct Shadow {
    #[command(flatten)]
    file: ComponentFile,
    /// The provider entry: a key of the providers ConfigMap
    #[arg(short, long, value_name = "NAME")]
    entry: EntryName,
    /// The operator's namespace
    #[arg(short, long, env = "EPO_NAMESPACE", default_value = "egress-system")]
    namespace: String,
    /// The providers ConfigMap
    #[arg(long, env = "EPO_PROVIDERS_CONFIGMAP", value_name = "NAME", default_value = "egress-providers")]
    providers_configmap: String,
    /// Whose instances are looked for, for who may not read the operator's Secret: the HASH in proxy-NAME-HASH-...
    #[arg(long, value_name = "HASH")]
    installation: Option<String>,
    /// How the differences are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: TextOrJson,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Shadow {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(self.compare()).map_err(Failure::could_not_run)
    }

    async fn compare(self) -> Result<(), Failure> {
        let module = self.file.module()?;
        let runtime = runtime()?;
        let cluster = Cluster { client: self.cluster.client().await?, namespace: self.namespace.clone() };
        let most = RuntimeConfig::default().module_bytes;
        let installation = self.installation.as_deref();
        let trial = trial::read(&cluster, &self.providers_configmap, &self.entry, installation, most).await?;
        let home = match trial.needs_home {
            true => {
                let reached = lend::home(self.cluster.config().await?).await;
                Some(reached.map_err(|error| Failure::Unreachable(error.to_string()))?)
            }
            false => None,
        };
        let active = trial.active().to_owned();
        let tried = trial.run(&runtime, home, module).await?;
        let faults = |faults: &[Fault]| -> Vec<_> {
            faults.iter().map(|fault| json!({ "path": fault.path, "message": fault.message })).collect()
        };
        let data = json!({
            "entry": self.entry.to_string(),
            "active": active,
            "candidate": tried.revision,
            "places": tried.places,
            "differences": faults(&tried.comparison.differences),
            "notes": tried.comparison.notes,
        });
        output::print_as(self.output.into(), &data, |_| text(&self.entry, &active, &tried))?;
        match tried.comparison.differences.len() {
            0 => Ok(()),
            less => Err(Failure::Found(format!("it sees less than what runs, in {less} ways"))),
        }
    }
}

fn text(entry: &EntryName, active: &str, tried: &Tried) -> String {
    let Tried { revision, places, comparison } = tried;
    let mut text = format!("{entry}: revision {revision} beside {active}, at {}\n", places.join(", "));
    for difference in &comparison.differences {
        text.push_str(&format!("- {difference}\n"));
    }
    for note in &comparison.notes {
        text.push_str(&format!("  {note}\n"));
    }
    if comparison.differences.is_empty() {
        text.push_str("it sees no less than what runs\n");
    }
    text
}
