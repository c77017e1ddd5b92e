//! Egress proxies as virtual machines of Google Compute Engine.
//!
//! An instance is a VM of the target's name in one zone, with a boot disk that goes with it; its mark stands in its
//! labels, written by the very insert. Whatever Compute Engine works on is an operation, and the operation is the
//! progress: so a quota, a stockout or a bad image comes back as itself, seconds after the insert was accepted. Each
//! write bears a request id that is derived from the target, so that one that is sent again does nothing twice.
//!
//! What is asked stands in [`api`], what an answer means in [`failure`] and [`operation`], what a VM shows in
//! [`instance`], what is sent in [`body`].

mod address;
mod api;
mod body;
mod check;
mod config;
mod create;
mod delete;
mod failure;
mod firewall;
mod get;
mod id;
mod image;
mod instance;
mod list;
mod mark;
mod operation;
mod placement;
mod progress;
mod request_id;

use provider_sdk::{
    BackendTest, Clock, Context, Created, CreatedAt, Deleted, Description, Error, Fault, GcMark, Health,
    Http, Instance, IpSource, NotFound, Page, PrimaryKey, Profile, Provider, ProvisioningState, Quota,
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
pub trait Host: Context + Clock + Http {}
impl<T: Context + Clock + Http> Host for T {}

/// The provider, over whatever it is lent.
#[derive(Clone, Copy, Debug)]
pub struct GcpProvider<H> {
    host: H,
}

impl<H> From<H> for GcpProvider<H> {
    fn from(host: H) -> Self {
        Self { host }
    }
}

impl<H: Context> GcpProvider<H> {
    /// The config that this call runs on: a fresh instance has forgotten what `configure` read.
    fn config(&self) -> Result<Config, Error> {
        Config::read(&self.host.config()).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Error::permanent(
                reason::CONFIG,
                format!("the entry's config is not one for gcp: {}", faults.join("; ")),
            )
        })
    }
}

impl<H: Host> Provider for GcpProvider<H> {
    fn describe() -> Description {
        Description {
            name: "gcp",
            version: VERSION,
            profile: Profile {
                readiness: Readiness::ProvisioningWindow,
                ip_source: IpSource::AssignedAtCreate,
                gc_mark: GcMark::NativeLabels,
                created_at: CreatedAt::BackendTimestamp,
                quota: Quota::Detected,
                not_found: NotFound::Status404,
                primary_key: PrimaryKey::NameIsKey,
                provisioning_state: ProvisioningState::Native,
                secondary_resources: SecondaryResources::Cascade,
                backend_test: BackendTest::ManualRunbook,
            },
            config_schema: include_str!("config.schema.json"),
        }
    }

    fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
        Config::read(config).map(|config| vec![config.project])
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
provider_sdk::export!(GcpProvider<provider_sdk::Imports>);
