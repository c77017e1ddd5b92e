//! What the administrator of real hosts can do beside what an entry's grants lend.

use egress_sim::backend::Unable;

/// See the module.
pub trait Administrator: Send + Sync {
    /// Holds a domain, or lets it on.
    fn pause(&self, host: &str, domain: &str, paused: bool) -> Result<(), Unable>;
    /// Fills the pools up, or makes room again.
    fn fill_up(&self, host: &str, full: bool) -> Result<(), Unable>;
    /// Keeps domains from starting, or lets them.
    fn never_start(&self, host: &str, never: bool) -> Result<(), Unable>;
}

/// Nobody: what it would take is left untried.
pub struct Nobody;

impl Administrator for Nobody {
    fn pause(&self, _: &str, _: &str, _: bool) -> Result<(), Unable> {
        Err(nobody("pause a machine"))
    }

    fn fill_up(&self, _: &str, full: bool) -> Result<(), Unable> {
        if full { Err(nobody("fill a pool up")) } else { Ok(()) }
    }

    fn never_start(&self, _: &str, never: bool) -> Result<(), Unable> {
        if never { Err(nobody("keep machines from starting")) } else { Ok(()) }
    }
}

fn nobody(what: &str) -> Unable {
    Unable::NotHere(format!("no grant lets anybody {what}"))
}
