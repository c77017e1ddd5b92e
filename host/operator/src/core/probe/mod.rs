//! Whether Proxies do what they are for, found out by asking them.
//!
//! A backend says that a machine runs, not that a request gets out of it. So each Proxy is probed: its port, or a
//! request through it. What fails is blamed on a Proxy only if nothing else explains it: a URL that answers nobody
//! says nothing of those who asked.
//!
//! [`Course`] judges one Proxy; [`Fleet`] knows all of them, who is due, what they have in common and which URLs
//! are up; [`run`] asks, through a [`Probe`]. The reconciler takes over what was found into statuses and is the only
//! one to write them.

mod course;
mod evidence;
mod fleet;
mod outside;
mod prober;
mod report;
mod settings;

use std::{net::SocketAddr, time::Duration};

use async_trait::async_trait;
use http::Uri;

pub use course::{Course, State};
pub use fleet::{Fleet, Target};
pub use prober::{Teller, run};
pub use report::{Report, forgotten, known, told};
pub use settings::{Ask, Check, HealthConfig, MOST_AT_ONCE};

/// What went wrong, for people; the reason is stable. Neither holds a time or a count: they go into statuses, and what
/// differs each time would be written each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `connect-refused`.
    pub reason: String,
    /// The thing and the cause.
    pub message: String,
}

impl Fault {
    /// Of a stable reason.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into() }
    }
}

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was asked for came, with the beginning of its text where there is one.
    Passed(String),
    /// The proxy itself is at fault, whatever lies behind it.
    Broken(Fault),
    /// The proxy, or what lies behind it: only others can tell.
    Doubtful(Fault),
    /// The URL's own server is at fault: it was reached.
    UrlAtFault(Fault),
}

/// Asks. Each call ends within about twice its time.
#[async_trait]
pub trait Probe: Send + Sync + 'static {
    /// Whether the port takes connections.
    async fn connect(&self, at: SocketAddr, within: Duration) -> Outcome;

    /// Asks for the URL by way of the proxy.
    async fn through(&self, at: SocketAddr, url: &Uri, within: Duration) -> Outcome;

    /// Asks for the URL without any proxy: whether it answers, and not with a fault of its own.
    async fn direct(&self, url: &Uri, within: Duration) -> bool;
}
