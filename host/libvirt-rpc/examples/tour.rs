//! Prints what a host has: `cargo run -p libvirt-remote --example tour -- /run/libvirt/libvirt-sock`.

use std::error::Error;

use libvirt_remote::{Connection, ListDomainsFlags, ListPoolsFlags};
use tokio::net::UnixStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).ok_or("usage: tour SOCKET")?;
    let libvirt = Connection::open(UnixStream::connect(socket).await?, "qemu:///system").await?;
    // Several at once, over the one connection.
    let (name, version, node, free) = tokio::try_join!(
        libvirt.connect_get_hostname(),
        libvirt.connect_get_lib_version(),
        libvirt.node_get_info(),
        libvirt.node_get_free_memory(),
    )?;
    println!(
        "{name}: libvirt {version}, {} processors, {} of {} MiB free",
        node.cpus,
        free >> 20,
        node.memory >> 10
    );
    for pool in libvirt.connect_list_all_storage_pools(ListPoolsFlags::ACTIVE).await? {
        let info = libvirt.storage_pool_get_info(&pool).await?;
        println!("pool {}: {} of {} MiB free", pool.name, info.available >> 20, info.capacity >> 20);
        for vol in libvirt.storage_pool_list_all_volumes(&pool).await? {
            let info = libvirt.storage_vol_get_info(&vol).await?;
            println!("  {} {} MiB, {} MiB on disk", vol.name, info.capacity >> 20, info.allocation >> 20);
        }
    }
    for domain in libvirt.connect_list_all_domains(ListDomainsFlags::NONE).await? {
        println!("domain {} {:?}", domain.name, libvirt.domain_get_state(&domain).await?.0);
    }
    libvirt.close().await;
    Ok(())
}
