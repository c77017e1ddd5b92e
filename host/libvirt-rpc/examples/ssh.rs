//! Reaches a daemon through the `ssh` program, as libvirt's own client does:
//! `cargo run -p libvirt-remote --example ssh -- user@host [OPTION OF SSH]...`.
//!
//! `ssh` forwards a socket of ours to the daemon's (direct-streamlocal), so the host needs no helper program
//! and the user no shell, only the right to open the daemon's socket.

use std::{error::Error, process::Stdio, time::Duration};

use libvirt_remote::Connection;
use tokio::{net::UnixStream, process::Command, time::sleep};

const REMOTE: &str = "/var/run/libvirt/libvirt-sock";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let host = arguments.next().ok_or("usage: ssh USER@HOST [OPTION OF SSH]...")?;
    let folder = std::env::temp_dir().join(format!("libvirt-remote-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let local = folder.join("socket");
    let mut ssh = Command::new("ssh")
        .args(["-N", "-o", "ExitOnForwardFailure=yes", "-o", "BatchMode=yes"])
        .args(arguments)
        .arg("-L")
        .arg(format!("{}:{REMOTE}", local.display()))
        .arg(host)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let told = async {
        let socket = loop {
            match UnixStream::connect(&local).await {
                Ok(socket) => break socket,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        };
        let libvirt = Connection::open(socket, "qemu:///system").await?;
        let told = format!(
            "{} runs libvirt {}",
            libvirt.connect_get_hostname().await?,
            libvirt.connect_get_lib_version().await?
        );
        libvirt.close().await;
        Ok::<_, libvirt_remote::Error>(told)
    };
    let outcome = tokio::select! {
        told = told => told.map_err(Box::<dyn Error>::from),
        status = ssh.wait() => Err(format!("ssh ended before the tunnel was up: {}", status?).into()),
    };
    std::fs::remove_dir_all(&folder)?;
    println!("{}", outcome?);
    Ok(())
}
