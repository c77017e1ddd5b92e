//! Volumes filled from URLs, as it is lent. `wit/transfer.wit` says what each call promises.

/// What kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferFailureKind {
    /// The grant does not reach there.
    Denied,
    /// The server's name does not resolve.
    Name,
    /// No connection.
    Connect,
    /// No trust.
    Tls,
    /// It took too long.
    Timeout,
    /// The connection broke.
    Cut,
    /// The server answered with a status that is no success.
    Status,
    /// It is more than may be.
    TooLarge,
    /// What came is not what was asked for.
    DigestMismatch,
    /// Too many redirects, or one that leads nowhere.
    Redirects,
    /// The host has no usable credentials.
    Credentials,
    /// Such a volume stands there, and is not being filled.
    Exists,
    /// The pool is full.
    NoSpace,
    /// libvirt refused, or could not be reached.
    Libvirt,
    /// A kind that this provider doesn't know.
    Unknown(String),
}

impl TransferFailureKind {
    /// From the contract's word.
    pub fn read(word: &str) -> Self {
        match word {
            "denied" => Self::Denied,
            "name" => Self::Name,
            "connect" => Self::Connect,
            "tls" => Self::Tls,
            "timeout" => Self::Timeout,
            "cut" => Self::Cut,
            "status" => Self::Status,
            "too-large" => Self::TooLarge,
            "digest-mismatch" => Self::DigestMismatch,
            "redirects" => Self::Redirects,
            "credentials" => Self::Credentials,
            "exists" => Self::Exists,
            "no-space" => Self::NoSpace,
            "libvirt" => Self::Libvirt,
            other => Self::Unknown(other.to_owned()),
        }
    }
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
    /// For people.
    pub message: String,
}

/// What is to be filled from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The host.
    pub host: String,
    /// The pool there.
    pub pool: String,
    /// The volume in it.
    pub volume: String,
    /// http or https.
    pub url: String,
    /// `qcow2`, `raw` or `iso`.
    pub format: &'static str,
    /// 64 hexadecimal digits.
    pub sha256: Option<String>,
}

/// How far a transfer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
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

/// Volumes filled from URLs, within the entry's grant.
pub trait Transfer {
    /// What a URL offers.
    fn probe(&self, url: &str) -> Result<Offer, TransferFailure>;
    /// Starts a transfer, or says how far it is.
    fn ensure(&self, fill: &Fill) -> Result<Transferred, TransferFailure>;
    /// How far it is; none when none is known.
    fn status(&self, host: &str, pool: &str, volume: &str) -> Result<Option<Transferred>, TransferFailure>;
}

impl<T: Transfer + ?Sized> Transfer for &T {
    fn probe(&self, url: &str) -> Result<Offer, TransferFailure> {
        (**self).probe(url)
    }
    fn ensure(&self, fill: &Fill) -> Result<Transferred, TransferFailure> {
        (**self).ensure(fill)
    }
    fn status(&self, host: &str, pool: &str, volume: &str) -> Result<Option<Transferred>, TransferFailure> {
        (**self).status(host, pool, volume)
    }
}
