//! The stages between a candidate and a revision, in their order.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use egress_contract::{Description, Fault};
use futures::{StreamExt, stream};
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::{
    bindings::ProviderComponentIndices,
    call::Linked,
    capability::SystemClock,
    compile::Compiled,
    failure::Failure,
    imports_http, imports_kubernetes, imports_libvirt, imports_transfer,
    inspect::{self, Inspection},
    limits::Limit,
    operations::{Check, Configure, Describe},
    refusal::{Refusal, Stage},
    revision::{Revision, RevisionId},
    shadow::{self, Comparison, Shadow},
    slot::{Candidate, Described, Slot},
    state::Setup,
    telemetry,
};

/// Faults that a refusal's message names; all are beside it.
const FAULTS_SHOWN: usize = 10;
/// Places that are checked side by side.
const CHECKS_AT_ONCE: usize = 16;
/// What every component gets.
const ALWAYS: [&str; 5] = [
    "egress:provider/types",
    "egress:provider/context",
    "egress:provider/clock",
    "egress:provider/log",
    "egress:provider/locks",
];
/// The parts of WASI that are linked, and lead nowhere.
const INERT: [&str; 6] =
    ["wasi:io/", "wasi:cli/", "wasi:clocks/", "wasi:random/", "wasi:filesystem/", "wasi:sockets/"];

/// One candidate on its way.
pub(crate) struct Load<'a> {
    pub(crate) slot: &'a Slot,
    pub(crate) candidate: Candidate,
    pub(crate) id: RevisionId,
}

