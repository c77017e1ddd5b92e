//! What a guest may ask of the host: context, clock, log and locks. Each capability has a file of its own.

use std::{sync::Arc, time::Duration};

use egress_contract::{MARK_INCARNATION, MARK_INSTALLATION, MARK_UID};
use wasmtime::component::{HasSelf, Linker, Resource};

use crate::{
    bindings::egress::provider::{clock, context, context::Verdict, locks, log, types},
    guest_log::Level,
    inert,
    locks::Held,
    state::State,
};

/// Links what every provider gets, WASI included.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    inert::link(linker)?;
    types::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    context::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    log::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    locks::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl types::Host for State {}

impl context::Host for State {
    fn config(&mut self) -> wasmtime::Result<String> {
        self.may_import("context.config")?;
        Ok(self.setup.config.clone())
    }

    fn entry(&mut self) -> wasmtime::Result<String> {
        self.may_import("context.entry")?;
        Ok(self.setup.entry.to_string())
    }

    fn installation(&mut self) -> wasmtime::Result<String> {
        self.may_import("context.installation")?;
        Ok(self.setup.installation.hash().to_owned())
    }

    fn mark(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.may_import("context.mark")?;
        Ok(self.identity.as_ref().map(|identity| identity.mark.clone()).unwrap_or_default())
    }

    fn installation_mark(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        self.may_import("context.installation-mark")?;
        Ok(self.setup.installation.installation_mark())
    }

    fn verify(&mut self, mark: Vec<(String, String)>) -> wasmtime::Result<Verdict> {
        self.may_import("context.verify")?;
        Ok(self.verdict(&mark))
    }

    fn remaining_ms(&mut self) -> wasmtime::Result<u32> {
        self.may_import("context.remaining-ms")?;
        Ok(u32::try_from(self.remaining().as_millis()).unwrap_or(u32::MAX))
    }
}

impl State {
    fn verdict(&self, mark: &[(String, String)]) -> Verdict {
        // A name that stands there twice with two values says nothing.
        let says = |name: &str, wanted: &str| {
            let mut values = mark.iter().filter(|(key, _)| key == name).peekable();
            values.peek().is_some() && values.all(|(_, value)| value == wanted)
        };
        if says(MARK_INSTALLATION, self.setup.installation.hash()) {
            let ours = self.identity.as_ref().is_some_and(|identity| {
                !identity.uid.is_empty()
                    && says(MARK_UID, &identity.uid)
                    && says(MARK_INCARNATION, &identity.incarnation.to_string())
            });
            return if ours { Verdict::ThisTarget } else { Verdict::ThisInstallation };
        }
        let legacy = |set: &Vec<(String, String)>| {
            !set.is_empty() && set.iter().all(|(name, value)| says(name, value))
        };
        if self.setup.legacy.iter().any(legacy) { Verdict::Legacy } else { Verdict::Foreign }
    }
}

impl clock::Host for State {
    fn now_ms(&mut self) -> wasmtime::Result<u64> {
        self.may_import("clock.now-ms")?;
        Ok(self.setup.clock.now_ms())
    }

    fn monotonic_ms(&mut self) -> wasmtime::Result<u64> {
        self.may_import("clock.monotonic-ms")?;
        Ok(self.setup.clock.monotonic_ms())
    }

    async fn sleep_ms(&mut self, ms: u32) -> wasmtime::Result<()> {
        self.may_import("clock.sleep-ms")?;
        let time = Duration::from_millis(ms.into()).min(self.remaining());
        let (meter, clock) = (Arc::clone(&self.meter), Arc::clone(&self.setup.clock));
        meter.wait("clock.sleep-ms".to_owned(), clock.sleep(time)).await;
        Ok(())
    }
}

impl log::Host for State {
    fn write(
        &mut self,
        level: log::Level,
        message: String,
        fields: Vec<(String, String)>,
    ) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Error => Level::Error,
            log::Level::Warn => Level::Warn,
            log::Level::Info => Level::Info,
            log::Level::Debug => Level::Debug,
            log::Level::Trace => Level::Trace,
        };
        self.log.write(level, &message, &fields);
        Ok(())
    }
}

impl locks::Host for State {}

impl locks::HostLock for State {
    async fn acquire(&mut self, name: String, wait_ms: u32) -> wasmtime::Result<Option<Resource<Held>>> {
        self.may_lock(&name)?;
        let wait = Duration::from_millis(wait_ms.into()).min(self.remaining());
        let (setup, meter) = (Arc::clone(&self.setup), Arc::clone(&self.meter));
        let locks = &setup.locks;
        let held = match locks.try_acquire(&name) {
            Some(held) => Some(held),
            None if wait.is_zero() => None,
            None => {
                let acquire = async {
                    tokio::select! {
                        biased;
                        held = locks.acquire(&name) => Some(held),
                        () = setup.clock.sleep(wait) => None,
                    }
                };
                meter.wait("locks.acquire".to_owned(), acquire).await
            }
        };
        let Some(held) = held else { return Ok(None) };
        self.locks_held += 1;
        Ok(Some(self.table.push(held)?))
    }

    async fn drop(&mut self, lock: Resource<Held>) -> wasmtime::Result<()> {
        self.locks_held = self.locks_held.saturating_sub(1);
        self.table.delete(lock)?;
        Ok(())
    }
}
