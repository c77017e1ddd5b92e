//! Steps towards a running machine.
//!
//! Each call looks the name up and goes on from what stands there. Stages follow each other within one call as
//! long as there is time, and else in the next one: the progress says which is next, and saves the looks that led
//! there. A stage makes at most two calls, so that a slow host is got on with.

mod parts;

use provider_sdk::{
    Created, Error, ErrorClass, Level, Pending, Spec, Target,
    libvirt::{Domain, Failure, Stage as Where, code},
    reason,
};
use serde::{Deserialize, Serialize};

use crate::{
    Host, Ways,
    config::{Config, Placed},
    domain::State,
    id::Location,
    image::{self, Base, Said},
    machine::{self, Found, Machine},
    mark, seed,
    site::{POOL_RUNNING, Site},
};

/// After so long in one call, the rest waits for the next.
const ENOUGH_MS: u64 = 20_000;
const POLL_MS: u32 = 100;
const DOWNLOAD_POLL_MS: u32 = 2_000;
const BOOT_POLL_MS: u32 = 2_000;
/// Room for a seed and for what qcow2 needs for itself.
const SMALL_BYTES: u64 = 16 * 1024 * 1024;
const LARGEST_SEED: usize = 4 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;
/// virDomainPausedReason: it is about to run.
const STARTING_UP: i32 = 11;

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    /// Whether the base image is whole.
    Marker,
    /// It is not: whether it is on its way.
    Ask,
    /// It was on its way when it was last looked at.
    Fetch,
    /// Whether there is room for it.
    FetchRoom,
    Fill,
    /// It is whole: the pool is read again.
    Refresh,
    Mark,
    /// Where it is.
    Backing,
    Room,
    Memory,
    Kind,
    Overlay,
    Seed,
    Define,
    Autostart,
    Start,
}

/// What is kept from one call to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    stage: Stage,
    /// The base image's path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    base: String,
    /// Its digest, until the marker says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    sha256: String,
    /// `kvm` or `qemu`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kind: String,
    /// The machine is defined, and what it needs is looked after.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    mends: bool,
}

impl Progress {
    fn at(stage: Stage) -> Self {
        Self { stage, base: String::new(), sha256: String::new(), kind: String::new(), mends: false }
    }
}

/// How a stage ended.
enum Next {
    Stage(Stage),
    /// The machine was started.
    Started,
    Wait {
        poll_ms: u32,
        message: String,
    },
}

struct Making<'a, 'h, H> {
    host: &'h H,
    config: &'a Config,
    site: &'a Site<'h, H>,
    at: &'a Location,
    placed: &'a Placed,
    user_data: &'a [u8],
    pool: String,
    progress: Progress,
    domain: Option<Domain>,
    ways: &'a Ways,
}

/// See `Provider::create`.
pub fn create<H: Host>(
    host: &H,
    ways: &Ways,
    config: &Config,
    target: &Target,
    spec: &Spec,
    user_data: &[u8],
) -> Result<Created, Error> {
    let placed = config.placed(&spec.placement)?;
    let seed = seed::image(config, &target.name, user_data);
    if seed.len() > LARGEST_SEED {
        return Err(Error::permanent(
            reason::UNSUPPORTED,
            format!(
                "spec.cloudInit makes a seed of {} bytes, and {LARGEST_SEED} is the most; fetch the rest from within \
                 the machine",
                seed.len()
            ),
        ));
    }
    let began = host.monotonic_ms();
    let Some(mut at) = Location::of(target, config)? else {
        // Which host it is, the config may say otherwise by the next call: the id is kept before anything is made.
        let at = Location::new(&placed.host.name, &target.name);
        return Ok(pending(&at, None, POLL_MS, format!("goes to host {}", at.host)));
    };
    let site = Site::open(host, config.host(&at.host, &at.id())?)?;
    let mut found = machine::find(host, ways, config, &site, &at, target)?;
    if found == Found::Nothing && at.name != target.name {
        // Another name at our id: that machine is gone, and this one is made under its own.
        at = Location::new(&at.host, &target.name);
        found = machine::find(host, ways, config, &site, &at, target)?;
    }
    let kept = target.progress.as_deref().and_then(|text| serde_json::from_str::<Progress>(text).ok());
    let (progress, domain) = match found {
        Found::Foreign(mark) => return Err(machine::foreign(&at, &mark, &host.mark())),
        Found::Nothing => {
            let fits =
                |kept: &Progress| !kept.mends && !matches!(kept.stage, Stage::Autostart | Stage::Start);
            (kept.filter(fits).unwrap_or(Progress::at(Stage::Marker)), None)
        }
        Found::Ours(machine) => match stands(&site, ways, &at, &machine, kept, began)? {
            Standing::Settled(created) => return Ok(created),
            Standing::Off(progress) => (progress, Some(machine.domain().clone())),
        },
    };
    let pool = site.pool()?;
    let making = Making {
        host,
        config,
        site: &site,
        at: &at,
        placed: &placed,
        user_data,
        pool: pool.clone(),
        progress,
        domain,
        ways,
    };
    making.go(began).map_err(|error| site.of_the_pool(&pool, error)).map_err(|error| match error.class {
        // What was looked up before may not be so any more.
        ErrorClass::Transient if error.reason == "vanished" || error.reason == reason::BACKEND => {
            error.forget_progress()
        }
        _ => error,
    })
}

