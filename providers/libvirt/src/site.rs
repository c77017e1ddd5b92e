//! A host that is connected to: each call with the words for its failure, and what the grant fills in.

use provider_sdk::{
    Error, Libvirt,
    libvirt::{Connection, Failure},
    reason,
};

use crate::{config::HostConfig, failure::Asked};

/// virStoragePoolState.
pub const POOL_RUNNING: i32 = 2;

/// See the module.
pub struct Site<'h, H> {
    host: &'h H,
    config: &'h HostConfig,
    connection: Box<dyn Connection + 'h>,
}

impl<'h, H: Libvirt> Site<'h, H> {
    /// By the pooled connection.
    pub fn open(host: &'h H, config: &'h HostConfig) -> Result<Self, Error> {
        let asked = Asked { host: &config.name, what: "connect".to_owned() };
        let connection = host.open(&config.name, false).map_err(|failure| asked.error(&failure))?;
        Ok(Self { host, config, connection })
    }

    /// The host's name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What is lent beside it.
    pub fn lender(&self) -> &'h H {
        self.host
    }

    /// What is behind it.
    pub fn connection(&self) -> &dyn Connection {
        &*self.connection
    }

    /// A call, for messages.
    pub fn asked(&self, what: impl Into<String>) -> Asked<'_> {
        Asked { host: &self.config.name, what: what.into() }
    }

    /// Makes a call; its failure in words.
    pub fn call<T>(
        &self,
        what: impl FnOnce() -> String,
        call: impl FnOnce(&dyn Connection) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        call(&*self.connection).map_err(|failure| self.asked(what()).error(&failure))
    }

    /// What "not now" of something in a pool means: of one that is not active nothing else is said.
    pub fn of_the_pool(&self, pool: &str, error: Error) -> Error {
        if error.reason != reason::BUSY {
            return error;
        }
        match self.connection.pool_info(pool) {
            Ok(info) if info.state != POOL_RUNNING => self.inactive(pool, info.state),
            _ => error,
        }
    }

    /// The pool does not run.
    pub fn inactive(&self, pool: &str, state: i32) -> Error {
        Error::permanent(
            "pool-not-active",
            format!(
                "host {}: the pool {pool} is not active (state {state}); start it there (virsh pool-start {pool})",
                self.config.name
            ),
        )
    }

    /// The pool that volumes stand in.
    pub fn pool(&self) -> Result<String, Error> {
        pool(self.host, self.config)
    }

    /// The bridge that machines are on.
    pub fn bridge(&self) -> Result<String, Error> {
        only(self.host, self.config, "bridge", &self.config.bridge, |allowed| allowed.bridges)
    }
}

/// The config's, or the only one that the grant has.
pub fn pool<H: Libvirt>(host: &H, config: &HostConfig) -> Result<String, Error> {
    only(host, config, "pool", &config.pool, |allowed| allowed.pools)
}

fn only<H: Libvirt>(
    host: &H,
    config: &HostConfig,
    what: &str,
    configured: &Option<String>,
    of: impl FnOnce(provider_sdk::libvirt::Allowed) -> Vec<String>,
) -> Result<String, Error> {
    if let Some(configured) = configured {
        return Ok(configured.clone());
    }
    let asked = Asked { host: &config.name, what: format!("look which {what} the grant has") };
    let all = of(host.granted(&config.name).map_err(|failure| asked.error(&failure))?);
    match all.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(Error::permanent(
            reason::CONFIG,
            format!(
                "host {}: the grant has {} {what}s ({}); name one as {what} of this host in the entry's config",
                config.name,
                all.len(),
                all.join(", ")
            ),
        )),
    }
}
