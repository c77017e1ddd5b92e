//! A volume that is being filled by the host itself: over a connection of its own, which no call of a guest shares.
//!
//! Bytes never find the pool full: their room is taken before they are sent. A stream that finds none is the end of some
//! libvirtds, which spin from then on and answer nobody (11.3.0).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::{Bytes, BytesMut};
use egress_runtime::capability::LibvirtFailure;
use libvirt_remote::{
    self as rpc, ErrorCode, StoragePool, StorageVol, StorageVolCreateFlags, StorageVolResizeFlags, Upload,
};

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
    volume: StorageVol,
    way: Way,
}

/// How its bytes get there.
enum Way {
    /// Its length is known, and all of it has its room.
    Whole(Upload),
    /// Piece by piece, each of which gets its room first. The beginning is written last: by that libvirt tells a format,
    /// and what has one is another thing to resize.
    Pieces { beginning: Option<Bytes>, held: BytesMut, at: u64 },
}

/// What is held in memory of an image whose length nobody tells.
const PIECE: usize = 4 << 20;
/// ENOSPC.
const NO_SPACE: i32 = 28;

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
            Err(failure) if is_gone(&failure) => {
                Ok(Some(Filling { host: Arc::clone(self), line, pool, name: name.to_owned() }))
            }
            Err(failure) => Err(failure),
        }
    }

    /// What was made of a transfer that failed. None there is fine.
    pub(crate) async fn remove(&self, pool: &str, name: &str) -> Answer<()> {
        self.may_fill(pool, name)?;
        let line = self.pooled(Purpose::Change).await?;
        let Some(volume) = self.volume(&line, pool, name).await? else { return Ok(()) };
        match self.ask(line.libvirt.storage_vol_delete(&volume)).await {
            Err(failure) if is_gone(&failure) => Ok(()),
            deleted => deleted,
        }
    }

    /// Whether there is such a volume.
    pub(crate) async fn holds(&self, pool: &str, name: &str) -> Answer<bool> {
        let line = self.pooled(Purpose::Read).await?;
        Ok(self.volume(&line, pool, name).await?.is_some())
    }

    async fn volume(&self, line: &Line, pool: &str, name: &str) -> Answer<Option<StorageVol>> {
        let pool = self.ask(line.libvirt.storage_pool_lookup_by_name(pool)).await?;
        match self.ask(line.libvirt.storage_vol_lookup_by_name(&pool, name)).await {
            Err(failure) if is_gone(&failure) => Ok(None),
            found => found.map(Some),
        }
    }
}

fn is_gone(failure: &LibvirtFailure) -> bool {
    failure.code == ErrorCode::NO_STORAGE_VOL.0
}

impl Filling {
    /// Says whether the volume may have been made by this. As raw whatever it holds: the pool's refresh finds out what came.
    pub(crate) async fn begin(self, bytes: Option<u64>, made: &AtomicBool) -> Answer<Begun> {
        let Self { host, line, pool, name } = self;
        let room = bytes.unwrap_or(0);
        let document = format!(
            "<volume><name>{name}</name><capacity unit='bytes'>{room}</capacity><allocation unit='bytes'>{room}\
             </allocation><target><format type='raw'/></target></volume>"
        );
        let creating = line.libvirt.storage_vol_create_xml(&pool, &document, StorageVolCreateFlags::NONE);
        // Some file systems are slow to give room.
        let created = host.within(host.grant.timeouts.upload_ms, creating).await;
        // One that somebody else made in between is not ours to remove.
        made.store(created.as_ref().map_or_else(|failure| failure.sent, |_| true), Ordering::SeqCst);
        let volume = created?;
        let way = match bytes {
            Some(_) => Way::Whole(host.ask(line.libvirt.storage_vol_upload(&volume, 0, bytes)).await?),
            None => Way::Pieces { beginning: None, held: BytesMut::new(), at: 0 },
        };
        Ok(Begun { host, line, pool, volume, way })
    }
}

impl Begun {
    pub(crate) async fn write(&mut self, data: Bytes) -> Answer<()> {
        let ms = self.host.grant.timeouts.upload_ms;
        match &mut self.way {
            Way::Whole(upload) => return self.host.within(ms, upload.write_bytes(data)).await,
            Way::Pieces { held, .. } => held.extend_from_slice(&data),
        }
        self.send(PIECE).await
    }

    /// What is held, if it is so much.
    async fn send(&mut self, least: usize) -> Answer<()> {
        let Self { host, line, volume, way, .. } = self;
        let Way::Pieces { beginning, held, at } = way else { return Ok(()) };
        if held.len() < least.max(1) {
            return Ok(());
        }
        let (from, piece) = (*at, held.split().freeze());
        *at = from.saturating_add(piece.len() as u64);
        let growing = line.libvirt.storage_vol_resize(volume, *at, StorageVolResizeFlags::ALLOCATE);
        host.within(host.grant.timeouts.upload_ms, growing).await.map_err(of_growing)?;
        if beginning.is_none() {
            *beginning = Some(piece);
            return Ok(());
        }
        self.put(from, piece).await
    }

    async fn put(&self, at: u64, piece: Bytes) -> Answer<()> {
        let sent = async {
            let length = Some(piece.len() as u64);
            let mut upload = self.line.libvirt.storage_vol_upload(&self.volume, at, length).await?;
            upload.write_bytes(piece).await?;
            upload.finish().await
        };
        self.host.within(self.host.grant.timeouts.upload_ms, sent).await.map(|_| ())
    }

    /// Once this is answered, all of it is there.
    pub(crate) async fn finish(mut self) -> Answer<()> {
        self.send(0).await?;
        if let Way::Pieces { beginning, .. } = &mut self.way
            && let Some(beginning) = beginning.take()
        {
            self.put(0, beginning).await?;
        }
        let Self { host, line, pool, way, .. } = self;
        if let Way::Whole(upload) = way {
            host.within(host.grant.timeouts.upload_ms, upload.finish()).await?;
        }
        host.ask(line.libvirt.storage_pool_refresh(&pool)).await
    }
}

/// libvirt looks itself whether a pool has the room, and has no code for that it has not.
fn of_growing(failure: LibvirtFailure) -> LibvirtFailure {
    match failure.code == ErrorCode::OPERATION_FAILED.0 {
        true => LibvirtFailure { code: ErrorCode::SYSTEM_ERROR.0, errno: NO_SPACE, ..failure },
        false => failure,
    }
}