/// Whether the rest of the work is the next call's.
fn is_enough<H: Host>(host: &H, began: u64) -> bool {
    host.monotonic_ms().saturating_sub(began) > ENOUGH_MS
}

fn slow(at: &Location) -> String {
    format!("host {} is slow; goes on", at.host)
}

enum Standing {
    Settled(Created),
    Off(Progress),
}

/// Ours stands there: what its state asks for.
fn stands<H: Host>(
    site: &Site<'_, H>,
    ways: &Ways,
    at: &Location,
    machine: &Machine,
    kept: Option<Progress>,
    began: u64,
) -> Result<Standing, Error> {
    let still = |kept: &Progress| kept.mends || matches!(kept.stage, Stage::Autostart | Stage::Start);
    // It was seen standing still in the call before this one.
    if let Some(progress) = kept.filter(still) {
        return Ok(Standing::Off(progress));
    }
    let what = || format!("ask for the state of {}", at.name);
    let seen = site.call(what, |connection| connection.state(machine.domain()))?;
    let stuck = |reason: &str, why: &str| {
        Error::transient(reason, format!("domain {} at host {} {why}", at.name, at.host))
    };
    let state = State::read(seen.state);
    if let (State::Running | State::Shutoff | State::Crashed, Some(elsewhere)) = (state, machine.elsewhere())
    {
        remark(site, ways, machine, elsewhere)?;
    }
    match state {
        State::Running => Ok(Standing::Settled(Created::Done(at.id()))),
        State::None => {
            Ok(Standing::Settled(pending(at, None, BOOT_POLL_MS, "its state is not known yet".to_owned())))
        }
        State::Paused if seen.reason == STARTING_UP => {
            Ok(Standing::Settled(pending(at, None, BOOT_POLL_MS, "it starts".to_owned())))
        }
        State::Paused => Err(stuck(
            reason::PAUSED,
            "is paused: resume it at the host (virsh resume), or delete the Proxy; it goes on by itself then",
        )),
        State::Suspended => Err(stuck(
            reason::PAUSED,
            "is suspended: wake it at the host (virsh dompmwakeup), or delete the Proxy; it goes on by itself then",
        )),
        State::Shutdown => Err(stuck(reason::BUSY, "is shutting down: it is started again once it is off")),
        State::Shutoff | State::Crashed => {
            let progress = Progress::at(Stage::Autostart);
            if is_enough(site.lender(), began) {
                return Ok(Standing::Settled(pending(at, Some(&progress), POLL_MS, slow(at))));
            }
            Ok(Standing::Off(progress))
        }
        State::Unknown(code) => Err(stuck(
            reason::BACKEND,
            &format!("has state {code}, which is not known here: look at it with virsh dominfo"),
        )),
    }
}

