//! libvirt for real: what an entry's grants lend, and an administrator's view of the same hosts.
//!
//! Every process of a host has capabilities of its own, as it would have: connections, transfers and what it knows of
//! them end with it. The administrator goes the same way, by the names of both installations that the suite plays;
//! nothing else is looked at or removed.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use async_trait::async_trait;
use egress_capabilities::{
    LibvirtCapability, LibvirtGrant, Secrets, TransferCapability, TransferGrant, libvirt::Beside,
};
use egress_contract::{EntryName, Fault, Installation};
use egress_runtime::{
    Lent,
    capability::{
        Always, Clock, Domain, Libvirt, LibvirtConnection, LibvirtFailure, LibvirtStage, SystemClock,
        Transfer,
    },
};
use egress_sim::{
    backend::{Action, Backend, Condition, Thing, Unable},
    fault,
    watched::{Watch, Watched, WatchedLibvirt},
};

use super::{
    DOMAIN, SHARED, VOLUME,
    administrator::{Administrator, Nobody},
    document, seed,
};
use crate::{
    halt::{Go, Halt},
    kind::{Kind, Lend, World},
    proxy::{OURS, THEIRS},
};

/// Where Proxies live: libvirt knows nothing of it.
const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
/// A wait that is for the backend's sake is no longer than this: it works on its own meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(50);
/// What moves by itself comes to rest within this.
const COMES_TO_REST: Duration = Duration::from_secs(120);
/// Larger than any seed.
const MOST_BYTES: u32 = 4 << 20;
/// Managed save, snapshots' metadata, NVRAM.
const UNDEFINE: u32 = 7;
/// virErrorNumber: no such domain, no such volume, a domain that is off.
const NO_DOMAIN: i32 = 42;
const NO_VOLUME: i32 = 50;
const OPERATION_INVALID: i32 = 55;
/// virStoragePoolState.
const POOL_RUNNING: i32 = 2;

/// A provider's way to some hosts, and an administrator's.
pub struct RealLibvirt {
    ways: Arc<Ways>,
    administrator: Arc<dyn Administrator>,
    secrets: Vec<String>,
}

/// What an entry's grants make.
struct Ways {
    entry: EntryName,
    libvirt: LibvirtGrant,
    transfer: TransferGrant,
    keys: Option<Arc<dyn Secrets>>,
    /// What was lent and may still be at work.
    transfers: Mutex<Vec<Weak<TransferCapability>>>,
}

impl Ways {
    fn libvirt(&self, installation: &Installation) -> Result<Arc<LibvirtCapability>, Vec<Fault>> {
        let beside = Beside {
            installation: installation.clone(),
            secrets: self.keys.clone(),
            writes: Arc::new(Always),
        };
        LibvirtCapability::new(&self.entry, self.libvirt.clone(), &beside).map(Arc::new)
    }

    /// As a process of its own has it.
    fn lent(
        &self,
        installation: &Installation,
    ) -> Result<(Arc<LibvirtCapability>, Arc<TransferCapability>), Vec<Fault>> {
        let libvirt = self.libvirt(installation)?;
        let transfer = Arc::new(TransferCapability::new(self.transfer.clone(), Arc::clone(&libvirt))?);
        let mut transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        transfers.retain(|known| known.strong_count() > 0);
        transfers.push(Arc::downgrade(&transfer));
        Ok((libvirt, transfer))
    }

    fn are_at_rest(&self) -> bool {
        let transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        transfers.iter().filter_map(Weak::upgrade).all(|transfer| transfer.is_at_rest())
    }
}

impl RealLibvirt {
    /// Or everything that is wrong with the grants.
    pub fn new(
        entry: EntryName,
        libvirt: LibvirtGrant,
        transfer: TransferGrant,
        keys: Option<Arc<dyn Secrets>>,
    ) -> Result<Self, Vec<Fault>> {
        let ways = Ways { entry, libvirt, transfer, keys, transfers: Mutex::default() };
        ways.lent(&Installation::new(OURS))?;
        Ok(Self { ways: Arc::new(ways), administrator: Arc::new(Nobody), secrets: Vec::new() })
    }

    /// With somebody who can do more.
    #[must_use]
    pub fn run_by(self, administrator: Arc<dyn Administrator>) -> Self {
        Self { administrator, ..self }
    }

    /// What must not come out of a component.
    #[must_use]
    pub fn that_hides(self, secrets: Vec<String>) -> Self {
        Self { secrets, ..self }
    }

