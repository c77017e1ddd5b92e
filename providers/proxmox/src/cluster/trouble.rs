//! Why a call of the API gave nothing.

use provider_sdk::{
    Error,
    http::{Failure, FailureKind},
    reason,
};

use crate::{answer::Refusal, phrases::Meaning};

/// A call that gave nothing, at a node.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub node: String,
    /// `clone template 9000 as proxy-web-..`.
    pub what: String,
    pub cause: Cause,
}

/// Who said so.
#[derive(Clone, Debug)]
pub enum Cause {
    /// The API.
    Said(Refusal),
    /// The host: there was no answer.
    Failed(Failure),
}

impl Trouble {
    /// An answer that has not what it should have.
    pub fn garbled(node: &str, what: String) -> Self {
        let refusal = Refusal { status: 200, message: "the answer has not what it should have".to_owned() };
        Self { node: node.to_owned(), what, cause: Cause::Said(refusal) }
    }

    /// A config without nodes, which is none.
    pub fn nobody() -> Self {
        Self::garbled("", "ask any node".to_owned())
    }

    /// The answer's status.
    pub fn status(&self) -> Option<u16> {
        match &self.cause {
            Cause::Said(refusal) => Some(refusal.status),
            Cause::Failed(_) => None,
        }
    }

    /// What the answer's sentence means.
    pub fn meaning(&self) -> Option<Meaning> {
        match &self.cause {
            Cause::Said(refusal) => refusal.meaning(),
            Cause::Failed(_) => None,
        }
    }

    /// Whether another node may answer all the same.
    pub fn is_the_nodes(&self) -> bool {
        match &self.cause {
            Cause::Said(refusal) => matches!(refusal.status, 500 | 502..=504 | 595..=599),
            Cause::Failed(failure) => !matches!(failure.kind, FailureKind::Denied | FailureKind::Invalid),
        }
    }

    /// Of a storage that is not there.
    pub fn lacks_storage(&self) -> bool {
        let unknown =
            |refusal: &Refusal| refusal.status == 400 && refusal.message.contains("No such storage");
        self.meaning() == Some(Meaning::Storage)
            || matches!(&self.cause, Cause::Said(refusal) if unknown(refusal))
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        let what = format!("node {}: {}", trouble.node, trouble.what);
        match &trouble.cause {
            Cause::Said(refusal) => refusal.error(&what),
            Cause::Failed(failure) => failed(failure, &what),
        }
    }
}

fn failed(failure: &Failure, what: &str) -> Error {
    let told = |way_out: &str| match way_out {
        "" => format!("{what}: {}", failure.message),
        way_out => format!("{what}: {}; {way_out}", failure.message),
    };
    match &failure.kind {
        FailureKind::Denied => Error::permanent(reason::FORBIDDEN, told("")),
        FailureKind::Name | FailureKind::Connect | FailureKind::Cut => {
            Error::transient(reason::UNREACHABLE, told(""))
        }
        FailureKind::Timeout => Error::transient(reason::TIMEOUT, told("")),
        FailureKind::Tls => Error::permanent(
            "certificate-invalid",
            told(
                "give the cluster's CA (/etc/pve/pve-root-ca.pem) under the endpoint's ca, and a name that the certificate has",
            ),
        ),
        FailureKind::Credentials => {
            Error::transient("credentials-unavailable", told("give the token's secret that the grant names"))
        }
        FailureKind::TooLarge => Error::permanent("too-large", told("raise the endpoint's limit on bodies")),
        FailureKind::Invalid => Error::permanent(
            reason::BACKEND,
            told("this is a fault of the provider: report it, and roll back to its last revision"),
        ),
        FailureKind::Unknown(kind) => Error::transient(reason::BACKEND, told(&format!("({kind})"))),
    }
}
