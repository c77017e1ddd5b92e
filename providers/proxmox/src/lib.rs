//! Egress proxies as virtual machines of Proxmox VE, over its HTTP API.
//!
//! An instance is a machine cloned from a template, and a seed ISO that cloud-init reads. Both bear the target's name;
//! the machine bears the mark in its description, written by the call that clones it. A machine is known by a number
//! that people hand out as well, so the number is derived from the name, and what stands there is looked at before it
//! is used.
//!
//! One entry is one cluster. Its places are nodes, each asked by its own endpoint; a machine is found wherever it
//! moved to. Whatever the server works on by itself (clone, upload, start, stop, destroy) is a task, whose handle is
//! the progress, and whose log is the reason where it fails.
//!
//! What nothing but its text tells apart stands in [`phrases`]; what an answer means in [`answer`]; steps in
//! [`create`] and [`delete`].

mod agent;
mod answer;
mod check;
mod cluster;
mod config;
mod create;
mod delete;
mod disk;
mod get;
mod id;
mod list;
mod machine;
mod mark;
mod phrases;
mod progress;
mod rights;
mod seed;
mod state;
mod task;
mod upid;
mod vmid;
mod waiting;

use provider_sdk::{
    BackendTest, Clock, Context, Created, CreatedAt, Deleted, Description, Error, Fault, GcMark, Health,
    Http, Instance, IpSource, Log, NotFound, Page, PrimaryKey, Profile, Provider, ProvisioningState, Quota,
    Readiness, SecondaryResources, Spec, Target, reason,
};
use serde_json::Value;

use config::Config;

/// A build can be told apart from others of the same source, as a release or a test of swaps needs it.
const VERSION: &str = match option_env!("PROVIDER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// What the provider is lent, in one word.
pub trait Host: Context + Clock + Log + Http {}
impl<T: Context + Clock + Log + Http> Host for T {}

/// The provider, over whatever it is lent.
#[derive(Clone, Copy, Debug)]
pub struct ProxmoxProvider<H> {
    host: H,
}

impl<H> From<H> for ProxmoxProvider<H> {
    fn from(host: H) -> Self {
        Self { host }
    }
}

impl<H: Context> ProxmoxProvider<H> {
    /// The config that this call runs on: a fresh instance has forgotten what `configure` read.
    fn config(&self) -> Result<Config, Error> {
        Config::read(&self.host.config()).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let told = format!("the entry's config is not one for proxmox: {}", faults.join("; "));
            Error::permanent(reason::CONFIG, told)
        })
    }
}

impl<H: Host> Provider for ProxmoxProvider<H> {
    fn describe() -> Description {
        Description {
            name: "proxmox",
            version: VERSION,
            profile: Profile {
                readiness: Readiness::ProvisioningWindow,
                ip_source: IpSource::Discovered,
                gc_mark: GcMark::WrittenMetadata,
                created_at: CreatedAt::WrittenAtCreate,
                quota: Quota::Detected,
                not_found: NotFound::ErrorCode,
                primary_key: PrimaryKey::AllocatedId,
                provisioning_state: ProvisioningState::NoAddress,
                secondary_resources: SecondaryResources::Explicit,
                backend_test: BackendTest::ManualRunbook,
            },
            config_schema: include_str!("config.schema.json"),
        }
    }

    fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
        Config::read(config).map(|config| config.nodes.into_iter().map(|node| node.name).collect())
    }

    fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        create::create(&self.host, &self.config()?, target, spec, user_data)
    }

    fn get(&self, target: &Target) -> Result<Instance, Error> {
        get::get(&self.host, &self.config()?, target)
    }

    fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        delete::delete(&self.host, &self.config()?, target)
    }

    fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        list::list(&self.host, &self.config()?, place, cursor)
    }

    fn check(&self, place: &str) -> Health {
        check::check(&self.host, self.config(), place)
    }
}

#[cfg(feature = "component")]
provider_sdk::export!(ProxmoxProvider<provider_sdk::Imports>);