    /// What these grants lend, seen by the watch of whoever has it.
    pub fn lend(&self, clock: &Arc<dyn Clock>) -> Lend {
        let (ways, time) = (Arc::clone(&self.ways), Arc::clone(clock));
        Arc::new(move |watch: &Watch, installation: &Installation| {
            // What was made once can be made again.
            let (libvirt, transfer) = ways.lent(installation).ok().unzip();
            let seen = |libvirt| Arc::new(WatchedLibvirt::new(watch.clone(), libvirt)) as Arc<dyn Libvirt>;
            let moved = |transfer: Arc<dyn Transfer>| Watched::new(watch.clone(), transfer);
            Lent {
                libvirt: libvirt.map(|libvirt| seen(libvirt as Arc<dyn Libvirt>)),
                transfer: transfer.map(|transfer| Arc::new(moved(transfer)) as Arc<dyn Transfer>),
                clock: Some(Arc::new(Watched::new(watch.clone(), Arc::clone(&time)))),
                ..Lent::default()
            }
        })
    }

    fn backend(&self) -> Result<Real, Unable> {
        let installation = |name| {
            let installation = Installation::new(name);
            let libvirt = self.ways.libvirt(&installation);
            let libvirt = libvirt.map_err(|faults| Unable::Failed(format!("{faults:?}")))?;
            Ok((installation.hash().to_owned(), libvirt))
        };
        Ok(Real {
            ways: Arc::clone(&self.ways),
            administrator: Arc::clone(&self.administrator),
            sides: [installation(OURS)?, installation(THEIRS)?],
        })
    }
}

#[async_trait]
impl Kind for RealLibvirt {
    fn name(&self) -> String {
        "libvirt, for real".to_owned()
    }

    fn lends(&self, interface: &str) -> bool {
        ["egress:provider/libvirt", "egress:provider/transfer"].contains(&interface)
    }

    fn is_simulated(&self) -> bool {
        false
    }

    /// libvirt asks nobody to come back later.
    fn can_fail_so(&self, fault: &fault::Fault) -> bool {
        !matches!(fault, fault::Fault::RateLimited(_))
    }

    async fn prepare(&self) -> Result<(), Unable> {
        let backend = self.backend()?;
        for (host, pools) in backend.hosts() {
            let connection = backend.connection(host).await?;
            for pool in pools {
                let info = connection.pool_info(pool).await.map_err(failed)?;
                if info.state != POOL_RUNNING {
                    let message =
                        format!("host {host}: the pool {pool} is not active: virsh pool-start {pool}");
                    return Err(Unable::Failed(message));
                }
            }
        }
        backend.clear().await
    }

    async fn clear(&self) -> Result<(), Unable> {
        self.backend()?.clear().await
    }

    async fn world(&self, _: u64) -> Go<World> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let backend = self.backend()?;
        backend.clear().await.map_err(|unable| Halt::Failed(unable.to_string()))?;
        Ok(World {
            backend: Arc::new(backend),
            lend: self.lend(&clock),
            clock,
            namespaces: NAMESPACES.map(str::to_owned),
            secrets: self.secrets.clone(),
            fork: None,
            longest_rest: LONGEST_WAIT,
        })
    }
}

struct Real {
    ways: Arc<Ways>,
    administrator: Arc<dyn Administrator>,
    /// By what stands in all names of an installation.
    sides: [(String, Arc<LibvirtCapability>); 2],
}

fn failed(failure: LibvirtFailure) -> Unable {
    Unable::Failed(failure.message)
}

fn is(failure: &LibvirtFailure, code: i32) -> bool {
    failure.stage == LibvirtStage::Libvirt && failure.code == code
}

/// What may be gone, or as it is wanted, already.
fn unless(code: i32, done: Result<(), LibvirtFailure>) -> Result<(), Unable> {
    match done {
        Err(failure) if !is(&failure, code) => Err(failed(failure)),
        _ => Ok(()),
    }
}

fn no_thing(kind: &str, what: &str) -> Unable {
    Unable::NotHere(format!("a {kind} can't be {what}"))
}

impl Real {
    fn hosts(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        self.ways.libvirt.hosts.iter().map(|(name, host)| (name, &host.pools))
    }

    fn side(&self, name: &str) -> Option<&Arc<LibvirtCapability>> {
        let bears = |hash: &str| name.contains(&format!("-{hash}-"));
        self.sides.iter().find(|(hash, _)| bears(hash)).map(|(_, side)| side)
    }