/// Writes this component's own mark, and takes away the one that it came with.
fn remark<H: Host>(site: &Site<'_, H>, ways: &Ways, machine: &Machine, elsewhere: &str) -> Result<(), Error> {
    let (host, domain) = (site.lender(), machine.domain());
    let what = || format!("mark {}", domain.name);
    let created = machine.marked().created_ms.unwrap_or_default();
    let element = mark::write(&host.mark(), created, None);
    site.call(what, |connection| connection.set_metadata(domain, mark::KEY, ways.namespace, &element))?;
    site.call(what, |connection| connection.set_metadata(domain, mark::KEY, elsewhere, ""))?;
    host.write(Level::Info, "domain taken over", &[("name", &domain.name), ("from", elsewhere)]);
    Ok(())
}

fn pending(at: &Location, progress: Option<&Progress>, poll_ms: u32, message: String) -> Created {
    let progress = progress.and_then(|progress| serde_json::to_string(progress).ok()).unwrap_or_default();
    Created::Pending(Pending { id: Some(at.id()), progress, poll_ms, message })
}

impl<H: Host> Making<'_, '_, H> {
    fn go(mut self, began: u64) -> Result<Created, Error> {
        loop {
            match self.stage()? {
                Next::Started if is_enough(self.host, began) => {
                    return Ok(pending(self.at, None, POLL_MS, slow(self.at)));
                }
                Next::Started => return self.settle(),
                Next::Wait { poll_ms, message } => {
                    return Ok(pending(self.at, Some(&self.progress), poll_ms, message));
                }
                Next::Stage(next) => {
                    self.progress.stage = next;
                    if is_enough(self.host, began) {
                        return Ok(pending(self.at, Some(&self.progress), POLL_MS, slow(self.at)));
                    }
                }
            }
        }
    }

    fn base(&self) -> Base<'_, '_, H> {
        Base::new(self.host, self.site, &self.pool, &self.placed.image)
    }

    fn stage(&mut self) -> Result<Next, Error> {
        Ok(match self.progress.stage {
            Stage::Marker => match self.base().said()? {
                Said::Whole => Next::Stage(Stage::Backing),
                Said::Nothing => Next::Stage(Stage::Ask),
                Said::Other(was) => {
                    self.base().replace(&was)?;
                    Next::Stage(Stage::Ask)
                }
            },
            Stage::Ask => match self.base().status()? {
                Some(progress) => self.transferred(progress),
                None => Next::Stage(Stage::FetchRoom),
            },
            Stage::Fetch => match self.base().status()? {
                Some(progress) => self.transferred(progress),
                // Nobody knows of it any more: it may be whole by now.
                None => Next::Stage(Stage::Marker),
            },
            Stage::FetchRoom => {
                let size = self.base().size()?;
                self.room(size)?;
                Next::Stage(Stage::Fill)
            }
            Stage::Fill => match self.base().fill()? {
                Some(progress) => self.transferred(progress),
                // Since the marker was looked at, somebody else may have written it.
                None => match self.base().said()? {
                    Said::Whole => Next::Stage(Stage::Backing),
                    Said::Nothing | Said::Other(_) => {
                        self.base().remove()?;
                        Next::Stage(Stage::Fill)
                    }
                },
            },
            Stage::Refresh => {
                // A file that came past libvirt's own calls counts once the pool was read again.
                let what = || format!("read the pool {} again", self.pool);
                self.site.call(what, |connection| connection.pool_refresh(&self.pool))?;
                Next::Stage(Stage::Mark)
            }
            Stage::Mark => {
                self.base().mark_whole(&self.progress.sha256)?;
                self.progress.sha256 = String::new();
                Next::Stage(Stage::Backing)
            }
            Stage::Backing => match self.base().seen()? {
                Some(seen) => {
                    self.progress.base = seen.path;
                    Next::Stage(Stage::Room)
                }
                None => {
                    // A marker without its base says nothing, nor does the transfer that filled one.
                    self.base().remove()?;
                    Next::Stage(Stage::FetchRoom)
                }
            },
            Stage::Room => {
                self.room(0)?;
                Next::Stage(Stage::Memory)
            }
            Stage::Memory => {
                if !self.progress.mends {
                    self.memory()?;
                }
                Next::Stage(Stage::Kind)
            }
            Stage::Kind => {
                if !self.progress.mends {
                    self.progress.kind = self.kind()?.to_owned();
                }
                Next::Stage(Stage::Overlay)
            }
            Stage::Overlay => self.overlay()?,
            Stage::Seed => self.seed()?,
            Stage::Define => self.define()?,
            Stage::Autostart => {
                if self.config.autostart {
                    self.domain(|site, domain| {
                        site.call(
                            || format!("let {} start with its host", domain.name),
                            |connection| connection.set_autostart(domain, true),
                        )
                    })?;
                }
                Next::Stage(Stage::Start)
            }
            Stage::Start => self.start()?,
        })
    }

