//! The libvirt remote protocol over any byte stream: pure Rust, asynchronous, bounded.
//!
//! A libvirt daemon (`libvirtd`, `virtqemud`, `virtproxyd`) listens on a UNIX socket. This crate speaks with
//! it over whatever reaches that socket: the socket itself, an SSH channel, a pipe in a test. It needs no C
//! library, and it does not dial: give it something that is [`AsyncRead`](tokio::io::AsyncRead) and
//! [`AsyncWrite`](tokio::io::AsyncWrite).
//!
//! ```no_run
//! use libvirt_remote::{Connection, DomainCreateFlags, DomainDefineFlags, ErrorCode};
//!
//! # async fn example(xml: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let socket = tokio::net::UnixStream::connect("/run/libvirt/libvirt-sock").await?;
//! let libvirt = Connection::open(socket, "qemu:///system").await?;
//! println!("libvirt {} at {}", libvirt.connect_get_lib_version().await?,
//! libvirt.connect_get_hostname().await?);
//!
//! let domain = match libvirt.domain_lookup_by_name("guest").await {
//!     Ok(domain) => domain,
//!     Err(error) if error.code() == Some(ErrorCode::NO_DOMAIN) => {
//!         libvirt.domain_define_xml(xml, DomainDefineFlags::VALIDATE).await?
//!     }
//!     Err(error) => return Err(error.into()),
//! };
//! libvirt.domain_create(&domain, DomainCreateFlags::NONE).await?;
//! libvirt.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` has a tour of a host, and a connection through the `ssh` program.
//!
//! # Calls
//!
//! Methods bear the names of libvirt's API and take and answer its terms. Any number of them may be under way
//! on one [`Connection`]; answers are matched by serial, in whatever order they come. No call has a deadline
//! of its own: a caller that does not want to wait any longer drops the future, as [`tokio::time::timeout`]
//! does. That gives up this call alone. If it was not written yet, it never is; else its answer is recognised
//! and dropped when it comes, but libvirt may have carried it out.
//!
//! Procedures without a method can be called too: [`Connection::call`], [`Procedure`] and [`xdr`] are what
//! the methods are made of.
//!
//! # Streams
//!
//! [`Upload`] counts, because libvirt does not: fewer bytes than declared are a complete upload to it, and on
//! more, some versions hang. [`Download`] ends with `None` only after both sides have said that it is the
//! end. Both share the connection with calls, which overtake them. A stream that is dropped is given up at
//! the server too. Sparse streams are not supported.
//!
//! # When something breaks
//!
//! | what | who notices |
//! |---|---|
//! | libvirt refuses | that call: [`Error::Libvirt`] with code, domain, level, message |
//! | an answer can't be read | that call: [`Error::Answer`] |
//! | a stream ends wrongly | that stream: [`Error::Stream`], or [`Error::Libvirt`] |
//! | the other end closes, goes silent or breaks the protocol | all who wait, at once, with one [`Cause`]: [`Error::Closed`] |
//!
//! [`Error::outcome_unknown`] says whether a call may have been carried out all the same. A connection that
//! has ended stays so; open another.
//!
//! # What a server can't do
//!
//! Whatever a server sends, nothing here panics, loops or grows beyond bounds: packets have a largest size
//! and take memory as their bytes come, text and lists are checked against the protocol's limits and the
//! bytes that are there before anything is allocated, streams hold a bounded number of bytes, events are
//! dropped, and an answer nobody waits for is too. [`Options`] has the bounds.
//!
//! # What is not here
//!
//! Authentication (SASL, polkit): a server that asks for it is [`Error::Authentication`]. Events. Sparse
//! streams. File descriptors. TLS, which is the byte stream's matter.

mod book;
mod connection;
mod domain;
mod error;
mod fault;
mod flow;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod host;
mod network;
mod owner;
mod packet;
mod procedure;
mod storage;
mod stream;
mod types;
pub mod xdr;

pub use book::Statistics;
pub use connection::{Connection, Keepalive, Options};
pub use domain::{
    AddressSource, AddressType, AffectFlags, AgentTimeout, ConsoleFlags, DomainCreateFlags,
    DomainDefineFlags, DomainDestroyFlags, DomainInfo, DomainState, DomainUndefineFlags, DomainXmlFlags,
    Interface, InterfaceAddress, MetadataType, Namespace, SaveFlags,
};
pub use error::{Cause, Error, StreamError, Violation};
pub use fault::{ErrorCode, ErrorDomain, ErrorLevel, Fault};
pub use host::{AuthMethod, ListDomainsFlags, ListPoolsFlags, MemoryStat, NodeInfo, Platform, Version};
pub use network::DhcpLease;
pub use procedure::Procedure;
pub use storage::{
    StoragePoolBuildFlags, StoragePoolInfo, StoragePoolState, StorageVolCreateFlags, StorageVolInfo,
    StorageVolResizeFlags, StorageVolType,
};
pub use stream::{Console, Download, Upload};
pub use types::{Domain, InvalidUuid, Network, StoragePool, StorageVol, Uuid};