    async fn connection(&self, host: &str) -> Result<Arc<dyn LibvirtConnection>, Unable> {
        let [(_, ours), _] = &self.sides;
        ours.open(host, false).await.map_err(failed)
    }

    /// One that may touch what is called so.
    async fn touching(&self, host: &str, name: &str) -> Result<Arc<dyn LibvirtConnection>, Unable> {
        let nobodys = || Unable::Failed(format!("{name} at {host} is of neither installation"));
        self.side(name).ok_or_else(nobodys)?.open(host, false).await.map_err(failed)
    }

    /// Removes what an earlier run left.
    async fn clear(&self) -> Result<(), Unable> {
        for (host, pools) in self.hosts() {
            self.administrator.fill_up(host, false)?;
            self.administrator.never_start(host, false)?;
            for domain in self.domains(host).await? {
                self.remove_domain(host, &domain).await?;
            }
            for pool in pools {
                for name in self.volumes(host, pool).await? {
                    let touching = self.touching(host, &name).await?;
                    unless(NO_VOLUME, touching.volume_delete(pool, &name).await)?;
                }
            }
        }
        Ok(())
    }

    async fn domains(&self, host: &str) -> Result<Vec<Domain>, Unable> {
        let mut all = self.connection(host).await?.domains().await.map_err(failed)?;
        all.retain(|domain| self.side(&domain.name).is_some());
        Ok(all)
    }

    async fn volumes(&self, host: &str, pool: &str) -> Result<Vec<String>, Unable> {
        let mut all = self.connection(host).await?.volumes(pool).await.map_err(failed)?;
        all.retain(|name| self.side(name).is_some());
        Ok(all)
    }

    async fn domain(&self, host: &str, name: &str) -> Result<Domain, Unable> {
        self.connection(host).await?.lookup(name).await.map_err(failed)
    }

    async fn remove_domain(&self, host: &str, domain: &Domain) -> Result<(), Unable> {
        let touching = self.touching(host, &domain.name).await?;
        match touching.destroy(domain).await {
            Err(failure) if is(&failure, NO_DOMAIN) => return Ok(()),
            destroyed => unless(OPERATION_INVALID, destroyed)?,
        }
        unless(NO_DOMAIN, touching.undefine(domain, UNDEFINE).await)
    }

    async fn remove_volume(&self, host: &str, name: &str) -> Result<(), Unable> {
        for (_, pools) in self.hosts().filter(|(known, _)| *known == host) {
            for pool in pools {
                let touching = self.touching(host, name).await?;
                unless(NO_VOLUME, touching.volume_delete(pool, name).await)?;
            }
        }
        Ok(())
    }

    /// Every mark that is found on it, as it is to be; none where it is to go.
    async fn remark(
        &self,
        host: &str,
        name: &str,
        change: impl Fn(&document::Element) -> Option<String> + Send,
    ) -> Result<(), Unable> {
        let domain = self.domain(host, name).await?;
        let touching = self.touching(host, name).await?;
        let xml = touching.xml(&domain).await.map_err(failed)?;
        for element in document::metadata(&xml) {
            let changed = change(&element).unwrap_or_default();
            let done = touching.set_metadata(&domain, &element.key, &element.namespace, &changed).await;
            done.map_err(failed)?;
        }
        Ok(())
    }

    async fn domain_thing(&self, host: &str, domain: Domain) -> Result<Option<Thing>, Unable> {
        let xml = match self.connection(host).await?.xml(&domain).await {
            Ok(xml) => xml,
            Err(failure) if is(&failure, NO_DOMAIN) => return Ok(None),
            Err(failure) => return Err(failed(failure)),
        };
        let elements = document::metadata(&xml);
        let mut mark: Vec<(String, String)> =
            elements.iter().flat_map(|element| element.mark()).cloned().collect();
        mark.sort();
        mark.dedup();
        Ok(Some(Thing {
            kind: DOMAIN.to_owned(),
            place: host.to_owned(),
            content: format!("{} {elements:?}", domain.uuid),
            name: domain.name,
            instance: true,
            deleting: false,
            mark,
        }))
    }

