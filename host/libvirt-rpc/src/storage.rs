//! Calls about storage pools and their volumes.

use crate::{
    connection::Connection,
    error::Error,
    flow::Direction,
    host::{MAX_LIST, listed, one},
    procedure as p,
    stream::{Download, Upload},
    types::{StoragePool, StorageVol},
    xdr::{code, flags, record},
};

code! {
    /// How a pool is: `virStoragePoolState`.
    pub enum StoragePoolState {
        /// Not started.
        Inactive = 0,
        /// Being made.
        Building = 1,
        /// In use.
        Running = 2,
        /// In use, with something broken.
        Degraded = 3,
        /// In use, but can't be reached.
        Inaccessible = 4,
    }
}

record! {
    /// How full a pool is.
    pub struct StoragePoolInfo {
        /// How it is.
        pub state: StoragePoolState,
        /// Bytes in all.
        pub capacity: u64,
        /// Bytes in use.
        pub allocation: u64,
        /// Bytes that are free.
        pub available: u64,
    }
}

code! {
    /// What a volume is: `virStorageVolType`.
    pub enum StorageVolType {
        /// A file.
        File = 0,
        /// A block device.
        Block = 1,
        /// A folder.
        Dir = 2,
        /// On another host.
        Network = 3,
        /// A folder on another host.
        NetDir = 4,
        /// A Ploop image.
        Ploop = 5,
    }
}

record! {
    /// How large a volume is.
    pub struct StorageVolInfo {
        /// What it is.
        pub kind: StorageVolType,
        /// Bytes that a guest sees.
        pub capacity: u64,
        /// Bytes that it takes.
        pub allocation: u64,
    }
}

flags! {
    /// How a pool is made.
    pub struct StoragePoolBuildFlags {
        /// Even over what is there.
        OVERWRITE = 2,
        /// Not over what is there.
        NO_OVERWRITE = 4,
    }
}

flags! {
    /// How a volume is made.
    pub struct StorageVolCreateFlags {
        /// Take the space of its metadata at once.
        PREALLOC_METADATA = 1,
        /// Share blocks with the volume it is copied from.
        REFLINK = 2,
    }
}

flags! {
    /// How a volume's size is changed.
    pub struct StorageVolResizeFlags {
        /// Take the space at once.
        ALLOCATE = 1,
        /// The size is a difference.
        DELTA = 2,
        /// It may become smaller.
        SHRINK = 4,
    }
}

/// Storage pools and volumes.
impl Connection {
    /// The pool of this name; [`NO_STORAGE_POOL`](crate::ErrorCode::NO_STORAGE_POOL) if there is none.
    pub async fn storage_pool_lookup_by_name(&self, name: &str) -> Result<StoragePool, Error> {
        one(self.call(p::STORAGE_POOL_LOOKUP_BY_NAME, name).await)
    }

    /// Makes a pool, or changes the definition of the one with this name and UUID.
    pub async fn storage_pool_define_xml(&self, xml: &str) -> Result<StoragePool, Error> {
        one(self.call(p::STORAGE_POOL_DEFINE_XML, &(xml, 0_u32)).await)
    }

    /// Makes what a pool stands on, such as its folder.
    pub async fn storage_pool_build(
        &self,
        pool: &StoragePool,
        flags: StoragePoolBuildFlags,
    ) -> Result<(), Error> {
        self.call(p::STORAGE_POOL_BUILD, &(pool, flags)).await
    }

    /// Starts a pool.
    pub async fn storage_pool_create(&self, pool: &StoragePool) -> Result<(), Error> {
        self.call(p::STORAGE_POOL_CREATE, &(pool, 0_u32)).await
    }

    /// Stops a pool; its volumes stay.
    pub async fn storage_pool_destroy(&self, pool: &StoragePool) -> Result<(), Error> {
        self.call(p::STORAGE_POOL_DESTROY, pool).await
    }

    /// Forgets a pool that is stopped.
    pub async fn storage_pool_undefine(&self, pool: &StoragePool) -> Result<(), Error> {
        self.call(p::STORAGE_POOL_UNDEFINE, pool).await
    }

    /// Sets whether a pool starts with the daemon.
    pub async fn storage_pool_set_autostart(&self, pool: &StoragePool, on: bool) -> Result<(), Error> {
        self.call(p::STORAGE_POOL_SET_AUTOSTART, &(pool, i32::from(on))).await
    }

    /// Looks at what is in the pool anew: files that came without libvirt are not seen before.
    pub async fn storage_pool_refresh(&self, pool: &StoragePool) -> Result<(), Error> {
        self.call(p::STORAGE_POOL_REFRESH, &(pool, 0_u32)).await
    }

    /// How full a pool is.
    pub async fn storage_pool_get_info(&self, pool: &StoragePool) -> Result<StoragePoolInfo, Error> {
        self.call(p::STORAGE_POOL_GET_INFO, pool).await
    }

    /// A pool's document.
    pub async fn storage_pool_get_xml_desc(&self, pool: &StoragePool) -> Result<String, Error> {
        one(self.call(p::STORAGE_POOL_GET_XML_DESC, &(pool, 0_u32)).await)
    }

