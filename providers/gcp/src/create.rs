//! Steps towards a running VM.
//!
//! The first step names the zone before anything is made there. Then each looks at the operation that runs, or at what
//! stands at the name, and goes on from that. An operation that failed is told as what it was and forgotten: the next
//! attempt has a request id of its own. Where a zone has no room and the placement leaves a choice, the next zone is
//! named and tried.

use provider_sdk::{Created, Error, Pending, Spec, Target, http::Method, reason};
use serde_json::Value;

use crate::{
    Host, address,
    api::Api,
    body::{self, Parts},
    config::{Config, External, region_of},
    firewall::{self, Rule},
    id::Location,
    instance::{self, Found, Machine, Status},
    operation::{Failed, Operation},
    placement::Placed,
    progress::{Progress, Stage, What},
    request_id,
};

/// After so long in one call, the rest waits for the next.
const ENOUGH_MS: u64 = 20_000;
const SOON_MS: u32 = 100;
const POLL_MS: u32 = 3_000;

struct Making<'a, 'h, H> {
    api: &'a Api<'h, H>,
    at: Location,
    target: &'a Target,
    placed: &'a Placed,
    port: u16,
    metadata: &'a Value,
    began: u64,
}

/// See `Provider::create`.
pub fn create<H: Host>(
    host: &H,
    config: &Config,
    target: &Target,
    spec: &Spec,
    user_data: &[u8],
) -> Result<Created, Error> {
    let placed = config.placed(&spec.placement, &target.name)?;
    let metadata = body::metadata(&placed, user_data)?;
    let api = Api::new(host, config);
    let progress = Progress::read(target.progress.as_deref());
    let Some(at) = Location::of(target)? else {
        // Which zone it is, the config may say otherwise by the next call: the id is kept before anything is made.
        let zone = placed.zones.first().cloned().unwrap_or_default();
        let at = Location::new(&zone, &target.name);
        return Ok(pending(
            &at,
            &Progress::default(),
            SOON_MS,
            format!("goes to {zone} of {}", config.project),
        ));
    };
    let at = if at.name == target.name { at } else { taken_over(&api, at, target)? };
    let making = Making {
        api: &api,
        at,
        target,
        placed: &placed,
        port: spec.port,
        metadata: &metadata,
        began: host.monotonic_ms(),
    };
    making.step(progress)
}

/// Another name at our id: an earlier operator's machine, or one that is gone; then this one is made under its own.
fn taken_over<H: Host>(api: &Api<'_, H>, at: Location, target: &Target) -> Result<Location, Error> {
    match instance::find(api, &at, target)? {
        Found::Ours(_) => Ok(at),
        Found::Nothing => Ok(Location::new(&at.zone, &target.name)),
        Found::Foreign(mark) => Err(instance::foreign(&api.config().project, &at, &mark, &api.host().mark())),
    }
}

impl<H: Host> Making<'_, '_, H> {
    fn step(&self, progress: Progress) -> Result<Created, Error> {
        let mut progress = progress;
        if let Some(running) = progress.running.clone() {
            let operation = match running.what {
                What::Firewall => self.api.global_operation(&running.operation)?,
                // A delete's is no create's to wait for: what stands there says it.
                What::Delete => None,
                What::Insert | What::Start | What::Labels => {
                    self.api.zone_operation(&self.at.zone, &running.operation)?
                }
            };
            match operation {
                Some(operation) if !operation.done => {
                    return Ok(self.waits(&progress, running.what, &operation));
                }
                Some(Operation { failed: Some(failed), .. }) => {
                    return self.failed(&progress, running.what, &failed);
                }
                // Should it not be there in spite of it, the same request id would only say again that all went well.
                Some(_) => progress = progress.anew(),
                None => progress = Progress { stage: Stage::Look, running: None, ..progress },
            }
            if self.is_enough() {
                return Ok(self.soon(&progress));
            }
        }
        if progress.stage == Stage::Look {
            match instance::find(self.api, &self.at, self.target)? {
                Found::Foreign(mark) => {
                    let ours = self.api.host().mark();
                    return Err(instance::foreign(&self.api.config().project, &self.at, &mark, &ours));
                }
                Found::Ours(machine) => return self.stands(&progress, &machine),
                Found::Nothing => progress.stage = Stage::Insert,
            }
            if self.is_enough() {
                return Ok(self.soon(&progress));
            }
        }
        match progress.stage {
            Stage::Admit => self.admit(&progress),
            Stage::Look | Stage::Insert => self.insert(&progress),
        }
    }

