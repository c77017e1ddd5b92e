//! Against a real libvirt daemon: `cargo test -p libvirt-remote --test real -- --ignored`.
//!
//! | variable | what it names |
//! |---|---|
//! | `LIBVIRT_REMOTE_SOCKET` | the daemon's UNIX socket; needed |
//! | `LIBVIRT_REMOTE_POOL` | a pool of files, by default `default` at `/var/lib/libvirt/images`, made if missing |
//! | `LIBVIRT_REMOTE_GUEST` | a qcow2 image of a guest with an agent, and |
//! | `LIBVIRT_REMOTE_BRIDGE` | a bridge with DHCP for it: both or that test fails |
//! | `LIBVIRT_REMOTE_SERVICE` | a command that takes `libvirtd` and `stop`, `start`, `freeze` or `thaw`, for `faults`, which run alone |
//!
//! All that is made here has names that begin with `libvirt-remote-`, and goes again.

#[cfg(test)]
mod domains;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod host;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod volumes;
