//! What the tests share: the daemon, a pool, volumes, the smallest domain.

use std::{env, time::Duration};

use libvirt_remote::{
    Connection, DomainDestroyFlags, DomainUndefineFlags, Error, ErrorCode, ErrorDomain, StoragePool,
    StoragePoolBuildFlags, StoragePoolState, StorageVol, StorageVolCreateFlags,
};
use tokio::net::UnixStream;

pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("set {name}; the top of tests/real/main.rs says to what"))
}

pub async fn socket() -> UnixStream {
    UnixStream::connect(variable("LIBVIRT_REMOTE_SOCKET")).await.unwrap()
}

pub async fn open() -> Connection {
    Connection::open(socket().await, "qemu:///system").await.unwrap()
}

pub async fn pool(libvirt: &Connection) -> StoragePool {
    let name = env::var("LIBVIRT_REMOTE_POOL").unwrap_or_else(|_| "default".into());
    match libvirt.storage_pool_lookup_by_name(&name).await {
        Ok(pool) => pool,
        Err(error) => {
            assert_eq!(error.code(), Some(ErrorCode::NO_STORAGE_POOL), "{error}");
            let xml = format!(
                "<pool type='dir'><name>{name}</name><target><path>/var/lib/libvirt/images</path></target></pool>"
            );
            // Several tests may be at it.
            let Ok(pool) = libvirt.storage_pool_define_xml(&xml).await else {
                return libvirt.storage_pool_lookup_by_name(&name).await.unwrap();
            };
            libvirt.storage_pool_build(&pool, StoragePoolBuildFlags::NONE).await.unwrap();
            let _ = libvirt.storage_pool_create(&pool).await;
            pool
        }
    }
}

pub async fn active_pool(libvirt: &Connection) -> StoragePool {
    let pool = pool(libvirt).await;
    for _ in 0..50 {
        if libvirt.storage_pool_get_info(&pool).await.unwrap().state == StoragePoolState::Running {
            return pool;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the pool does not become active");
}

pub async fn volume(
    libvirt: &Connection,
    pool: &StoragePool,
    name: &str,
    format: &str,
    bytes: u64,
) -> StorageVol {
    if let Ok(old) = libvirt.storage_vol_lookup_by_name(pool, name).await {
        libvirt.storage_vol_delete(&old).await.unwrap();
    }
    let xml = format!(
        "<volume><name>{name}</name><capacity unit='bytes'>{bytes}</capacity><allocation>0</allocation>\
         <target><format type='{format}'/></target></volume>"
    );
    libvirt.storage_vol_create_xml(pool, &xml, StorageVolCreateFlags::NONE).await.unwrap()
}

/// The smallest domain: no disk, no network, it ends in the firmware's "no bootable device".
pub fn minimal(name: &str, uuid: &str) -> String {
    format!(
        "<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>32</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='pc'>hvm</type></os>\
         <metadata><m:mark xmlns:m='urn:libvirt-remote'><owner>tests</owner></m:mark></metadata>\
         <devices><console type='pty'/></devices></domain>"
    )
}

pub async fn forget(libvirt: &Connection, name: &str) {
    if let Ok(domain) = libvirt.domain_lookup_by_name(name).await {
        let _ = libvirt.domain_destroy(&domain, DomainDestroyFlags::NONE).await;
        let flags = DomainUndefineFlags::MANAGED_SAVE | DomainUndefineFlags::NVRAM;
        let _ = libvirt.domain_undefine(&domain, flags).await;
    }
}

/// The error's code and domain.
pub fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (ErrorCode, ErrorDomain) {
    let error = result.expect_err("libvirt took what it should refuse");
    let fault = error.fault().unwrap_or_else(|| panic!("not libvirt's own error: {error}"));
    (fault.code, fault.domain)
}
