//! The contract's exports: what goes in, what comes out, and whether it may.

use std::{net::IpAddr, time::Duration};

use egress_contract::{
    Address, CONTRACT_VERSION, Created, Deleted, Description, Error, ErrorClass, Fault, Health, Instance,
    InstanceName, Item, Page, Pending, Spec, State as InstanceState, Target,
};
use serde_json::Value;
use wasmtime::Store;

use crate::{
    bindings::{ProviderComponent, egress::provider::types as wire},
    failure::Failure,
    guest_log::cut,
    inspect,
    limits::Limit,
    scrub::Scrubber,
    state::State,
    telemetry::OperationName,
};

const LONGEST_PROGRESS: usize = 4096;
const LONGEST_ID: usize = 1024;
const LONGEST_MESSAGE: usize = 4096;
const MOST_FAULTS: usize = 100;
const MOST_PLACES: usize = 1_000;
const LONGEST_REASON: usize = 64;
const POLL_MS: std::ops::RangeInclusive<u32> = 100..=300_000;
/// What one item or pair takes apart from its text.
const ITEM_BYTES: u64 = 32;

/// One of the contract's exports.
pub(crate) trait Operation: Send + Sync {
    type Raw: Send;
    type Answer: Send;

    const NAME: OperationName;
    /// Its wall time.
    const WALL: Limit;

    fn target(&self) -> Option<&Target> {
        None
    }

    fn place(&self) -> &str {
        ""
    }

    fn user_data(&self) -> &[u8] {
        &[]
    }

    fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Self::Raw>> + Send;

    /// Its size as the limit on answers counts it.
    fn size(raw: &Self::Raw) -> u64;

    /// In the contract's types, if the guest keeps the contract.
    fn answer(&self, raw: Self::Raw, scrubber: Option<&Scrubber>) -> Result<Self::Answer, Failure>;
}

fn broken<T>(what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Violation(what.into()))
}

fn id(id: String) -> Result<String, Failure> {
    if id.is_empty() || id.len() > LONGEST_ID || id.contains(char::is_control) {
        return broken(format!(
            "an id must have 1 to {LONGEST_ID} printable bytes; one of {} was answered",
            id.len()
        ));
    }
    Ok(id)
}

fn object(json: &str, what: &str) -> Result<Value, Failure> {
    match serde_json::from_str(json) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => broken(format!("{what} must be a JSON object")),
        Err(error) => broken(format!("{what} must be a JSON object: {error}")),
    }
}

fn is_reason(reason: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_REASON).contains(&reason.len()) && reason.bytes().all(allowed)
}

fn error(raw: wire::Error, operation: OperationName, scrubber: Option<&Scrubber>) -> Failure {
    let class = match raw.class {
        wire::ErrorClass::NotFound => ErrorClass::NotFound,
        wire::ErrorClass::Transient => ErrorClass::Transient,
        wire::ErrorClass::Permanent => ErrorClass::Permanent,
        wire::ErrorClass::QuotaExceeded => ErrorClass::QuotaExceeded,
    };
    let clean = |text: String| clean(text, scrubber);
    let message = words(raw.message, scrubber);
    if class == ErrorClass::NotFound && operation != OperationName::Get {
        return Failure::Violation(format!("{} may not answer not-found ({message})", operation.as_str()));
    }
    if !is_reason(&raw.reason) {
        let what = format!("an error's reason must match [a-z0-9-]{{1,{LONGEST_REASON}}} ({message})");
        return Failure::Violation(what);
    }
    let settled = || {
        let progress = raw.progress.map(|progress| self::progress(progress, scrubber)).transpose()?;
        Ok(Error {
            class,
            reason: clean(raw.reason),
            message,
            retry_after: raw.retry_ms.map(|ms| Duration::from_millis(ms.into())),
            details: clean_json(object(&raw.details, "an error's details")?, scrubber),
            progress: progress.map(String::into_boxed_str),
        })
    };
    settled().map_or_else(|failure| failure, Failure::Provider)
}

fn progress(progress: String, scrubber: Option<&Scrubber>) -> Result<String, Failure> {
    if progress.len() > LONGEST_PROGRESS {
        return broken(format!(
            "progress may have {LONGEST_PROGRESS} bytes; {} were answered",
            progress.len()
        ));
    }
    Ok(clean(progress, scrubber))
}

