//! The backend: yours to write. Until then every call says so, and nothing is claimed that was not
//! done: a delete that answered `done` here would leave machines behind.
//!
//! What each call promises stands in wit/provider.wit. What keeps a step safe to be cut off:
//!
//! - Begin with what the backend shows. Progress saves a look; it is never the only way to find
//!   something.
//! - Write the mark (`host.mark()`) in the very call that makes the machine. What bears another
//!   mark, or none, is `reason::FOREIGN`, and is never touched.
//! - What a later call could not find out by itself is answered as pending, in the id or the
//!   progress, before anything is made with it.
//! - As soon as the backend works by itself, return `Pending`; never sleep until it is done.
//! - A failure is classified here, from the capability's typed answer. What is not understood is
//!   transient.

use provider_sdk::{
    Context, Created, Deleted, Error, Health, Instance, Page, Spec, Target, reason,
};

use crate::{NAME, config::Config, unready};

/// What is not written yet: take out what you have written.
const UNWRITTEN: [&str; 5] = ["create", "get", "delete", "list", "check"];

fn unwritten(call: &str) -> Error {
    Error::permanent(
        reason::UNSUPPORTED,
        format!("{NAME} can't {call} yet: it is to be written in src/backend.rs"),
    )
}

/// One step towards a machine that runs at `place`.
///
/// Look first. Nothing there: make it, marked. Foreign: permanent `foreign`. Ours and running:
/// `Done`. Ours and not yet: `Pending`. Standing still: start it. Paused by somebody: transient
/// `paused`. Being deleted: transient `deleting`. Can't be started again: permanent `finished`.
pub fn create<H: Context>(
    _host: &H,
    _config: &Config,
    _place: &str,
    _target: &Target,
    _spec: &Spec,
    _user_data: &[u8],
) -> Result<Created, Error> {
    Err(unwritten("create"))
}

/// What the backend shows now; `Error::not_found` only when it says that the machine is gone.
pub fn get<H: Context>(_host: &H, _config: &Config, _target: &Target) -> Result<Instance, Error> {
    Err(unwritten("get"))
}

/// One step towards nothing: verify name, mark and UID of everything that belongs to the machine,
/// and only then destroy. `Done` only when a look finds nothing. Without an id, look at every place.
pub fn delete<H: Context>(_host: &H, _config: &Config, _target: &Target) -> Result<Deleted, Error> {
    Err(unwritten("delete"))
}

/// What this installation (`host.installation_mark()`) owns at `place`, in pages, leftovers
/// included. What can't be read goes into `unread`: it is never taken for empty.
pub fn list<H: Context>(
    _host: &H,
    _config: &Config,
    _place: &str,
    _cursor: Option<&str>,
) -> Result<Page, Error> {
    Err(unwritten("list"))
}

/// Whether `place` could serve a create: fast, and without changing anything.
pub fn check<H: Context>(_host: &H, _config: &Config, place: &str) -> Health {
    let calls = UNWRITTEN.join(", ");
    unready(format!(
        "{NAME} can't use {place} yet: {calls} are to be written in src/backend.rs"
    ))
}
