//! Egress proxies as Pods.
//!
//! An instance is a Pod that runs Squid and a ConfigMap of the same name that holds its configuration.
//! Every call reads what stands at the instance's name, decides from that alone, and makes at most one
//! step; so a call that was cut off is taken up by the next one, whoever makes it. What it decides stands
//! in [`decide`] as tables; what it reads in [`observe`]; what it makes in [`manifest`] and [`squid`].

mod api;
mod check;
mod config;
mod create;
mod decide;
mod delete;
mod failure;
mod id;
mod list;
mod manifest;
mod networks;
mod observe;
mod squid;

#[cfg(test)]
mod tests;

use provider_sdk::{
    BackendTest, Clock, Context, Created, CreatedAt, Deleted, Description, Error, Fault, GcMark, Health,
    Instance, IpSource, Kubernetes, NotFound, Page, PrimaryKey, Profile, Provider, ProvisioningState, Quota,
    Readiness, SecondaryResources, Spec, Target, reason,
};
use serde_json::Value;

use config::Config;

/// A build can be told apart from others of the same source, as a release or a test of swaps needs it.
const VERSION: &str = match option_env!("PROVIDER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The provider, over whatever it is lent.
#[derive(Clone, Copy, Debug)]
pub struct KubernetesProvider<H> {
    host: H,
}

impl<H> From<H> for KubernetesProvider<H> {
    fn from(host: H) -> Self {
        Self { host }
    }
}

impl<H: Context> KubernetesProvider<H> {
    /// The config that this call runs on: a fresh instance has forgotten what `configure` read.
    fn config(&self) -> Result<Config, Error> {
        Config::read(&self.host.config()).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Error::permanent(
                reason::CONFIG,
                format!("the entry's config is not one for this provider: {}", faults.join("; ")),
            )
        })
    }
}

impl<H: Context + Clock + Kubernetes> Provider for KubernetesProvider<H> {
    fn describe() -> Description {
        Description {
            name: "kubernetes",
            version: VERSION,
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
        create::create(&self.host, &self.config()?, target, spec, user_data)
    }

    fn get(&self, target: &Target) -> Result<Instance, Error> {
        let config = self.config()?;
        let at = id::Location::of(target, &config)?;
        decide::get(&at, &api::pod(&self.host, &at)?, &self.host.mark())
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
provider_sdk::export!(KubernetesProvider<provider_sdk::Imports>);
