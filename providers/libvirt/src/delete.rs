//! Steps towards nothing: the domain switched off, its volumes, the domain itself.
//!
//! Volumes go before the definition does, since the definition alone bears the mark: what is left of a delete that
//! was cut off still says whose it is.

use provider_sdk::{Deleted, Error, Pending, Target, libvirt::code, reason};

use crate::{
    Host, Ways,
    config::Config,
    id::{self, Id, Location},
    image,
    machine::{self, Found},
    site::Site,
    volume,
};

const ENOUGH_MS: u64 = 20_000;
const POLL_MS: u32 = 100;
/// Managed save, snapshots' metadata, NVRAM: a UEFI domain is not undefined without the last.
const UNDEFINE: u32 = 1 | 2 | 4;

/// See `Provider::delete`.
pub fn delete<H: Host>(host: &H, ways: &Ways, config: &Config, target: &Target) -> Result<Deleted, Error> {
    let began = host.monotonic_ms();
    let places = match &target.id {
        None => config.hosts.iter().map(|place| Location::new(&place.name, &target.name)).collect(),
        Some(id) => match id::parse(id)? {
            Id::Machine(at) => {
                config.host(&at.host, id)?;
                vec![at]
            }
            Id::Image(at) => return image_of_nobody(host, config, target, &at, id),
        },
    };
    // Nothing is destroyed here for want of an id before every place could be looked at.
    let mut unread = None;
    for at in &places {
        match machine_at(host, ways, config, target, at, began) {
            Ok(Deleted::Done) => {}
            Ok(step) => return Ok(step),
            Err(error) if places.len() > 1 && error.reason != reason::FOREIGN => {
                unread = unread.or(Some(error))
            }
            Err(error) => return Err(error),
        }
    }
    match unread {
        None => Ok(Deleted::Done),
        // Whatever it is there, it may be another thing tomorrow, and until then nobody knows whether one is left.
        Some(error) => Err(Error::transient(&error.reason.clone(), error.message)),
    }
}

fn machine_at<H: Host>(
    host: &H,
    ways: &Ways,
    config: &Config,
    target: &Target,
    at: &Location,
    began: u64,
) -> Result<Deleted, Error> {
    let site = Site::open(host, config.host(&at.host, &at.id())?)?;
    let machine = match machine::find(host, ways, config, &site, at, target)? {
        Found::Ours(machine) => Some(machine),
        Found::Foreign(mark) => return Err(machine::foreign(at, &mark, &host.mark())),
        // Whose volumes of another name are, nothing says.
        Found::Nothing if at.name != target.name => return Ok(Deleted::Done),
        Found::Nothing => None,
    };
    let next = |step: Step| {
        (host.monotonic_ms().saturating_sub(began) > ENOUGH_MS).then(|| {
            Deleted::Pending(Pending {
                id: None,
                progress: step.as_str().to_owned(),
                poll_ms: POLL_MS,
                message: format!("host {} is slow; goes on", at.host),
            })
        })
    };
    let from = target.progress.as_deref().and_then(Step::read).unwrap_or(Step::Off);
    if from <= Step::Off
        && let Some(machine) = &machine
    {
        match site.connection().destroy(machine.domain()) {
            Ok(()) => {}
            Err(failure) if failure.is(code::OPERATION_INVALID) || failure.is(code::NO_DOMAIN) => {}
            Err(failure) => return Err(site.asked(format!("switch {} off", at.name)).error(&failure)),
        }
        if let Some(later) = next(Step::Seed) {
            return Ok(later);
        }
    }
    let pool = site.pool()?;
    for (step, volume, then) in [
        (Step::Seed, volume::seed(&at.name), Step::Disk),
        (Step::Disk, volume::overlay(&at.name), Step::Domain),
    ] {
        if from <= step {
            match site.connection().volume_delete(&pool, &volume) {
                Ok(()) => {}
                // Where there is no pool, nothing is left in it.
                Err(failure) if failure.is(code::NO_STORAGE_VOL) || failure.is(code::NO_STORAGE_POOL) => {}
                Err(failure) => {
                    let error = site.asked(format!("delete the volume {volume}")).error(&failure);
                    return Err(site.of_the_pool(&pool, error));
                }
            }
            if let Some(later) = next(then) {
                return Ok(later);
            }
        }
    }
    if let Some(machine) = &machine {
        match site.connection().undefine(machine.domain(), UNDEFINE) {
            Ok(()) => {}
            Err(failure) if failure.is(code::NO_DOMAIN) => {}
            Err(failure) => return Err(site.asked(format!("undefine {}", at.name)).error(&failure)),
        }
    }
    // Progress counts for one way through: whoever finds something after all begins at the beginning.
    Ok(Deleted::Done)
}

/// Where a slow delete goes on; the looks before it are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Off,
    Seed,
    Disk,
    Domain,
}

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Self::Off => "delete:off",
            Self::Seed => "delete:seed",
            Self::Disk => "delete:disk",
            Self::Domain => "delete:domain",
        }
    }

    fn read(text: &str) -> Option<Self> {
        [Self::Off, Self::Seed, Self::Disk, Self::Domain].into_iter().find(|step| step.as_str() == text)
    }
}

/// A base image that the collector hands back: it goes if nothing backs onto it.
fn image_of_nobody<H: Host>(
    host: &H,
    config: &Config,
    target: &Target,
    at: &Location,
    id: &str,
) -> Result<Deleted, Error> {
    let images = volume::images(&host.installation(), &host.entry());
    if at.name != target.name || !at.name.starts_with(&images) {
        return Err(Error::permanent(
            reason::FOREIGN,
            format!(
                "the id {id} names a base image that is not {} of this installation and entry",
                target.name
            ),
        ));
    }
    let site = Site::open(host, config.host(&at.host, id)?)?;
    let pool = site.pool()?;
    let _held = image::hold(host, site.name(), &at.name)?;
    if let Some(user) = image::user_of(&site, &pool, &at.name)? {
        return Err(Error::transient(
            reason::BUSY,
            format!("host {}: {user} backs onto the base image {}; it stays", at.host, at.name),
        ));
    }
    // The marker first: a base is never told whole that is not.
    for volume in [
        volume::marker(&at.name),
        volume::base(&at.name, volume::Format::Qcow2),
        volume::base(&at.name, volume::Format::Raw),
    ] {
        image::delete(&site, &pool, &volume)?;
    }
    Ok(Deleted::Done)
}
