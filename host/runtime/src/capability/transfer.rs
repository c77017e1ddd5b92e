//! Volumes filled from URLs, as it is lent.

use async_trait::async_trait;

/// What is to be filled from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The host, by the grant's name.
    pub host: String,
    /// The pool there.
    pub pool: String,
    /// The volume in it.
    pub volume: String,
    /// http or https.
    pub url: String,
    /// `qcow2`, `raw` or `iso`.
    pub format: String,
    /// 64 hexadecimal digits.
    pub sha256: Option<String>,
}

/// How far a transfer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Written so far.
    pub bytes: u64,
    /// None while the server has not said it.
    pub total: Option<u64>,
    /// Of all of it: the transfer is done.
    pub sha256: Option<String>,
}

/// What a server says of what is behind a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Bytes.
    pub size: Option<u64>,
    /// Changes when the content does.
    pub etag: Option<String>,
    /// As the server words it.
    pub last_modified: Option<String>,
}

/// Why there is no transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferFailure {
    /// What kind.
    pub kind: TransferFailureKind,
    /// The HTTP status where the kind is that.
    pub status: Option<u16>,
    /// libvirt's code where the kind is that.
    pub code: Option<i32>,
    /// For people; no credential.
    pub message: String,
}

/// See `wit/transfer.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferFailureKind {
    /// The grant does not reach there.
    Denied,
    /// The server's name does not resolve.
    Name,
    /// No connection.
    Connect,
    /// No trust.
    Tls,
    /// Nothing came for too long, or all of it took too long.
    Timeout,
    /// The connection broke, and could not be taken up.
    Cut,
    /// The server answered so.
    Status,
    /// It is more than may be, or than the server said.
    TooLarge,
    /// What came is not what was asked for.
    DigestMismatch,
    /// Too many, or one that leads nowhere.
    Redirects,
    /// The host has no usable credentials.
    Credentials,
    /// Such a volume stands there, and is not being filled.
    Exists,
    /// The pool is full.
    NoSpace,
    /// libvirt refused, or could not be reached.
    Libvirt,
}

impl TransferFailureKind {
    /// As the contract spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Name => "name",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Status => "status",
            Self::TooLarge => "too-large",
            Self::DigestMismatch => "digest-mismatch",
            Self::Redirects => "redirects",
            Self::Credentials => "credentials",
            Self::Exists => "exists",
            Self::NoSpace => "no-space",
            Self::Libvirt => "libvirt",
        }
    }
}

/// Volumes filled from URLs, within one entry's grant.
#[async_trait]
pub trait Transfer: Send + Sync {
    /// What a URL offers.
    async fn probe(&self, url: &str) -> Result<Offer, TransferFailure>;
    /// Starts a transfer, or says how far it is: one for each volume, whoever asks. It goes on after the
    /// call, as long as writes may go on.
    async fn ensure(&self, fill: &Fill) -> Result<Progress, TransferFailure>;
    /// How far it is; none when none is known.
    async fn status(&self, host: &str, pool: &str, volume: &str)
    -> Result<Option<Progress>, TransferFailure>;
}