    /// Lets clients in. Last, since a rule that an instance uses is not collected.
    fn admit(&self, progress: &Progress) -> Result<Created, Error> {
        let (config, host) = (self.api.config(), self.api.host());
        if let (Some(name), Some(rule)) = (firewall::name(host, config, self.port), &config.firewall) {
            match firewall::ensure(self.api, &name, rule, self.port, progress.attempt)? {
                Rule::Stands => {}
                Rule::Begun(operation) => return self.begun(progress, What::Firewall, *operation),
            }
        }
        Ok(Created::Done(self.at.id()))
    }

    fn is_enough(&self) -> bool {
        self.api.host().monotonic_ms().saturating_sub(self.began) > ENOUGH_MS
    }

    fn soon(&self, progress: &Progress) -> Created {
        let message = format!("project {} is slow; goes on with {}", self.api.config().project, self.at.name);
        pending(&self.at, progress, SOON_MS, message)
    }

    fn insert(&self, progress: &Progress) -> Result<Created, Error> {
        let Location { zone, name } = &self.at;
        let config = self.api.config();
        let address = match config.external {
            External::Reserved => Some(address::free(self.api, region_of(zone))?),
            External::Ephemeral | External::None => None,
        };
        let mark = self.api.host().mark();
        let rule = firewall::name(self.api.host(), config, self.port);
        let parts = Parts {
            name,
            zone,
            mark: &mark,
            metadata: self.metadata,
            address: address.as_deref(),
            firewall: rule.as_deref(),
        };
        let body = body::instance(config, self.placed, &parts);
        let id = request_id::derive(&["insert", &config.project, zone, name, &progress.attempt.to_string()]);
        match self.api.begin(Method::Post, &["zones", zone, "instances"], &id, Some(&body)) {
            Ok(operation) => self.begun(progress, What::Insert, operation),
            Err(trouble) if trouble.is_already_exists() => {
                let again = Progress { stage: Stage::Look, ..progress.clone() };
                Ok(pending(
                    &self.at,
                    &again,
                    POLL_MS,
                    format!("{name} stands in {zone} already; looks again"),
                ))
            }
            Err(trouble) => {
                let error = self.api.asked(format!("insert the instance {name} in {zone}")).error(&trouble);
                // What was refused is looked at from the beginning; what may have arrived keeps its request id.
                let again = Progress { stage: Stage::Look, ..progress.clone() };
                Err(Error { progress: Some(again.write()), ..error })
            }
        }
    }

    /// An operation was begun; one that is repeated may have ended long ago.
    fn begun(&self, progress: &Progress, what: What, operation: Operation) -> Result<Created, Error> {
        match &operation.failed {
            Some(failed) => self.failed(progress, what, failed),
            None => Ok(self.waits(&progress.running(what, &operation.name), what, &operation)),
        }
    }

    fn waits(&self, progress: &Progress, what: What, operation: &Operation) -> Created {
        let Location { zone, name } = &self.at;
        let doing = match what {
            What::Insert => format!("inserts {name} in {zone}: {} %", operation.percent),
            What::Start => format!("starts {name} in {zone}"),
            What::Labels => format!("takes {name} in {zone} over"),
            What::Firewall => "makes the firewall rule".to_owned(),
            What::Delete => format!("waits for {name} to be deleted"),
        };
        pending(&self.at, progress, POLL_MS, doing)
    }

    fn failed(&self, progress: &Progress, what: What, failed: &Failed) -> Result<Created, Error> {
        let Location { zone, name } = &self.at;
        let doing = match what {
            What::Insert => format!("insert the instance {name} in {zone}"),
            What::Start => format!("start the instance {name} in {zone}"),
            What::Labels => format!("take {name} in {zone} over"),
            What::Firewall => format!("make the firewall rule for {name}"),
            What::Delete => format!("delete the instance {name} in {zone}"),
        };
        let mut next = progress.anew();
        let error = failed.error(&self.api.asked(doing));
        // What it was for went meanwhile, or came.
        let is_another_look = match what {
            What::Insert => failed.is_already_exists() || failed.is_address_in_use(),
            What::Start | What::Labels => failed.is_not_found(),
            What::Firewall => failed.is_already_exists(),
            What::Delete => true,
        };
        if is_another_look {
            return Ok(pending(&self.at, &next, POLL_MS, error.message));
        }
        if what == What::Insert && failed.is_stockout() {
            next.tried.push(zone.clone());
            let other = self.placed.zones.iter().find(|zone| !next.tried.contains(zone));
            if let Some(other) = other {
                let message = format!("{zone} has no room for {name}; goes to {other}");
                return Ok(pending(&Location::new(other, name), &next, SOON_MS, message));
            }
            let tried = std::mem::take(&mut next.tried).join(", ");
            let error = error.detail("tried", tried);
            return Err(Error { progress: Some(next.write()), ..error });
        }
        Err(Error { progress: Some(next.write()), ..error })
    }

