//! A volume that is being filled by the host itself: over a connection of its own, which no call of a guest shares.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use egress_runtime::capability::LibvirtFailure;
use libvirt_remote::{self as rpc, ErrorCode, StoragePool, StorageVol, StorageVolCreateFlags, Upload};

use super::{
    dial::Line,
    host::{Host, Purpose},
};

/// A volume that does not exist yet.
pub(crate) struct Filling {
    host: Arc<Host>,
    line: Line,
    pool: StoragePool,
    name: String,
}

/// One that does.
pub(crate) struct Begun {
    host: Arc<Host>,
    line: Line,
    pool: StoragePool,
    upload: Upload,
}

type Answer<T> = Result<T, LibvirtFailure>;

impl Host {
    /// Whether such a volume may be filled.
    pub(crate) fn may_fill(&self, pool: &str, volume: &str) -> Answer<()> {
        self.may_use_pool(pool)?;
        self.may_touch(volume)
    }

    async fn ask<T>(&self, call: impl Future<Output = Result<T, rpc::Error>>) -> Answer<T> {
        self.within(self.grant.timeouts.call_ms, call).await
    }

    /// None where it stands already.
    pub(crate) async fn filling(self: &Arc<Self>, pool: &str, name: &str) -> Answer<Option<Filling>> {
        self.may_fill(pool, name)?;
        let line = self.dial(Purpose::Change).await?;
        let pool = self.ask(line.libvirt.storage_pool_lookup_by_name(pool)).await?;
        // What came without libvirt is not seen otherwise.
        self.ask(line.libvirt.storage_pool_refresh(&pool)).await?;
        match self.ask(line.libvirt.storage_vol_lookup_by_name(&pool, name)).await {
            Ok(_) => Ok(None),
            Err(failure) if failure.code == ErrorCode::NO_STORAGE_VOL.0 => {
                Ok(Some(Filling { host: Arc::clone(self), line, pool, name: name.to_owned() }))
            }
            Err(failure) => Err(failure),
        }
    }

    /// What was made of a transfer that failed. None there is fine.
    pub(crate) async fn remove(&self, pool: &str, name: &str) -> Answer<()> {
        self.may_fill(pool, name)?;
        let line = self.pooled(Purpose::Change).await?;
        let gone = |failure: &LibvirtFailure| failure.code == ErrorCode::NO_STORAGE_VOL.0;
        let pool = self.ask(line.libvirt.storage_pool_lookup_by_name(pool)).await?;
        let volume: StorageVol = match self.ask(line.libvirt.storage_vol_lookup_by_name(&pool, name)).await {
            Err(failure) if gone(&failure) => return Ok(()),
            found => found?,
        };
        match self.ask(line.libvirt.storage_vol_delete(&volume)).await {
            Err(failure) if gone(&failure) => Ok(()),
            deleted => deleted,
        }
    }
}

impl Filling {
    /// Says whether the volume may have been made by this. As raw whatever it holds: the pool's refresh finds out what came.
    pub(crate) async fn begin(self, bytes: Option<u64>, made: &AtomicBool) -> Answer<Begun> {
        let Self { host, line, pool, name } = self;
        // A file grows with what is written; only its beginning is made.
        let (capacity, unit) = (bytes.unwrap_or(1), "bytes");
        let document = format!(
            "<volume><name>{name}</name><capacity unit='{unit}'>{capacity}</capacity><allocation>0</allocation>\
             <target><format type='raw'/></target></volume>"
        );
        let creating = line.libvirt.storage_vol_create_xml(&pool, &document, StorageVolCreateFlags::NONE);
        let created = host.ask(creating).await;
        // One that somebody else made in between is not ours to remove.
        made.store(created.as_ref().map_or_else(|failure| failure.sent, |_| true), Ordering::SeqCst);
        let volume = created?;
        let upload = host.ask(line.libvirt.storage_vol_upload(&volume, 0, bytes)).await?;
        Ok(Begun { host, line, pool, upload })
    }
}

impl Begun {
    pub(crate) async fn write(&mut self, data: Bytes) -> Answer<()> {
        let ms = self.host.grant.timeouts.upload_ms;
        self.host.within(ms, self.upload.write_bytes(data)).await
    }

    /// Once this is answered, all of it is there.
    pub(crate) async fn finish(self) -> Answer<()> {
        let Self { host, line, pool, upload } = self;
        host.within(host.grant.timeouts.upload_ms, upload.finish()).await?;
        host.ask(line.libvirt.storage_pool_refresh(&pool)).await
    }
}
