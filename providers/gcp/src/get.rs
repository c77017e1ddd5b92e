//! What a VM shows: its state, and where it can be reached.

use provider_sdk::{Error, Instance, State, Target, reason};

use crate::{
    Host,
    api::Api,
    config::{Config, External},
    id::Location,
    instance::{self, Found, Machine, Status},
};

/// See `Provider::get`.
pub fn get<H: Host>(host: &H, config: &Config, target: &Target) -> Result<Instance, Error> {
    let Some(at) = Location::of(target)? else {
        return Err(Error::not_found(format!("{} was never made: it has no id", target.name)));
    };
    let api = Api::new(host, config);
    let machine = match instance::find(&api, &at, target)? {
        Found::Ours(machine) => machine,
        Found::Foreign(mark) => return Err(instance::foreign(&config.project, &at, &mark, &host.mark())),
        Found::Nothing => {
            return Err(Error::not_found(format!(
                "project {}: {} has no instance {}",
                config.project, at.zone, at.name
            )));
        }
    };
    let (state, reason, message) = shown(&api, &machine)?;
    let addresses = match state {
        State::Running => machine.addresses(config.external),
        State::Provisioning | State::Stopped | State::Deleting => Vec::new(),
    };
    Ok(Instance {
        id: at.id(),
        state,
        addresses,
        mark: machine.mark().clone(),
        created_ms: machine.created_ms(),
        reason,
        message,
        details: machine.details(),
    })
}

fn shown<H: Host>(api: &Api<'_, H>, machine: &Machine) -> Result<(State, String, String), Error> {
    let told = |state, reason: &str, message: &str| (state, reason.to_owned(), message.to_owned());
    Ok(match machine.status() {
        Status::Running => {
            let external = api.config().external;
            match (machine.addresses(external).is_empty(), external) {
                (false, _) => told(State::Running, "", ""),
                (true, External::None) => {
                    told(State::Provisioning, "no-address", "it runs, and shows no internal address yet")
                }
                (true, External::Ephemeral | External::Reserved) => told(
                    State::Provisioning,
                    "no-address",
                    "it runs, and shows no external address; externalAddress: none makes the internal one serve",
                ),
            }
        }
        Status::Coming(word) => told(State::Provisioning, &word.to_ascii_lowercase(), ""),
        Status::Deprovisioning => told(State::Deleting, reason::DELETING, "it is being deleted"),
        // One word for two things: a delete that runs tells them apart.
        Status::Stopping => match api.under_way(machine.at(), "delete")? {
            Some(_) => told(State::Deleting, reason::DELETING, "it is being deleted"),
            None => told(State::Stopped, "stopping", "it is being stopped"),
        },
        Status::Stopped if machine.is_spot() && api.was_preempted(machine.at(), machine.number())? => told(
            State::Stopped,
            "preempted",
            "Compute Engine took the Spot machine away; it is started again",
        ),
        Status::Stopped => told(State::Stopped, "terminated", "it stands still"),
        Status::Suspending | Status::Suspended => told(
            State::Stopped,
            reason::PAUSED,
            "somebody suspended it: resume it (gcloud compute instances resume)",
        ),
        Status::Unknown(word) => {
            told(State::Stopped, "unknown", &format!("its status {word} is not known here"))
        }
    })
}