    async fn volume_thing(&self, host: &str, pool: &str, name: String) -> Result<Option<Thing>, Unable> {
        let touching = self.touching(host, &name).await?;
        let read = async {
            let xml = touching.volume_xml(pool, &name).await?;
            let data = match name.ends_with(".iso") {
                true => touching.volume_download(pool, &name, MOST_BYTES).await?,
                false => Vec::new(),
            };
            Ok((xml, data))
        };
        let (xml, data) = match read.await {
            Ok(read) => read,
            Err(failure) if is(&failure, NO_VOLUME) => return Ok(None),
            Err(failure) => return Err(failed(failure)),
        };
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        Ok(Some(Thing {
            kind: VOLUME.to_owned(),
            place: host.to_owned(),
            content: format!("{pool} {} {:016x}", document::volume(&xml), hasher.finish()),
            name,
            instance: false,
            deleting: false,
            mark: Vec::new(),
        }))
    }

    fn everywhere(&self, each: impl Fn(&str) -> Result<(), Unable>) -> Result<(), Unable> {
        self.hosts().try_for_each(|(host, _)| each(host))
    }
}

#[async_trait]
impl Backend for Real {
    async fn inventory(&self) -> Result<Vec<Thing>, Unable> {
        let mut things = Vec::new();
        for (host, pools) in self.hosts() {
            for domain in self.domains(host).await? {
                things.extend(self.domain_thing(host, domain).await?);
            }
            for pool in pools {
                let own =
                    self.volumes(host, pool).await?.into_iter().filter(|name| !name.starts_with(SHARED));
                for name in own {
                    things.extend(self.volume_thing(host, pool, name).await?);
                }
            }
        }
        things.sort();
        Ok(things)
    }

    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable> {
        let Thing { kind, place, name, .. } = on;
        let is_domain = kind == DOMAIN;
        match action {
            Action::Remove if is_domain => {
                let domain = self.domain(place, name).await?;
                self.remove_domain(place, &domain).await
            }
            Action::Remove => self.remove_volume(place, name).await,
            Action::HoldRemoval | Action::LetGo => {
                Err(Unable::NotHere("libvirt removes at once: nothing holds a removal up".to_owned()))
            }
            Action::Finish => Err(Unable::NotHere("any domain can be started again".to_owned())),
            // Volumes bear no mark.
            Action::EditMark { .. } | Action::Unmark if !is_domain => Ok(()),
            Action::EditMark { from, to } => {
                self.remark(place, name, |element| Some(element.edited(from, to))).await
            }
            Action::Unmark => self.remark(place, name, |_| None).await,
            _ if !is_domain => Err(no_thing(kind, "treated so")),
            Action::Pause => self.administrator.pause(place, name, true),
            Action::Resume => self.administrator.pause(place, name, false),
            Action::Stop => {
                let domain = self.domain(place, name).await?;
                let touching = self.touching(place, name).await?;
                unless(OPERATION_INVALID, touching.destroy(&domain).await)
            }
            Action::TakeAddresses | Action::Bewitch => {
                Err(Unable::NotHere(format!("a real host lets nobody: {action:?}")))
            }
        }
    }

    async fn impose(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.everywhere(|host| self.administrator.never_start(host, true)),
            Condition::Full => self.everywhere(|host| self.administrator.fill_up(host, true)),
            Condition::RightsMissing => Err(Unable::NotHere(
                "libvirt's socket lets somebody in with all rights, or not at all".to_owned(),
            )),
            Condition::CursorsExpire => Err(Unable::NotHere("libvirt lists without cursors".to_owned())),
        }
    }

    async fn lift(&self, condition: Condition) -> Result<(), Unable> {
        match condition {
            Condition::NeverStarts => self.everywhere(|host| self.administrator.never_start(host, false)),
            Condition::Full => self.everywhere(|host| self.administrator.fill_up(host, false)),
            Condition::RightsMissing | Condition::CursorsExpire => Ok(()),
        }
    }

    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable> {
        for (host, pools) in self.hosts().filter(|(host, _)| **host == of.place) {
            for pool in pools {
                let is_seed = |name: &String| name.starts_with(&of.name) && name.ends_with(".iso");
                if let Some(name) = self.volumes(host, pool).await?.into_iter().find(is_seed) {
                    let touching = self.touching(host, &name).await?;
                    let image = touching.volume_download(pool, &name, MOST_BYTES).await.map_err(failed)?;
                    return Ok(seed::file(&image, "user-data"));
                }
            }
        }
        Ok(None)
    }

    /// Until no transfer is under way: so each run asks what the healthy one asked, however fast a host is.
    async fn let_time_pass(&self, time: Duration) {
        let began = tokio::time::Instant::now();
        tokio::time::sleep(time.min(LONGEST_WAIT)).await;
        while !self.ways.are_at_rest() && began.elapsed() < COMES_TO_REST {
            tokio::time::sleep(LOOK).await;
        }
    }
}