/// What people read: one line, not longer than a status can bear. A guest can't forge a log's lines with it.
fn words(text: String, scrubber: Option<&Scrubber>) -> String {
    // Struck out before it is cut: half a line of user-data would not be found.
    let text = clean(text, scrubber);
    let printable = |letter: char| if letter.is_control() { ' ' } else { letter };
    cut(&text, LONGEST_MESSAGE).chars().map(printable).collect()
}

fn clean(mut text: String, scrubber: Option<&Scrubber>) -> String {
    if let Some(scrubber) = scrubber {
        scrubber.string(&mut text);
    }
    text
}

fn clean_json(mut value: Value, scrubber: Option<&Scrubber>) -> Value {
    if let Some(scrubber) = scrubber {
        scrubber.json(&mut value);
    }
    value
}

fn pending(raw: wire::Pending, scrubber: Option<&Scrubber>) -> Result<Pending, Failure> {
    Ok(Pending {
        id: raw.id.map(id).transpose()?.map(|id| clean(id, scrubber)),
        progress: progress(raw.progress, scrubber)?,
        poll: Duration::from_millis(raw.poll_ms.clamp(*POLL_MS.start(), *POLL_MS.end()).into()),
        message: words(raw.message, scrubber),
    })
}

fn size(texts: &[&str]) -> u64 {
    texts.iter().map(|text| text.len() as u64).sum()
}

fn size_of_pairs(pairs: &[(String, String)]) -> u64 {
    pairs.iter().map(|(name, value)| ITEM_BYTES + size(&[name, value])).sum()
}

fn size_of_pending(pending: &wire::Pending) -> u64 {
    size(&[pending.id.as_deref().unwrap_or_default(), &pending.progress, &pending.message])
}

fn size_of_error(error: &wire::Error) -> u64 {
    size(&[&error.reason, &error.message, &error.details, error.progress.as_deref().unwrap_or_default()])
}

fn target(target: &Target) -> wire::Target {
    wire::Target {
        name: target.name.to_string(),
        uid: target.uid.clone(),
        incarnation: target.incarnation,
        namespace: target.namespace.clone(),
        proxy: target.proxy.clone(),
        id: target.id.clone(),
        progress: target.progress.clone(),
    }
}

pub(crate) struct Describe;

impl Operation for Describe {
    type Raw = wire::Description;
    type Answer = Description;
    const NAME: OperationName = OperationName::Describe;
    const WALL: Limit = Limit::ConfigureMs;

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        component.egress_provider_provider().call_describe(store).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        size(&[&raw.name, &raw.version, &raw.contract, &raw.profile, &raw.config_schema])
    }

    fn answer(&self, raw: Self::Raw, _: Option<&Scrubber>) -> Result<Description, Failure> {
        if !is_reason(&raw.name) {
            return broken(format!("a provider's name must match [a-z0-9-]{{1,{LONGEST_REASON}}}"));
        }
        let plain = raw.version.split(['-', '+']).next().unwrap_or_default();
        if inspect::numbers(plain).is_none() || raw.version.len() > LONGEST_REASON {
            return broken(format!("its version must be SemVer, as 1.2.3, not {:?}", raw.version));
        }
        if !inspect::same_line(&raw.contract, CONTRACT_VERSION) {
            return broken(format!(
                "it says that it was built against the contract {:?}, and exports {CONTRACT_VERSION}",
                raw.contract
            ));
        }
        Ok(Description {
            name: raw.name,
            version: raw.version,
            contract: raw.contract,
            profile: object(&raw.profile, "the profile")?,
            config_schema: object(&raw.config_schema, "the config's schema")?,
        })
    }
}

pub(crate) struct Configure<'a> {
    pub(crate) config: &'a String,
}

impl Operation for Configure<'_> {
    type Raw = Result<Vec<String>, Vec<wire::Fault>>;
    type Answer = Result<Vec<String>, Vec<Fault>>;
    const NAME: OperationName = OperationName::Configure;
    const WALL: Limit = Limit::ConfigureMs;

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        component.egress_provider_provider().call_configure(store, self.config).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        match raw {
            Ok(places) => places.iter().map(|place| ITEM_BYTES + size(&[place])).sum(),
            Err(faults) => faults.iter().map(|fault| ITEM_BYTES + size(&[&fault.path, &fault.message])).sum(),
        }
    }

    fn answer(&self, raw: Self::Raw, _: Option<&Scrubber>) -> Result<Self::Answer, Failure> {
        match raw {
            Err(faults) if faults.is_empty() => broken("it refused the config without a fault"),
            Err(faults) => {
                let fault = |fault: wire::Fault| Fault {
                    path: words(fault.path, None),
                    message: words(fault.message, None),
                };
                Ok(Err(faults.into_iter().take(MOST_FAULTS).map(fault).collect()))
            }
            Ok(places) => {
                if places.len() > MOST_PLACES {
                    return broken(format!("an entry may have {MOST_PLACES} places, not {}", places.len()));
                }
                let mut known = std::collections::HashSet::new();
                for place in &places {
                    if place.is_empty() || place.len() > LONGEST_ID || !known.insert(place.as_str()) {
                        return broken(format!("a place is empty, too long, or named twice: {place:?}"));
                    }
                }
                Ok(Ok(places))
            }
        }
    }
}