    /// All volumes of a pool, as of its last refresh.
    pub async fn storage_pool_list_all_volumes(&self, pool: &StoragePool) -> Result<Vec<StorageVol>, Error> {
        listed::<_, MAX_LIST>(self.call(p::STORAGE_POOL_LIST_ALL_VOLUMES, &(pool, 1_i32, 0_u32)).await)
    }

    /// The volume of this name; [`NO_STORAGE_VOL`](crate::ErrorCode::NO_STORAGE_VOL) if there is none.
    pub async fn storage_vol_lookup_by_name(
        &self,
        pool: &StoragePool,
        name: &str,
    ) -> Result<StorageVol, Error> {
        one(self.call(p::STORAGE_VOL_LOOKUP_BY_NAME, &(pool, name)).await)
    }

    /// The volume of this key, in whatever pool.
    pub async fn storage_vol_lookup_by_key(&self, key: &str) -> Result<StorageVol, Error> {
        one(self.call(p::STORAGE_VOL_LOOKUP_BY_KEY, key).await)
    }

    /// The volume at this path, in whatever pool.
    pub async fn storage_vol_lookup_by_path(&self, path: &str) -> Result<StorageVol, Error> {
        one(self.call(p::STORAGE_VOL_LOOKUP_BY_PATH, path).await)
    }

    /// Makes a volume; [`STORAGE_VOL_EXIST`](crate::ErrorCode::STORAGE_VOL_EXIST) if there is one of that
    /// name.
    pub async fn storage_vol_create_xml(
        &self,
        pool: &StoragePool,
        xml: &str,
        flags: StorageVolCreateFlags,
    ) -> Result<StorageVol, Error> {
        one(self.call(p::STORAGE_VOL_CREATE_XML, &(pool, xml, flags)).await)
    }

    /// Makes a volume with the content of another.
    pub async fn storage_vol_create_xml_from(
        &self,
        pool: &StoragePool,
        xml: &str,
        source: &StorageVol,
        flags: StorageVolCreateFlags,
    ) -> Result<StorageVol, Error> {
        one(self.call(p::STORAGE_VOL_CREATE_XML_FROM, &(pool, xml, source, flags)).await)
    }

    /// Removes a volume, also one that a domain uses.
    pub async fn storage_vol_delete(&self, vol: &StorageVol) -> Result<(), Error> {
        self.call(p::STORAGE_VOL_DELETE, &(vol, 0_u32)).await
    }

    /// Changes what a guest sees as a volume's size.
    pub async fn storage_vol_resize(
        &self,
        vol: &StorageVol,
        capacity: u64,
        flags: StorageVolResizeFlags,
    ) -> Result<(), Error> {
        self.call(p::STORAGE_VOL_RESIZE, &(vol, capacity, flags)).await
    }

    /// How large a volume is.
    pub async fn storage_vol_get_info(&self, vol: &StorageVol) -> Result<StorageVolInfo, Error> {
        self.call(p::STORAGE_VOL_GET_INFO, vol).await
    }

    /// A volume's document: among others its path, format and backing file.
    pub async fn storage_vol_get_xml_desc(&self, vol: &StorageVol) -> Result<String, Error> {
        one(self.call(p::STORAGE_VOL_GET_XML_DESC, &(vol, 0_u32)).await)
    }

    /// Where a volume is at the host.
    pub async fn storage_vol_get_path(&self, vol: &StorageVol) -> Result<String, Error> {
        one(self.call(p::STORAGE_VOL_GET_PATH, vol).await)
    }

    /// Begins to write into a volume, from `offset` on: exactly `length` bytes, or, without a length, as many
    /// as are written before [`Upload::finish`].
    ///
    /// ```no_run
    /// # async fn fill(libvirt: libvirt_remote::Connection, vol: libvirt_remote::StorageVol, image: &[u8])
    /// # -> Result<(), libvirt_remote::Error> {
    /// let mut upload = libvirt.storage_vol_upload(&vol, 0, Some(image.len() as u64)).await?;
    /// for piece in image.chunks(64 * 1024) {
    ///     upload.write(piece).await?;
    /// }
    /// upload.finish().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn storage_vol_upload(
        &self,
        vol: &StorageVol,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Upload, Error> {
        let arguments = (vol, offset, length.unwrap_or(UNLIMITED), 0_u32);
        let stream = self.open_stream(p::STORAGE_VOL_UPLOAD, &arguments, Direction::Up).await?;
        Ok(Upload::new(stream, length))
    }

    /// Begins to read a volume, from `offset` on: at most `length` bytes, or, without a length, up to its
    /// end.
    pub async fn storage_vol_download(
        &self,
        vol: &StorageVol,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Download, Error> {
        let arguments = (vol, offset, length.unwrap_or(UNLIMITED), 0_u32);
        let stream = self.open_stream(p::STORAGE_VOL_DOWNLOAD, &arguments, Direction::Down).await?;
        Ok(Download::new(stream, length))
    }
}

/// What libvirt takes for "no limit".
const UNLIMITED: u64 = 0;
