//! A [`Provider`] as the exports of a component.

use std::{marker::PhantomData, sync::Once};

use serde_json::{Map, Value};

use crate::{
    CONTRACT_VERSION,
    bindings::{egress::provider::types as wit, exports::egress::provider::provider::Guest},
    config::Fault,
    error::{Error, ErrorClass, reason},
    host::{Level, Log},
    imports::Imports,
    provider::Provider,
    types::{Address, Created, Deleted, Health, Instance, Item, Page, Pending, Spec, State, Target},
};

/// What [`export!`](crate::export) exports.
pub struct Component<P>(PhantomData<P>);

impl<P: Provider + From<Imports> + 'static> Guest for Component<P> {
    fn describe() -> wit::Description {
        let description = P::describe();
        wit::Description {
            name: description.name.to_owned(),
            version: description.version.to_owned(),
            contract: CONTRACT_VERSION.to_owned(),
            profile: serde_json::to_string(&description.profile).unwrap_or_else(|_| "{}".to_owned()),
            config_schema: description.config_schema.to_owned(),
        }
    }

    fn configure(config: String) -> Result<Vec<String>, Vec<wit::Fault>> {
        log_panics();
        let config = serde_json::from_str(&config)
            .map_err(|error| vec![Fault::new("", format!("the config is no JSON: {error}"))]);
        config
            .and_then(|config| P::configure(&config))
            .map_err(|faults| faults.into_iter().map(fault).collect())
    }

    fn create(target: wit::Target, spec: String, user_data: Vec<u8>) -> Result<wit::Created, wit::Error> {
        log_panics();
        let spec: Spec = serde_json::from_str(&spec).map_err(|cause| {
            error(Error::permanent(
                reason::UNSUPPORTED,
                format!("the spec can't be read: {cause}; use a provider that was built for this operator"),
            ))
        })?;
        match P::from(Imports).create(&read_target(target), &spec, &user_data).map_err(error)? {
            Created::Done(id) => Ok(wit::Created::Done(id)),
            Created::Pending(step) => Ok(wit::Created::Pending(pending(step))),
        }
    }

    fn get(target: wit::Target) -> Result<wit::Instance, wit::Error> {
        log_panics();
        P::from(Imports).get(&read_target(target)).map(instance).map_err(error)
    }

    fn delete(target: wit::Target) -> Result<wit::Deleted, wit::Error> {
        log_panics();
        match P::from(Imports).delete(&read_target(target)).map_err(error)? {
            Deleted::Done => Ok(wit::Deleted::Done),
            Deleted::Pending(step) => Ok(wit::Deleted::Pending(pending(step))),
        }
    }

    fn list(place: String, cursor: Option<String>) -> Result<wit::Page, wit::Error> {
        log_panics();
        P::from(Imports).list(&place, cursor.as_deref()).map(page).map_err(error)
    }

    fn check(place: String) -> wit::Health {
        log_panics();
        health(P::from(Imports).check(&place))
    }
}

/// A guest's panic ends in `unreachable`: its text is lost unless it goes to the log first.
fn log_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            Imports.write(Level::Error, "the provider panicked", &[("panic", &panic.to_string())]);
        }));
    });
}

fn read_target(target: wit::Target) -> Target {
    Target {
        name: target.name,
        uid: target.uid,
        incarnation: target.incarnation,
        namespace: target.namespace,
        proxy: target.proxy,
        id: target.id,
        progress: target.progress,
    }
}

fn object(map: Map<String, Value>) -> String {
    Value::Object(map).to_string()
}

fn fault(fault: Fault) -> wit::Fault {
    wit::Fault { path: fault.path, message: fault.message }
}

fn error(error: Error) -> wit::Error {
    let class = match error.class {
        ErrorClass::NotFound => wit::ErrorClass::NotFound,
        ErrorClass::Transient => wit::ErrorClass::Transient,
        ErrorClass::Permanent => wit::ErrorClass::Permanent,
        ErrorClass::QuotaExceeded => wit::ErrorClass::QuotaExceeded,
    };
    wit::Error {
        class,
        reason: error.reason,
        message: error.message,
        retry_ms: error.retry_ms,
        details: object(error.details),
        progress: error.progress,
    }
}

fn pending(pending: Pending) -> wit::Pending {
    wit::Pending {
        id: pending.id,
        progress: pending.progress,
        poll_ms: pending.poll_ms,
        message: pending.message,
    }
}

fn instance(instance: Instance) -> wit::Instance {
    let state = match instance.state {
        State::Provisioning => wit::State::Provisioning,
        State::Running => wit::State::Running,
        State::Stopped => wit::State::Stopped,
        State::Deleting => wit::State::Deleting,
    };
    let address = |Address { kind, ip }| wit::Address { kind: kind.as_str().to_owned(), ip };
    wit::Instance {
        id: instance.id,
        state,
        addresses: instance.addresses.into_iter().map(address).collect(),
        mark: instance.mark,
        created_ms: instance.created_ms,
        reason: instance.reason,
        message: instance.message,
        details: object(instance.details),
    }
}

fn page(page: Page) -> wit::Page {
    let item = |item: Item| wit::Item {
        id: item.id,
        name: item.name,
        leftover: item.leftover,
        mark: item.mark,
        created_ms: item.created_ms,
    };
    wit::Page { items: page.items.into_iter().map(item).collect(), unread: page.unread, next: page.next }
}

fn health(health: Health) -> wit::Health {
    wit::Health {
        ready: health.ready,
        reason: health.reason.as_str().to_owned(),
        message: health.message,
        details: object(health.details),
    }
}
