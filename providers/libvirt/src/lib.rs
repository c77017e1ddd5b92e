//! Egress proxies as virtual machines on libvirt hosts: what kvm and kvm2 share.
//!
//! An instance is a domain, an overlay volume of its own over a shared base image, and a seed ISO that
//! cloud-init reads. All three bear the target's name; the domain bears the mark in its metadata, written by the
//! call that defines it. Every call looks the domain up by name and goes on from what stands there; where it
//! has used up its time it answers pending, and says in the progress where to go on.
//!
//! What goes over the wire is written in [`domain`] and [`volume`], read by [`xml`]; steps stand in [`create`]
//! and [`image`]; failures are classified in [`failure`] by stage and code, never by words.

mod check;
mod config;
mod create;
mod delete;
mod domain;
mod failure;
mod get;
mod id;
mod image;
mod list;
mod machine;
mod mark;
mod seed;
mod site;
mod volume;
mod xml;

use std::marker::PhantomData;

pub use provider_sdk::libvirt;
use provider_sdk::{
    BackendTest, Clock, Context, Created, CreatedAt, Deleted, Description, Error, Fault, GcMark, Health,
    Instance, IpSource, Libvirt, Locks, Log, NotFound, Page, PrimaryKey, Profile, Provider,
    ProvisioningState, Quota, Readiness, SecondaryResources, Spec, Target, Transfer, libvirt::Source, reason,
};
use serde_json::Value;

use config::Config;

/// What tells the two components apart.
pub trait Flavour {
    /// The provider's own name.
    const NAME: &'static str;
    /// SemVer.
    const VERSION: &'static str;
    /// Of the metadata element that bears the mark.
    const NAMESPACE: &'static str;
    /// The other component's: a machine of its can be taken over.
    const SIBLING: &'static str;
    /// Whom to ask for addresses, in this order.
    const SOURCES: [Source; 3];
}

/// What the provider is lent, in one word.
pub trait Host: Context + Clock + Log + Locks + Libvirt + Transfer {}
impl<T: Context + Clock + Log + Locks + Libvirt + Transfer> Host for T {}

/// The provider, over whatever it is lent.
#[derive(Clone, Copy, Debug)]
pub struct LibvirtProvider<H, F> {
    host: H,
    flavour: PhantomData<F>,
}

impl<H, F> From<H> for LibvirtProvider<H, F> {
    fn from(host: H) -> Self {
        Self { host, flavour: PhantomData }
    }
}

/// What is the same for every call of one component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub namespace: &'static str,
    pub sibling: &'static str,
    pub sources: [Source; 3],
}

impl<H: Context, F: Flavour> LibvirtProvider<H, F> {
    const WAYS: Ways = Ways { namespace: F::NAMESPACE, sibling: F::SIBLING, sources: F::SOURCES };

    /// The config that this call runs on: a fresh instance has forgotten what `configure` read.
    fn config(&self) -> Result<Config, Error> {
        Config::read(&self.host.config()).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            Error::permanent(
                reason::CONFIG,
                format!("the entry's config is not one for {}: {}", F::NAME, faults.join("; ")),
            )
        })
    }
}

impl<H: Host, F: Flavour> Provider for LibvirtProvider<H, F> {
    fn describe() -> Description {
        Description {
            name: F::NAME,
            version: F::VERSION,
            profile: Profile {
                readiness: Readiness::ProvisioningWindow,
                ip_source: IpSource::Discovered,
                gc_mark: GcMark::WrittenMetadata,
                created_at: CreatedAt::WrittenAtCreate,
                quota: Quota::Detected,
                not_found: NotFound::ErrorCode,
                primary_key: PrimaryKey::NameIsKey,
                provisioning_state: ProvisioningState::NoAddress,
                secondary_resources: SecondaryResources::Explicit,
                backend_test: BackendTest::LabE2e,
            },
            config_schema: include_str!("config.schema.json"),
        }
    }

    fn configure(config: &Value) -> Result<Vec<String>, Vec<Fault>> {
        Config::read(config).map(|config| config.hosts.into_iter().map(|host| host.name).collect())
    }

    fn create(&self, target: &Target, spec: &Spec, user_data: &[u8]) -> Result<Created, Error> {
        create::create(&self.host, &Self::WAYS, &self.config()?, target, spec, user_data)
    }

    fn get(&self, target: &Target) -> Result<Instance, Error> {
        get::get(&self.host, &Self::WAYS, &self.config()?, target)
    }

    fn delete(&self, target: &Target) -> Result<Deleted, Error> {
        delete::delete(&self.host, &Self::WAYS, &self.config()?, target)
    }

    fn list(&self, place: &str, cursor: Option<&str>) -> Result<Page, Error> {
        list::list(&self.host, &Self::WAYS, &self.config()?, place, cursor)
    }

    fn check(&self, place: &str) -> Health {
        check::check(&self.host, self.config(), place)
    }
}