impl Load<'_> {
    /// `active` is what it is to take the place of.
    pub(crate) async fn run(self, active: Option<&Revision>, shadow: Shadow) -> Result<Revision, Refusal> {
        let mut revision = self.up_to_check().await?;
        if let Some(active) = active.filter(|_| shadow != Shadow::Skip) {
            revision.compared = self.stage(Stage::Shadow, self.shadow(active, &revision, shadow)).await?;
        }
        Ok(adopted(revision))
    }

    /// As far as a candidate goes without any capability.
    pub(crate) async fn configured(&self) -> Result<Revision, Refusal> {
        self.up_to_configure().await.map(adopted)
    }

    /// It may only look so far.
    pub(crate) async fn up_to_check(&self) -> Result<Revision, Refusal> {
        let revision = self.up_to_configure().await?;
        self.stage(Stage::Check, self.check(&revision.linked, &revision.places)).await?;
        Ok(revision)
    }

    pub(crate) async fn up_to_configure(&self) -> Result<Revision, Refusal> {
        let linked = self.up_to_link().await?;
        let (description, places) = self.stage(Stage::Configure, self.configure(&linked)).await?;
        Ok(Revision { linked, description, places, compared: Comparison::default() })
    }

    /// As far as a component goes without a config.
    pub(crate) async fn describe(self) -> Result<Described, Refusal> {
        let linked = self.up_to_link().await?;
        let description = self.stage(Stage::Configure, self.description(&linked)).await?;
        Ok(Described { description, _compiled: linked.compiled })
    }

    async fn up_to_link(&self) -> Result<Linked, Refusal> {
        self.stage(Stage::Digest, async { self.digest() }).await?;
        let inspection = self.stage(Stage::Parse, self.parse()).await?;
        let compiled = self.stage(Stage::Compile, self.compile(inspection)).await?;
        self.stage(Stage::Link, async { self.link(compiled) }).await
    }

    async fn stage<T>(
        &self,
        stage: Stage,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        work.instrument(telemetry::stage_span(&self.slot.entry, stage, self.candidate.module.digest())).await
    }

    fn digest(&self) -> Result<(), Refusal> {
        let found = self.candidate.module.digest();
        match self.candidate.pinned {
            Some(pinned) if pinned != found => Err(Refusal::new(
                Stage::Digest,
                "DigestMismatch",
                format!(
                    "entry {} pins the module to {pinned}, and the module there is {found}; put the pinned one \
                     there, or pin this one",
                    self.slot.entry
                ),
            )),
            _ => Ok(()),
        }
    }

    async fn parse(&self) -> Result<Inspection, Refusal> {
        let inspection = match self.slot.runtime.compiler().find(self.candidate.module.digest()) {
            Some(known) => known.inspection.clone(),
            None => {
                let bytes = Arc::clone(self.candidate.module.bytes());
                let inspected = tokio::task::spawn_blocking(move || inspect::inspect(&bytes)).await;
                inspected.unwrap_or_else(|_| {
                    let message = "the component can't be read: the validator panicked";
                    Err(Refusal::new(Stage::Parse, "Invalid", message))
                })?
            }
        };
        let most = self.candidate.limits.instances;
        if inspection.core_instances > most.into() {
            return Err(Refusal::new(
                Stage::Parse,
                Limit::Instances.refusal(),
                format!(
                    "entry {}: the component makes {} core instances, {} is {most}; raise it in the entry's \
                     limits, or load a component that needs less",
                    self.slot.entry,
                    inspection.core_instances,
                    Limit::Instances.key(),
                ),
            ));
        }
        Ok(inspection)
    }

    async fn compile(&self, inspection: Inspection) -> Result<Arc<Compiled>, Refusal> {
        let runtime = &self.slot.runtime;
        runtime.compiler().compile(runtime, &self.candidate.module, inspection).await
    }

    fn link(&self, compiled: Arc<Compiled>) -> Result<Linked, Refusal> {
        for import in &compiled.inspection.imports {
            self.granted(import)?;
        }
        let slot = self.slot;
        let mut linker = slot.runtime.linker();
        let prepared = (|| {
            if self.candidate.lent.http.is_some() {
                imports_http::link(&mut linker)?;
            }
            if self.candidate.lent.kubernetes.is_some() {
                imports_kubernetes::link(&mut linker)?;
            }
            if self.candidate.lent.libvirt.is_some() {
                imports_libvirt::link(&mut linker)?;
            }
            if self.candidate.lent.transfer.is_some() {
                imports_transfer::link(&mut linker)?;
            }
            let component = linker.instantiate_pre(&compiled.component)?;
            let exports = ProviderComponentIndices::new(&component)?;
            Ok((component, exports))
        })();
        let (component, exports) = prepared.map_err(|error: wasmtime::Error| {
            self.refusal(Stage::Link, &Failure::Mismatch(format!("{error:#}")), "")
        })?;
        let Candidate { module, config, lent, limits, legacy, .. } = &self.candidate;
        let setup = Setup {
            entry: slot.entry.clone(),
            installation: slot.installation.clone(),
            limits: limits.clone(),
            clock: lent.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::default())),
            lent: lent.clone(),
            writes: Arc::clone(slot.runtime.writes()),
            adopted: AtomicBool::new(false),
            locks: slot.locks.clone(),
            config: config.to_string(),
            legacy: legacy.clone(),
        };
        let turns = usize::try_from(limits.concurrent_calls).unwrap_or(usize::MAX);
        Ok(Linked {
            revision: self.id.clone(),
            digest: module.digest(),
            setup: Arc::new(setup),
            component,
            exports,
            compiled,
            turns: Semaphore::new(turns.clamp(1, Semaphore::MAX_PERMITS)),
            targets: slot.targets.clone(),
            runtime: slot.runtime.clone(),
        })
    }

    fn granted(&self, import: &str) -> Result<(), Refusal> {
        let entry = &self.slot.entry;
        let (name, version) = inspect::split(import);
        let refuse = |reason, message| Err(Refusal::new(Stage::Link, reason, message));
        if INERT.iter().any(|inert| name.starts_with(inert)) {
            return Ok(());
        }
        if !inspect::is_ours(import) {
            return refuse(
                "ImportNotServed",
                format!(
                    "entry {entry}: the component imports {import}, which no provider gets; build it against a \
                     world of wit/"
                ),
            );
        }
        let version = version.unwrap_or_default();
        if !inspect::SERVED_CONTRACTS.iter().any(|served| inspect::same_line(version, served)) {
            return refuse(
                "ContractVersion",
                format!(
                    "entry {entry}: the component imports {import}; this host serves the contract {}: build the \
                     component against one of these",
                    inspect::SERVED_CONTRACTS.join(", ")
                ),
            );
        }
        if ALWAYS.contains(&name) {
            return Ok(());
        }
        let lent = &self.candidate.lent;
        let lendable = [
            ("http", lent.http.is_some()),
            ("kubernetes", lent.kubernetes.is_some()),
            ("libvirt", lent.libvirt.is_some()),
            ("transfer", lent.transfer.is_some()),
        ];
        let asked = name.strip_prefix("egress:provider/").unwrap_or_default();
        if let Some((grant, is_lent)) = lendable.into_iter().find(|(grant, _)| *grant == asked) {
            return match is_lent {
                true => Ok(()),
                false => refuse(
                    "ImportNotGranted",
                    format!(
                        "entry {entry}: the component imports {import}, which the entry's grants do not list; \
                         add grants.{grant}, or load a component without it"
                    ),
                ),
            };
        }
        refuse(
            "ImportNotServed",
            format!(
                "entry {entry}: the component imports {import}, which this host does not know; load a component \
                 without it"
            ),
        )
    }

    async fn configure(&self, linked: &Linked) -> Result<(Description, Vec<String>), Refusal> {
        let description = self.description(linked).await?;
        let config = &linked.setup.config;
        let configured = linked.run(&Configure { config }).await;
        match configured.map_err(|failure| self.refusal(Stage::Configure, &failure, "configure"))? {
            Ok(places) => Ok((description, places)),
            Err(faults) => {
                let message = format!(
                    "entry {}: the component refuses the entry's config: {}; mend it there",
                    self.slot.entry,
                    shown(&faults)
                );
                Err(Refusal { faults, ..Refusal::new(Stage::Configure, "ConfigRefused", message) })
            }
        }
    }

    async fn description(&self, linked: &Linked) -> Result<Description, Refusal> {
        let described = linked.run(&Describe).await;
        described.map_err(|failure| self.refusal(Stage::Configure, &failure, "describe"))
    }

    /// A place that is down is no fault of the candidate: it may be the one that brings it back.
    async fn check(&self, linked: &Linked, places: &[String]) -> Result<(), Refusal> {
        // Collected first: a closure in the stream would keep the whole load from being spawned.
        let checks: Vec<_> = places.iter().map(|place| self.check_place(linked, place)).collect();
        let outcomes: Vec<_> = stream::iter(checks).buffered(CHECKS_AT_ONCE).collect().await;
        outcomes.into_iter().collect()
    }

    async fn check_place(&self, linked: &Linked, place: &str) -> Result<(), Refusal> {
        match linked.run(&Check { place }).await {
            Err(failure) if failure.blames_component() => {
                Err(self.refusal(Stage::Check, &failure, &format!("check of {place}")))
            }
            _ => Ok(()),
        }
    }

    async fn shadow(
        &self,
        active: &Revision,
        candidate: &Revision,
        shadow: Shadow,
    ) -> Result<Comparison, Refusal> {
        let compared = shadow::compare(active, candidate).await;
        if compared.differences.is_empty() || shadow == Shadow::Warn {
            return Ok(compared);
        }
        let message = format!(
            "entry {}: revision {} sees less than the active one, {}: {}; mend it, or set shadow: warn in the entry if \
             that is meant",
            self.slot.entry,
            self.id,
            active.id(),
            shown(&compared.differences)
        );
        let refusal = Refusal::new(Stage::Shadow, "ShadowDiffers", message);
        Err(Refusal { faults: compared.differences, ..refusal })
    }

    fn refusal(&self, stage: Stage, failure: &Failure, operation: &str) -> Refusal {
        // wasmtime compares the shapes of exports only when it has an instance.
        let stage = if matches!(failure, Failure::Mismatch(_)) { Stage::Link } else { stage };
        let message = failure.message(&self.slot.entry, operation, &self.candidate.limits);
        Refusal::new(stage, failure.refusal(), message)
    }
}

/// From here on it may write.
fn adopted(revision: Revision) -> Revision {
    revision.linked.setup.adopted.store(true, Ordering::SeqCst);
    revision
}

fn shown(faults: &[Fault]) -> String {
    let shown: Vec<String> = faults.iter().take(FAULTS_SHOWN).map(ToString::to_string).collect();
    let more = match faults.len().saturating_sub(FAULTS_SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", shown.join("; "))
}
