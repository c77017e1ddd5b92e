//! Whom a call is about: what the operator would derive from a Proxy and its status.

use std::path::PathBuf;

use egress_contract::{Installation, InstanceName, InvalidName, Placement, Spec, Target};

use crate::failure::Failure;

/// The installation of who calls by hand: what it makes is no operator's.
const BY_HAND: &str = "epo provider call";
/// The UID of a Proxy that is none.
const UID: &str = "00000000-0000-4000-8000-000000000001";

/// For create, get and delete.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Whom create, get and delete are about")]
pub struct Whom {
    /// The Proxy's name
    #[arg(long, value_name = "NAME", default_value = "web")]
    proxy: String,
    /// The Proxy's namespace [default: one that the simulated backend has; else default]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The Proxy's UID
    #[arg(long, default_value = UID, hide_default_value = true)]
    uid: String,
    /// The Proxy's incarnation
    #[arg(long, value_name = "N", default_value_t = 1)]
    incarnation: u32,
    /// The hash of the installation, which stands in each of its names: proxy-NAME-HASH-.. [default: one that is
    /// no operator's]
    #[arg(long, value_name = "HASH", value_parser = Installation::known_by)]
    installation: Option<Installation>,
    /// The instance's name, where it is another than Proxy, UID, incarnation and installation give
    #[arg(long, value_name = "NAME", value_parser = read_back)]
    name: Option<InstanceName>,
    /// The id that create answered
    #[arg(long)]
    id: Option<String>,
    /// The progress that the last call answered
    #[arg(long)]
    progress: Option<String>,
}

fn read_back(name: &str) -> Result<InstanceName, InvalidName> {
    InstanceName::read_back(name)
}

impl Whom {
    /// Whose instances are meant.
    pub fn installation(&self) -> Installation {
        self.installation.clone().unwrap_or_else(|| Installation::new(BY_HAND))
    }

    /// As the first call gets it.
    pub fn target(&self, namespace: &str) -> Target {
        let name = self.installation().instance_name(&self.proxy, &self.uid, self.incarnation);
        Target {
            name: self.name.clone().unwrap_or(name),
            uid: self.uid.clone(),
            incarnation: self.incarnation,
            namespace: self.namespace.clone().unwrap_or_else(|| namespace.to_owned()),
            proxy: self.proxy.clone(),
            id: self.id.clone(),
            progress: self.progress.clone(),
        }
    }
}

/// What create is to make.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "What create makes")]
pub struct What {
    /// The TCP port that the proxy listens at
    #[arg(long, default_value_t = 3128)]
    port: u16,
    /// spec.placement.region
    #[arg(long)]
    region: Option<String>,
    /// spec.placement.zone
    #[arg(long)]
    zone: Option<String>,
    /// spec.placement.machineType
    #[arg(long, value_name = "TYPE")]
    machine_type: Option<String>,
    /// spec.placement.image
    #[arg(long)]
    image: Option<String>,
    /// A file with the user-data; none of it is shown or recorded
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
}

impl What {
    /// All but the user-data.
    pub fn spec(&self) -> Spec {
        let Self { port, region, zone, machine_type, image, .. } = self.clone();
        Spec { port, placement: Placement { region, zone, machine_type, image } }
    }

    /// Empty where there is none.
    pub fn user_data(&self) -> Result<Vec<u8>, Failure> {
        let Some(path) = &self.user_data else { return Ok(Vec::new()) };
        std::fs::read(path).map_err(|source| Failure::read(path, source))
    }
}
