//! libvirt and transfers, inside a component.

use super::Imports;
use crate::{
    bindings::egress::provider as wit,
    libvirt::{
        Allowed, Connection, Domain, DomainState, Failure, Info, InterfaceAddress, Libvirt, PoolInfo, Source,
        Stage,
    },
    transfer::{Fill, Offer, Transfer, TransferFailure, TransferFailureKind, Transferred},
};

impl Libvirt for Imports {
    fn granted(&self, host: &str) -> Result<Allowed, Failure> {
        let allowed = wit::libvirt::granted(host).map_err(failure)?;
        Ok(Allowed { pools: allowed.pools, bridges: allowed.bridges, prefix: allowed.prefix })
    }

    fn open(&self, host: &str, dedicated: bool) -> Result<Box<dyn Connection + '_>, Failure> {
        let connection = wit::libvirt::Connection::open(host, dedicated).map_err(failure)?;
        Ok(Box::new(connection))
    }
}

impl Connection for wit::libvirt::Connection {
    fn info(&self) -> Result<Info, Failure> {
        let info = self.info().map_err(failure)?;
        Ok(Info { user: info.user, hostname: info.hostname, libvirt_version: info.libvirt_version })
    }
    fn free_memory(&self) -> Result<u64, Failure> {
        self.free_memory().map_err(failure)
    }
    fn capabilities(&self) -> Result<String, Failure> {
        self.capabilities().map_err(failure)
    }
    fn domains(&self) -> Result<Vec<Domain>, Failure> {
        Ok(self.domains().map_err(failure)?.into_iter().map(domain).collect())
    }
    fn lookup(&self, name: &str) -> Result<Domain, Failure> {
        self.lookup(name).map(domain).map_err(failure)
    }
    fn define(&self, xml: &str) -> Result<Domain, Failure> {
        self.define(xml).map(domain).map_err(failure)
    }
    fn start(&self, domain: &Domain) -> Result<(), Failure> {
        self.start(&named(domain)).map_err(failure)
    }
    fn destroy(&self, domain: &Domain) -> Result<(), Failure> {
        self.destroy(&named(domain)).map_err(failure)
    }
    fn undefine(&self, domain: &Domain, flags: u32) -> Result<(), Failure> {
        self.undefine(&named(domain), flags).map_err(failure)
    }
    fn set_autostart(&self, domain: &Domain, on: bool) -> Result<(), Failure> {
        self.set_autostart(&named(domain), on).map_err(failure)
    }
    fn state(&self, domain: &Domain) -> Result<DomainState, Failure> {
        let seen = self.state(&named(domain)).map_err(failure)?;
        Ok(DomainState { state: seen.state, reason: seen.reason })
    }
    fn xml(&self, domain: &Domain) -> Result<String, Failure> {
        self.xml(&named(domain)).map_err(failure)
    }
    fn metadata(&self, domain: &Domain, uri: &str) -> Result<String, Failure> {
        self.metadata(&named(domain), uri).map_err(failure)
    }
    fn set_metadata(&self, domain: &Domain, key: &str, uri: &str, xml: &str) -> Result<(), Failure> {
        self.set_metadata(&named(domain), key, uri, xml).map_err(failure)
    }
    fn addresses(&self, domain: &Domain, source: Source) -> Result<Vec<InterfaceAddress>, Failure> {
        let found = self.addresses(&named(domain), source.number()).map_err(failure)?;
        let address = |found: wit::libvirt::InterfaceAddress| InterfaceAddress {
            device: found.device,
            mac: found.mac,
            ip: found.ip,
            prefix: found.prefix,
        };
        Ok(found.into_iter().map(address).collect())
    }
    fn pool_info(&self, pool: &str) -> Result<PoolInfo, Failure> {
        let info = self.pool_info(pool).map_err(failure)?;
        Ok(PoolInfo {
            state: info.state,
            capacity: info.capacity,
            allocation: info.allocation,
            available: info.available,
        })
    }
    fn storage_capabilities(&self) -> Result<String, Failure> {
        self.storage_capabilities().map_err(failure)
    }
    fn pool_refresh(&self, pool: &str) -> Result<(), Failure> {
        self.pool_refresh(pool).map_err(failure)
    }
    fn volumes(&self, pool: &str) -> Result<Vec<String>, Failure> {
        self.volumes(pool).map_err(failure)
    }
    fn volume_xml(&self, pool: &str, name: &str) -> Result<String, Failure> {
        self.volume_xml(pool, name).map_err(failure)
    }
    fn volume_create(&self, pool: &str, xml: &str) -> Result<(), Failure> {
        self.volume_create(pool, xml).map_err(failure)
    }
    fn volume_delete(&self, pool: &str, name: &str) -> Result<(), Failure> {
        self.volume_delete(pool, name).map_err(failure)
    }
    fn volume_upload(&self, pool: &str, name: &str, data: &[u8]) -> Result<(), Failure> {
        self.volume_upload(pool, name, data).map_err(failure)
    }
    fn volume_download(&self, pool: &str, name: &str, max: u32) -> Result<Vec<u8>, Failure> {
        self.volume_download(pool, name, max).map_err(failure)
    }
}

impl Transfer for Imports {
    fn probe(&self, url: &str) -> Result<Offer, TransferFailure> {
        let offer = wit::transfer::probe(url).map_err(unfilled)?;
        Ok(Offer { size: offer.size, etag: offer.etag, last_modified: offer.last_modified })
    }

    fn ensure(&self, fill: &Fill) -> Result<Transferred, TransferFailure> {
        let request = wit::transfer::Request {
            host: fill.host.clone(),
            pool: fill.pool.clone(),
            volume: fill.volume.clone(),
            url: fill.url.clone(),
            format: fill.format.to_owned(),
            sha256: fill.sha256.clone(),
        };
        wit::transfer::ensure(&request).map(transferred).map_err(unfilled)
    }

    fn status(&self, host: &str, pool: &str, volume: &str) -> Result<Option<Transferred>, TransferFailure> {
        let known = wit::transfer::status(host, pool, volume).map_err(unfilled)?;
        Ok(known.map(transferred))
    }
}

fn domain(found: wit::libvirt::Domain) -> Domain {
    Domain { name: found.name, uuid: found.uuid }
}

fn named(domain: &Domain) -> wit::libvirt::Domain {
    wit::libvirt::Domain { name: domain.name.clone(), uuid: domain.uuid.clone() }
}

fn failure(failure: wit::libvirt::Failure) -> Failure {
    Failure {
        stage: Stage::read(&failure.stage),
        code: failure.code,
        domain: failure.domain,
        errno: failure.errno,
        message: failure.message,
        sent: failure.sent,
    }
}

fn transferred(progress: wit::transfer::Progress) -> Transferred {
    Transferred { bytes: progress.bytes, total: progress.total, sha256: progress.sha256 }
}

fn unfilled(failure: wit::transfer::Failure) -> TransferFailure {
    TransferFailure {
        kind: TransferFailureKind::read(&failure.kind),
        status: failure.status,
        code: failure.code,
        message: failure.message,
    }
}
