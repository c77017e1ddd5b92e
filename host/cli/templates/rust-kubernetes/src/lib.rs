//! Egress proxies as Pods that run Squid, each with a ConfigMap that holds its configuration.
//!
//! Each call runs in a fresh instance, so nothing is remembered: a call reads what stands at the
//! instance's name, decides from that alone, and makes at most one step. Whatever is cut off is
//! taken up by the next call, whoever makes it.
//!
//! - [`cluster`] asks the Kubernetes API, and [`failure`] says what its refusals mean
//! - [`pod`] reads a Pod, and says in tables what follows from it
//! - [`manifest`] is what gets made
//! - [`steps`], [`list`] and [`check`] are the calls

mod check;
mod cluster;
mod config;
mod failure;
mod list;
mod manifest;
mod pod;
mod steps;

#[cfg(test)]
mod tests;

use provider_sdk::{
    BackendTest, Clock, Context, Created, CreatedAt, Deleted, Description, Error, Fault, GcMark,
    Health, Instance, IpSource, Kubernetes, NotFound, Page, PrimaryKey, Profile, Provider,
    ProvisioningState, Quota, Readiness, SecondaryResources, Spec, Target, reason,
};
use serde_json::Value;

use config::Config;

/// As it describes itself.
const NAME: &str = "{{name}}";

/// The provider, over whatever it is lent: in a component that is `provider_sdk::Imports`, in a
/// test whatever stands there.
pub struct PodProvider<H> {
    host: H,
}

impl<H> From<H> for PodProvider<H> {
    fn from(host: H) -> Self {
        Self { host }
    }
}

impl<H: Context> PodProvider<H> {
    /// The config that `configure` accepted: a fresh instance has forgotten it.
    fn config(&self) -> Result<Config, Error> {
        Config::read(&self.host.config()).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Error::permanent(
                reason::CONFIG,
                format!("the entry's config is at fault: {}", faults.join("; ")),
            )
        })
    }
}

impl<H: Context + Clock + Kubernetes> Provider for PodProvider<H> {
    fn describe() -> Description {
        Description {
            name: NAME,
            version: env!("CARGO_PKG_VERSION"),
            profile: Profile {
                readiness: Readiness::Immediate,
                ip_source: IpSource::AssignedAtCreate,
                gc_mark: GcMark::NativeLabels,
                created_at: CreatedAt::BackendTimestamp,
                quota: Quota::Detected,
                not_found: NotFound::Status404,
                primary_key: PrimaryKey::NameIsKey,
                provisioning_state: ProvisioningState::Native,
                secondary_resources: SecondaryResources::Explicit,
                backend_test: BackendTest::ClusterE2e,
            },
            config_schema: include_str!("config.schema.json"),
        }
    }

    fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
        Config::read(config).map(|config| vec![config.cluster])
    }

    fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        steps::create(&self.host, &self.config()?, target, spec, user_data)
    }

    fn get(&self, target: &Target) -> Result<Instance, Error> {
        steps::get(&self.host, &self.config()?, target)
    }

    fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        steps::delete(&self.host, &self.config()?, target)
    }

    fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        list::list(&self.host, &self.config()?, place, cursor)
    }

    fn check(&self, place: &str) -> Health {
        check::check(&self.host, self.config(), place)
    }
}

provider_sdk::export!(PodProvider<provider_sdk::Imports>);
