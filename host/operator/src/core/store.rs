//! What the loops need of the world: where Proxies are kept, and which providers there are.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use egress_contract::Provider;

use crate::{
    api::{ProxySpec, ProxyStatus},
    core::{
        budget::{Recoveries, ReplaceConfig},
        canary::Canary,
        former::{Former, Whole},
        probe::HealthConfig,
    },
};

/// Which Proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProxyKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A Proxy as it was read live.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyRecord {
    /// Which.
    pub key: ProxyKey,
    /// Never given twice.
    pub uid: String,
    /// Raised with every change of the spec.
    pub generation: i64,
    /// Opaque: a write with a stale one is refused.
    pub version: String,
    /// Somebody asked for its end.
    pub deleting: bool,
    /// Ours is on it.
    pub finalizer: bool,
    /// The retry annotation's value.
    pub retry: Option<String>,
    /// Its instance is to be left where it is when it goes.
    pub abandon: bool,
    /// The id of an earlier operator's instance that becomes its first.
    pub adopt: Option<String>,
    /// What is wanted.
    pub spec: ProxySpec,
    /// What became of it.
    pub status: ProxyStatus,
}

/// A write or read that failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else wrote first: read again.
    #[error("{0} was changed meanwhile")]
    Conflict(ProxyKey),
    /// It is gone.
    #[error("{0} is gone")]
    Gone(ProxyKey),
    /// Whether it happened is unknown: read again.
    #[error("{key}: {message}")]
    Failed {
        /// Which.
        key: ProxyKey,
        /// What happened.
        message: String,
    },
}

/// Why there is no user-data although the spec names some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The object or its key is missing: it may still come.
    #[error("{what} does not exist; create it, or change spec.cloudInit")]
    Missing {
        /// `Secret team-a/squid, key user-data`.
        what: String,
    },
    /// No object can have such a name. It is never asked for: in a path of the API it may mean another.
    #[error("{field} is {value:?}, but {rule}; change it")]
    Invalid {
        /// `spec.cloudInit.secretRef.name`.
        field: String,
        /// What stands there.
        value: String,
        /// What it must be like.
        rule: &'static str,
    },
    /// It could not be read now.
    #[error("can't read {what}: {message}")]
    Unread {
        /// As above.
        what: String,
        /// The cause.
        message: String,
    },
}

/// Something that people should see once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether something is wrong.
    pub warning: bool,
    /// CamelCase.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Where Proxies are kept.
#[async_trait]
pub trait Store: Send + Sync {
    /// Read live, never from a cache: what is missing here gets deleted.
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError>;

    /// Writes the status if the record is still the newest; answers the record as it is then.
    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError>;

    /// Puts our finalizer on, or takes it off. None when that was its end.
    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError>;

    /// What `spec.cloudInit` says; empty when it says nothing.
    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError>;

    /// Whether the kind itself is being removed, read live: then its Proxies go because of that, and not
    /// because somebody wants their instances gone.
    async fn is_kind_going(&self, record: &ProxyRecord) -> Result<bool, StoreError>;

    /// Tells people. Never fails the caller.
    async fn notify(&self, record: &ProxyRecord, notice: Notice);
}

/// What calls of one entry go to now.
#[derive(Clone)]
pub struct ActiveProvider {
    /// The very revision: a call that begins on it ends on it.
    pub provider: Arc<dyn Provider>,
    /// Its id.
    pub revision: String,
    /// Whether the entry still stands where people keep entries. What a removed one made is looked at and
    /// removed; nothing new is begun with it.
    pub listed: bool,
    /// How its instances are replaced.
    pub replace: ReplaceConfig,
    /// How they are probed, if the entry says so.
    pub health: Option<HealthConfig>,
    /// When its places came back.
    pub recoveries: Arc<Recoveries>,
    /// What looks after instances at places that the entry has no longer.
    pub former: Option<Arc<Former>>,
    /// What is to make the next Proxies, before it gets all calls.
    pub canary: Option<Arc<Canary>>,
}

impl ActiveProvider {
    /// As it is called about this Proxy's instance, which may stand where the active revision does not look. Before it
    /// is found out where, nothing is: a moment of a start is no failure of the Proxy's.
    pub fn for_instance(self, record: &ProxyRecord) -> Result<Self, Inactive> {
        let concerned =
            |former: &Arc<Former>| record.status.instance.as_ref().is_some_and(|i| former.concerns(i));
        match self.former.clone().filter(concerned) {
            Some(former) if former.asks => Err(Inactive::Starting),
            Some(former) => {
                let active = Arc::clone(&self.provider);
                Ok(Self { provider: Arc::new(Whole { active, former }), ..self })
            }
            None => Ok(self),
        }
    }
}

/// Why an entry can't be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inactive {
    /// There is no such entry, or it has no revision: the reason for people.
    Missing(String),
    /// It is not known yet, as in a process that has just begun: no word on the entry, which may have been
    /// active all along.
    Starting,
}

/// Which providers there are.
pub trait Providers: Send + Sync {
    /// What calls go to, or why they go nowhere.
    fn active(&self, entry: &str) -> Result<ActiveProvider, Inactive>;
}

#[async_trait]
impl<T: Store + ?Sized> Store for Arc<T> {
    async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
        (**self).get(key).await
    }

    async fn write_status(
        &self,
        record: &ProxyRecord,
        status: ProxyStatus,
    ) -> Result<ProxyRecord, StoreError> {
        (**self).write_status(record, status).await
    }

    async fn set_finalizer(&self, record: &ProxyRecord, on: bool) -> Result<Option<ProxyRecord>, StoreError> {
        (**self).set_finalizer(record, on).await
    }

    async fn user_data(&self, record: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
        (**self).user_data(record).await
    }

    async fn is_kind_going(&self, record: &ProxyRecord) -> Result<bool, StoreError> {
        (**self).is_kind_going(record).await
    }

    async fn notify(&self, record: &ProxyRecord, notice: Notice) {
        (**self).notify(record, notice).await;
    }
}

impl<T: Providers + ?Sized> Providers for Arc<T> {
    fn active(&self, entry: &str) -> Result<ActiveProvider, Inactive> {
        (**self).active(entry)
    }
}
