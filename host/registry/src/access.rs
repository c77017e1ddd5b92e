//! How a registry is reached, and how far it may lead.

use std::time::Duration;

use egress_capabilities::transfer::address::Range;

use crate::login::Login;

/// What somebody said of a registry. Without a word: TLS, whom the system trusts, nobody's login, nothing inside.
#[derive(Clone, Default)]
pub struct Access {
    /// As whom; nobody where none.
    pub login: Option<Login>,
    /// Who signs for it, in PEM, and nobody else then.
    pub ca: Option<String>,
    /// Without TLS, which everybody on the way can read and change.
    pub plain_http: bool,
    /// Addresses inside that it may send to, for logins or for blobs. Its own needs no mention.
    pub inside: Vec<Range>,
    /// When to give up.
    pub timeouts: Timeouts,
}

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// Between two parts of an answer.
    pub stall: Duration,
    /// For an image, all requests together: one that drips ends too.
    pub whole: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(10), stall: seconds(30), whole: seconds(300) }
    }
}