pub(crate) struct Create<'a> {
    pub(crate) target: &'a Target,
    pub(crate) spec: &'a Spec,
    pub(crate) user_data: &'a [u8],
}

impl Operation for Create<'_> {
    type Raw = Result<wire::Created, wire::Error>;
    type Answer = Created;
    const NAME: OperationName = OperationName::Create;
    const WALL: Limit = Limit::CreateMs;

    fn target(&self) -> Option<&Target> {
        Some(self.target)
    }

    fn user_data(&self) -> &[u8] {
        self.user_data
    }

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        let spec = serde_json::to_string(self.spec).map_err(wasmtime::Error::new)?;
        let guest = component.egress_provider_provider();
        guest.call_create(store, &target(self.target), &spec, self.user_data).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        match raw {
            Ok(wire::Created::Done(id)) => size(&[id]),
            Ok(wire::Created::Pending(pending)) => size_of_pending(pending),
            Err(error) => size_of_error(error),
        }
    }

    fn answer(&self, raw: Self::Raw, scrubber: Option<&Scrubber>) -> Result<Created, Failure> {
        match raw {
            Ok(wire::Created::Done(done)) => Ok(Created::Done(clean(id(done)?, scrubber))),
            Ok(wire::Created::Pending(raw)) => Ok(Created::Pending(pending(raw, scrubber)?)),
            Err(raw) => Err(error(raw, Self::NAME, scrubber)),
        }
    }
}

pub(crate) struct Get<'a> {
    pub(crate) target: &'a Target,
}

impl Operation for Get<'_> {
    type Raw = Result<wire::Instance, wire::Error>;
    type Answer = Instance;
    const NAME: OperationName = OperationName::Get;
    const WALL: Limit = Limit::GetMs;

    fn target(&self) -> Option<&Target> {
        Some(self.target)
    }

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        component.egress_provider_provider().call_get(store, &target(self.target)).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        match raw {
            Ok(instance) => {
                let addresses = instance.addresses.iter();
                let addresses: u64 = addresses.map(|one| ITEM_BYTES + size(&[&one.kind, &one.ip])).sum();
                size(&[&instance.id, &instance.reason, &instance.message, &instance.details])
                    + size_of_pairs(&instance.mark)
                    + addresses
            }
            Err(error) => size_of_error(error),
        }
    }

    fn answer(&self, raw: Self::Raw, scrubber: Option<&Scrubber>) -> Result<Instance, Failure> {
        let raw = raw.map_err(|raw| error(raw, Self::NAME, scrubber))?;
        let state = match raw.state {
            wire::State::Provisioning => InstanceState::Provisioning,
            wire::State::Running => InstanceState::Running,
            wire::State::Stopped => InstanceState::Stopped,
            wire::State::Deleting => InstanceState::Deleting,
        };
        if state == InstanceState::Running && raw.addresses.is_empty() {
            return broken("an instance was said to be running without an address");
        }
        let address = |raw: wire::Address| match (raw.kind.as_str(), raw.ip.parse::<IpAddr>()) {
            ("internal" | "external", Ok(_)) => Ok(Address { kind: raw.kind, ip: raw.ip }),
            ("internal" | "external", Err(_)) => {
                broken(format!("an address must be an IP, not {:?}", raw.ip))
            }
            _ => broken(format!("an address must be internal or external, not {:?}", raw.kind)),
        };
        Ok(Instance {
            id: id(raw.id)?,
            state,
            addresses: raw.addresses.into_iter().map(address).collect::<Result<_, _>>()?,
            mark: raw.mark,
            created_ms: raw.created_ms,
            reason: words(raw.reason, None),
            message: words(raw.message, None),
            details: object(&raw.details, "an instance's details")?,
        })
    }
}

