//! Why a registry did not do what it was asked to.

use std::time::Duration;

/// What is wrong, for code that decides and for people who search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The registry wants a login, or takes none that it was given.
    Unauthorized,
    /// The login is good and may not do this.
    Denied,
    /// There is no such repository, tag, manifest or blob.
    NotFound,
    /// What is there is no component.
    NoWasmLayer,
    /// What is there is no manifest.
    ManifestInvalid,
    /// What came is not what was asked for.
    DigestDiffers,
    /// More bytes than may come.
    TooLarge,
    /// The server is not trusted, or speaks no TLS.
    TlsTrust,
    /// No name, no connection, no answer in time, or one that broke off.
    Unreachable,
    /// So many requests are not wanted.
    TooManyRequests,
    /// The registry failed, or refused in a way of its own.
    RegistryFailed,
    /// The registry sends elsewhere, where nobody said that it may.
    RedirectRefused,
}

impl Kind {
    /// Stable, for statuses and scripts.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Denied => "Denied",
            Self::NotFound => "NotFound",
            Self::NoWasmLayer => "NoWasmLayer",
            Self::ManifestInvalid => "ManifestInvalid",
            Self::DigestDiffers => "DigestDiffers",
            Self::TooLarge => "TooLarge",
            Self::TlsTrust => "TlsTrust",
            Self::Unreachable => "Unreachable",
            Self::TooManyRequests => "TooManyRequests",
            Self::RegistryFailed => "RegistryFailed",
            Self::RedirectRefused => "RedirectRefused",
        }
    }

    /// Whether the same may work in a moment, with nobody changing anything.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Unreachable | Self::TooManyRequests | Self::RegistryFailed => true,
            Self::Unauthorized
            | Self::Denied
            | Self::NotFound
            | Self::NoWasmLayer
            | Self::ManifestInvalid
            | Self::DigestDiffers
            | Self::TooLarge
            | Self::TlsTrust
            | Self::RedirectRefused => false,
        }
    }
}

/// The thing and the cause. The way out differs between an entry and a command line: whoever shows it adds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RegistryError {
    /// What is wrong.
    pub kind: Kind,
    /// For people.
    pub message: String,
    /// How long the registry asks to be left alone.
    pub wait: Option<Duration>,
}

pub(crate) fn failed(kind: Kind, message: impl Into<String>) -> RegistryError {
    RegistryError { kind, message: message.into(), wait: None }
}
