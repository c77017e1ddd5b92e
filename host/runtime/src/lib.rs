//! Loads, checks, links, limits, calls and swaps provider components.
//!
//! A provider is a WebAssembly component that keeps the contract in `wit/`. This crate runs it: it knows what
//! a component may import only as traits ([`capability`]); what stands behind them, real or simulated, is
//! its caller's. `examples/call.rs` loads a component and calls it in about thirty lines.
//!
//! # From bytes to a revision
//!
//! A [`Slot`] is one provider entry. [`Slot::load`] takes a [`Candidate`] through the stages, and only one
//! that passed them all becomes the active [`Revision`]; a [`Refusal`] names stage, reason, cause and way
//! out, and leaves what was active alone.
//!
//! | stage | what is found out | reasons of a refusal |
//! |---|---|---|
//! | fetch ([`Module::unpack`]) | it unpacks, within bounds | `Empty`, `BrokenStream`, `TooLarge` |
//! | digest | it is what the entry pins | `DigestMismatch` |
//! | parse ([`inspect`]) | it is a component of a contract's line that is served here | `NotWasm`, `NotAComponent`, `UnknownEncoding`, `Invalid`, `Async`, `NoProvider`, `ContractVersion`, `ExportMissing`, `LimitInstances` |
//! | compile | it becomes machine code, within bounds | `CompileFailed`, `CompileTimeout`, `CompileMemory` |
//! | link | its imports are lent, its types are the contract's | `ImportNotGranted`, `ImportNotServed`, `ContractVersion`, `InterfaceMismatch` |
//! | configure | it describes itself and takes the config | `ConfigRefused`, `ContractViolation`, `Trapped`, `Limit..` |
//! | check | `check` answers at every place, be it that the place is down, and writes nothing | `ContractViolation`, `Trapped`, `Limit..` |
//! | shadow ([`Comparison`]) | it sees no less of its places than the active revision | `ShadowDiffers` |
//!
//! # Calls
//!
//! A [`Revision`] is a [`Provider`](egress_contract::Provider). Each call runs in a store and an instance of
//! its own, so a trap, a leak or a poisoned state ends with it; a call that began on a revision ends on it,
//! whatever is loaded meanwhile. Calls of create and delete about one name wait for each other, in all
//! revisions of an entry. Dropping a call's future ends all that belongs to it: the guest, the host call it
//! waits for, the locks it holds.
//!
//! What a provider answers is checked before anybody believes it (`contract-violation`), and no line of
//! user-data leaves a create. Every one of the [`Limits`] is an error of its own that names the limit, as the
//! entry spells it, and its value:
//!
//! | the error's reason | what happened |
//! |---|---|
//! | `trap` | the guest trapped or panicked; the message has its own words |
//! | `limit-memory`, `limit-tables`, `limit-compute`, `limit-time`, `limit-host-calls`, `limit-answer`, `limit-transfer` | the guest was ended at that limit |
//! | `limit-host-call-time`, `limit-request`, `limit-response` | a host call failed at that limit, and the provider failed with it |
//! | `limit-concurrent-calls`, `busy` | the call never had its turn |
//! | `contract-violation` | the guest broke the contract |
//!
//! All of these are `transient`; what else a call ends with is the provider's own judgement.
//!
//! # What is left behind
//!
//! Each operation is a span (`provider.create` ..) and an event at `info`, each host call a span (`host.call`)
//! within it and an event at `debug`; what a guest logs stands in its operation's span under the target
//! `provider`. Counters and histograms go to the [`metrics`] crate as `egress_provider_..` and
//! `egress_host_..`. No body, no credential and no word of a guest's choosing is in a label.
//!
//! # Caveats
//!
//! - Compiling in this process ([`Compile::InProcess`]) is bounded in what the caller waits, not in what the
//!   thread computes: it is for tools and tests. A host uses [`Compile::Child`].
//! - A limit on time is exact to the engine's tick, 10 ms.
//! - What the traits of [`capability`] hand back is trusted: grants, credentials and addresses are theirs.

mod bindings;
mod call;
pub mod capability;
mod compile;
mod failure;
mod guest_log;
mod imports;
mod imports_http;
mod imports_kubernetes;
mod imports_libvirt;
mod imports_transfer;
mod inert;
mod inspect;
mod limits;
mod load;
mod locks;
mod meter;
mod module;
mod operations;
mod outline;
mod refusal;
mod revision;
mod runtime;
mod scrub;
mod shadow;
mod slot;
mod state;
mod telemetry;

pub use inspect::{Inspection, SERVED_CONTRACTS, inspect};
pub use limits::Limits;
pub use module::{Digest, InvalidDigest, Module};
pub use refusal::{Refusal, Stage};
pub use revision::{Revision, RevisionId};
pub use runtime::{Compile, Runtime, RuntimeConfig, RuntimeError};
pub use scrub::Scrubber;
pub use shadow::{Comparison, Shadow};
pub use slot::{Candidate, Described, Lent, Slot};