    /// What becomes of a VM that stands there.
    fn stands(&self, progress: &Progress, machine: &Machine) -> Result<Created, Error> {
        let Location { zone, name } = &self.at;
        let told = |message: &str, way_out: &str| {
            self.api.asked(format!("have {name} in {zone} run")).told(message, way_out)
        };
        if machine.is_legacy() {
            return self.relabel(progress, machine);
        }
        match machine.status() {
            // One that was made by another config is let in to by the rule of that one.
            Status::Running
                if machine.firewall() != firewall::name(self.api.host(), self.api.config(), self.port) =>
            {
                Ok(Created::Done(self.at.id()))
            }
            Status::Running if self.is_enough() => {
                Ok(self.soon(&Progress { stage: Stage::Admit, ..progress.clone() }))
            }
            Status::Running => self.admit(progress),
            Status::Coming(word) => {
                Ok(pending(&self.at, progress, POLL_MS, format!("{name} in {zone} is {word}")))
            }
            Status::Stopped => self.start(progress, machine),
            Status::Stopping | Status::Deprovisioning => Err(Error::transient(
                reason::DELETING,
                told("it is being stopped or deleted", "waits until that is over"),
            )),
            Status::Suspending | Status::Suspended => Err(Error::transient(
                reason::PAUSED,
                told("somebody suspended it", "resume it (gcloud compute instances resume)"),
            )),
            Status::Unknown(word) => Err(Error::transient(
                reason::BACKEND,
                told(&format!("its status {word} is not known here"), "see what it means at the backend"),
            )),
        }
    }

    fn vanished(&self, progress: &Progress) -> Created {
        let Location { zone, name } = &self.at;
        let again = Progress { stage: Stage::Look, running: None, ..progress.clone() };
        pending(&self.at, &again, SOON_MS, format!("{name} in {zone} went meanwhile; looks again"))
    }

    /// Writes our mark in the place of the earlier operator's, unless somebody changed the labels since.
    fn relabel(&self, progress: &Progress, machine: &Machine) -> Result<Created, Error> {
        let Location { zone, name } = machine.at();
        let id = request_id::derive(&["labels", machine.number(), &machine.fingerprint()]);
        let body = machine.relabelled(&self.api.host().mark());
        match self.api.begin(Method::Post, &["zones", zone, "instances", name, "setLabels"], &id, Some(&body))
        {
            Ok(operation) => self.begun(progress, What::Labels, operation),
            Err(trouble) if trouble.is_not_found() => Ok(self.vanished(progress)),
            Err(trouble) => Err(self.api.asked(format!("take {name} in {zone} over")).error(&trouble)),
        }
    }

    fn start(&self, progress: &Progress, machine: &Machine) -> Result<Created, Error> {
        let Location { zone, name } = machine.at();
        // Each stop is followed by a start of its own.
        let id = request_id::derive(&[
            "start",
            machine.number(),
            machine.started(),
            &progress.attempt.to_string(),
        ]);
        match self.api.begin(Method::Post, &["zones", zone, "instances", name, "start"], &id, None) {
            Ok(operation) => self.begun(progress, What::Start, operation),
            Err(trouble) if trouble.is_not_found() => Ok(self.vanished(progress)),
            Err(trouble) => {
                Err(self.api.asked(format!("start the instance {name} in {zone}")).error(&trouble))
            }
        }
    }
}

fn pending(at: &Location, progress: &Progress, poll_ms: u32, message: String) -> Created {
    Created::Pending(Pending { id: Some(at.id()), progress: progress.write(), poll_ms, message })
}
