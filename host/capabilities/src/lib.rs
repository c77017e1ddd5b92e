//! What the host lends to providers, for real: HTTP to granted endpoints, the Kubernetes API of granted clusters,
//! libvirt at granted hosts, and volumes there filled from URLs.
//!
//! A capability stands between a component and a backend. It owns addresses, trust and credentials, lets
//! nothing through that its grant does not list, ends every request at a deadline, bounds every answer
//! while it is read, and repeats nothing: what a failure means, the provider knows better.
//!
//! It logs nothing either, since the runtime logs each host call. But a process that uses kube beside it
//! should keep the log target `kube_client::client` at `error`: at `warn` kube prints whole answers that it
//! can't decode, Secrets among them. The same holds for `russh` at `debug`, which shows what is exchanged.

mod connecting;
mod credentials;
mod faults;
mod guarded;
pub mod http;
pub mod kubernetes;
pub mod libvirt;
mod timeouts;
pub mod transfer;

pub use credentials::{CredentialRef, NoCredential, SecretRef, SecretUnread, Secrets};
pub use http::{HttpCapability, HttpGrant};
pub use kubernetes::{ClusterGrant, Granted, HomeCluster, KubernetesCapability, KubernetesGrant, Rule};
pub use libvirt::{Beside, LibvirtCapability, LibvirtGrant};
pub use transfer::{TransferCapability, TransferGrant};