pub(crate) struct Delete<'a> {
    pub(crate) target: &'a Target,
}

impl Operation for Delete<'_> {
    type Raw = Result<wire::Deleted, wire::Error>;
    type Answer = Deleted;
    const NAME: OperationName = OperationName::Delete;
    const WALL: Limit = Limit::DeleteMs;

    fn target(&self) -> Option<&Target> {
        Some(self.target)
    }

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        component.egress_provider_provider().call_delete(store, &target(self.target)).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        match raw {
            Ok(wire::Deleted::Done) => 0,
            Ok(wire::Deleted::Pending(pending)) => size_of_pending(pending),
            Err(error) => size_of_error(error),
        }
    }

    fn answer(&self, raw: Self::Raw, scrubber: Option<&Scrubber>) -> Result<Deleted, Failure> {
        match raw {
            Ok(wire::Deleted::Done) => Ok(Deleted::Done),
            Ok(wire::Deleted::Pending(raw)) => Ok(Deleted::Pending(pending(raw, scrubber)?)),
            Err(raw) => Err(error(raw, Self::NAME, scrubber)),
        }
    }
}

pub(crate) struct List<'a> {
    pub(crate) place: &'a str,
    pub(crate) cursor: Option<&'a str>,
}

impl Operation for List<'_> {
    type Raw = Result<wire::Page, wire::Error>;
    type Answer = Page;
    const NAME: OperationName = OperationName::List;
    const WALL: Limit = Limit::ListMs;

    fn place(&self) -> &str {
        self.place
    }

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        component.egress_provider_provider().call_list(store, self.place, self.cursor).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        match raw {
            Ok(page) => {
                let item = |item: &wire::Item| {
                    ITEM_BYTES
                        + size(&[&item.id, &item.name, item.leftover.as_deref().unwrap_or_default()])
                        + size_of_pairs(&item.mark)
                };
                let items: u64 = page.items.iter().map(item).sum();
                let unread: u64 = page.unread.iter().map(|text| ITEM_BYTES + size(&[text])).sum();
                items + unread + size(&[page.next.as_deref().unwrap_or_default()])
            }
            Err(error) => size_of_error(error),
        }
    }

    fn answer(&self, raw: Self::Raw, scrubber: Option<&Scrubber>) -> Result<Page, Failure> {
        let raw = raw.map_err(|raw| error(raw, Self::NAME, scrubber))?;
        if raw.next.is_some() && raw.next.as_deref() == self.cursor {
            return broken("a page of list leads to itself");
        }
        let unread = raw.unread.into_iter().map(|what| words(what, None)).collect();
        let mut page = Page { items: Vec::new(), unread, next: raw.next };
        for item in raw.items {
            // One that can't be told is left alone, and the rest of the page stays good.
            if InstanceName::read_back(&item.name).is_err() || id(item.id.clone()).is_err() {
                let what = format!("{:?}: its name {:?} is none of ours", item.id, item.name);
                page.unread.push(words(what, None));
                continue;
            }
            page.items.push(Item {
                id: item.id,
                name: item.name,
                leftover: item.leftover,
                mark: item.mark,
                created_ms: item.created_ms,
            });
        }
        Ok(page)
    }
}

pub(crate) struct Check<'a> {
    pub(crate) place: &'a str,
}

impl Operation for Check<'_> {
    type Raw = wire::Health;
    type Answer = Health;
    const NAME: OperationName = OperationName::Check;
    const WALL: Limit = Limit::CheckMs;

    fn place(&self) -> &str {
        self.place
    }

    async fn call(
        &self,
        component: &ProviderComponent,
        store: &mut Store<State>,
    ) -> wasmtime::Result<Self::Raw> {
        component.egress_provider_provider().call_check(store, self.place).await
    }

    fn size(raw: &Self::Raw) -> u64 {
        size(&[&raw.reason, &raw.message, &raw.details])
    }

    fn answer(&self, raw: Self::Raw, _: Option<&Scrubber>) -> Result<Health, Failure> {
        if !is_reason(&raw.reason) {
            return broken(format!("a health's reason must match [a-z0-9-]{{1,{LONGEST_REASON}}}"));
        }
        Ok(Health {
            ready: raw.ready,
            reason: raw.reason,
            message: words(raw.message, None),
            details: object(&raw.details, "a health's details")?,
        })
    }
}