    fn transferred(&mut self, progress: provider_sdk::transfer::Transferred) -> Next {
        let message = image::words(&self.placed.image, &progress);
        match progress.sha256 {
            Some(sha256) => {
                self.progress.sha256 = sha256;
                Next::Stage(Stage::Refresh)
            }
            None => {
                self.progress.stage = Stage::Fetch;
                Next::Wait { poll_ms: DOWNLOAD_POLL_MS, message }
            }
        }
    }

    /// Whether the pool holds the disk when it has grown, and so much more.
    fn room(&self, more: u64) -> Result<(), Error> {
        let pool = &self.pool;
        let info = self.site.call(|| format!("look how full the pool {pool} is"), |c| c.pool_info(pool))?;
        if info.state != POOL_RUNNING {
            return Err(self.site.inactive(pool, info.state));
        }
        let needed = self.config.disk_bytes.saturating_add(SMALL_BYTES).saturating_add(more);
        if info.available < needed {
            return Err(Error::quota(format!(
                "host {}: the pool {pool} has {} MiB left, and {} needs {} MiB; make room, or lower diskSizeGb",
                self.at.host,
                info.available / MIB,
                self.at.name,
                needed / MIB
            ))
            .detail("availableMiB", info.available / MIB)
            .detail("neededMiB", needed / MIB));
        }
        Ok(())
    }

    fn domain<T>(&self, call: impl FnOnce(&Site<'_, H>, &Domain) -> Result<T, Error>) -> Result<T, Error> {
        match &self.domain {
            Some(domain) => call(self.site, domain),
            None => Err(Error::transient(
                "vanished",
                format!(
                    "domain {} at host {} went while it was started; tried again",
                    self.at.name, self.at.host
                ),
            )),
        }
    }

    fn start(&mut self) -> Result<Next, Error> {
        let started = self.domain(|site, domain| Ok(site.connection().start(domain)))?;
        match started {
            Ok(()) => Ok(Next::Started),
            Err(failure) if failure.is(code::OPERATION_INVALID) => Ok(Next::Started),
            Err(failure) if is_about_a_file(&failure) && !self.progress.mends => {
                // A volume may be gone. What stands is kept, what is missing made again.
                self.progress = Progress { mends: true, ..Progress::at(Stage::Marker) };
                let message =
                    format!("it does not start ({}): its volumes are looked after", failure.message);
                Ok(Next::Wait { poll_ms: POLL_MS, message })
            }
            Err(failure) => {
                Err(self.site.asked(format!("start {}", self.at.name)).error(&failure).forget_progress())
            }
        }
    }

    /// After a start the state is running at once; anything else does not come up by waiting.
    fn settle(&self) -> Result<Created, Error> {
        let seen = self.domain(|site, domain| {
            site.call(|| format!("ask for the state of {}", domain.name), |c| c.state(domain))
        })?;
        match State::read(seen.state) {
            State::Running => Ok(Created::Done(self.at.id())),
            State::None => Ok(pending(self.at, None, BOOT_POLL_MS, "it starts".to_owned())),
            State::Paused if seen.reason == STARTING_UP => {
                Ok(pending(self.at, None, BOOT_POLL_MS, "it starts".to_owned()))
            }
            other => Err(Error::transient(
                reason::BACKEND,
                format!(
                    "host {}: {} was started and is {}: look into /var/log/libvirt/qemu/{}.log there",
                    self.at.host,
                    self.at.name,
                    other.show(),
                    self.at.name
                ),
            )
            .forget_progress()),
        }
    }
}

fn is_about_a_file(failure: &Failure) -> bool {
    failure.stage == Where::Libvirt && failure.code == code::SYSTEM_ERROR
}
