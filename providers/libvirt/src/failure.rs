//! A failed call, classified where it is understood: by stage and code, never by words.

use provider_sdk::{
    Error,
    libvirt::{Failure, Stage, code},
    reason,
    transfer::{TransferFailure, TransferFailureKind},
};

const LONGEST_MESSAGE: usize = 1024;
/// ENOSPC.
const NO_SPACE: i32 = 28;

/// A call at a host, for messages: `start proxy-web-..`.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub host: &'a str,
    pub what: String,
}

impl Asked<'_> {
    /// What the failure means.
    pub fn error(&self, failure: &Failure) -> Error {
        let told = |way_out: &str| self.told(&failure.message, way_out);
        match &failure.stage {
            // The host says what is missing: it knows the grant, and other reasons to let nothing through.
            Stage::Denied => Error::permanent(reason::FORBIDDEN, told("")),
            Stage::Credentials => Error::transient(
                "credentials-unavailable",
                told("give the key and the known_hosts that the grant names"),
            ),
            Stage::Name | Stage::Connect | Stage::Cut => Error::transient(reason::UNREACHABLE, told("")),
            Stage::Timeout => Error::transient(reason::TIMEOUT, told("")),
            Stage::Handshake => Error::transient(
                reason::UNREACHABLE,
                told("does something other than sshd answer at this address?"),
            ),
            Stage::HostKey => Error::permanent(
                reason::UNAUTHORIZED,
                told("if the host was made anew, put its new key into known_hosts"),
            ),
            Stage::Authentication => Error::permanent(
                reason::UNAUTHORIZED,
                told("put the public key into the user's authorized_keys at the host"),
            ),
            // Three causes look the same from here; one of them, a socket that is not there yet, passes by itself.
            Stage::Channel => Error::transient(
                reason::FORBIDDEN,
                told(
                    "see that libvirtd runs, that the user is in the group libvirt, and that sshd has \
                     AllowStreamLocalForwarding yes",
                ),
            ),
            Stage::TooLarge => Error::permanent("too-large", told("raise the entry's limit on bodies")),
            Stage::Invalid => Error::permanent(
                reason::BACKEND,
                told("this is a fault of the provider: report it, and roll back to its last revision"),
            ),
            Stage::Unknown(stage) => Error::transient(reason::BACKEND, told(&format!("({stage})"))),
            Stage::Libvirt => self.libvirt(failure),
        }
    }

    fn libvirt(&self, failure: &Failure) -> Error {
        let told = |way_out: &str| self.told(&failure.message, way_out);
        match failure.code {
            code::NO_STORAGE_POOL => Error::permanent(
                "pool-not-found",
                told("define and start the pool at the host, or name another"),
            ),
            code::AUTH_FAILED | code::ACCESS_DENIED | code::OPERATION_DENIED => Error::permanent(
                reason::FORBIDDEN,
                told("let the user use libvirt's read-write socket: the group libvirt"),
            ),
            code::XML_ERROR
            | code::XML_DETAIL
            | code::XML_INVALID_SCHEMA
            | code::NO_SUPPORT
            | code::INVALID_ARG
            | code::CONFIG_UNSUPPORTED => Error::permanent(
                reason::UNSUPPORTED,
                told("this host can't do what the entry's config or the image asks for; choose another"),
            ),
            code::SYSTEM_ERROR if failure.errno == NO_SPACE => Error::quota(told("make room in the pool")),
            code::NO_DOMAIN | code::NO_STORAGE_VOL => {
                Error::transient("vanished", told("it went while it was worked on; tried again"))
            }
            code::OPERATION_INVALID => Error::transient(reason::BUSY, told("")),
            _ => Error::transient(reason::BACKEND, told("")),
        }
    }

    /// An answer came, and it is not what was asked for.
    pub fn garbled(&self) -> Error {
        Error::transient(reason::BACKEND, self.told("the answer is not the document that was asked for", ""))
    }

    /// Why a volume is not filled from a URL.
    pub fn transfer(&self, failure: &TransferFailure) -> Error {
        let told = |way_out: &str| self.told(&failure.message, way_out);
        let image = |way_out: &str| Error::permanent("image", told(way_out));
        match &failure.kind {
            TransferFailureKind::Denied => Error::permanent(
                reason::FORBIDDEN,
                told("give another image, or let the grant allow this one"),
            ),
            TransferFailureKind::Name | TransferFailureKind::Connect | TransferFailureKind::Cut => {
                Error::transient(
                    reason::UNREACHABLE,
                    told("tried again; see to the image's server, and the way there"),
                )
            }
            TransferFailureKind::Timeout => Error::transient(
                reason::TIMEOUT,
                told(
                    "tried again; see to the image's server, or allow more under grants.transfer.timeouts (stallMs)",
                ),
            ),
            TransferFailureKind::Tls => {
                Error::permanent("certificate-invalid", told("use a server whose certificate is trusted"))
            }
            TransferFailureKind::Status => match failure.status {
                Some(408 | 425 | 429) | None => Error::transient(reason::BACKEND, told("tried again")),
                Some(status) if status < 500 => image("correct the image's URL"),
                Some(_) => Error::transient(reason::BACKEND, told("tried again")),
            },
            TransferFailureKind::TooLarge => image("use a smaller image"),
            TransferFailureKind::DigestMismatch => {
                image("correct the entry's sha256, or find out who changed the image")
            }
            TransferFailureKind::Redirects => image("give the URL that it leads to in the end"),
            TransferFailureKind::Credentials => Error::transient("credentials-unavailable", told("")),
            TransferFailureKind::Exists => Error::transient(reason::BUSY, told("")),
            TransferFailureKind::NoSpace => Error::quota(told("make room in the pool")),
            TransferFailureKind::Libvirt => {
                let failure = Failure {
                    stage: Stage::Libvirt,
                    code: failure.code.unwrap_or_default(),
                    domain: 0,
                    errno: 0,
                    message: failure.message.clone(),
                    sent: true,
                };
                self.libvirt(&failure)
            }
            TransferFailureKind::Unknown(kind) => {
                Error::transient(reason::BACKEND, told(&format!("({kind})")))
            }
        }
    }

    fn told(&self, message: &str, way_out: &str) -> String {
        let message: String = message.chars().take(LONGEST_MESSAGE).collect();
        let told = format!("host {}: {}: {message}", self.host, self.what);
        if way_out.is_empty() { told } else { format!("{told}; {way_out}") }
    }
}

#[cfg(test)]
mod tests {
    use provider_sdk::ErrorClass::{self, Permanent, QuotaExceeded, Transient};

    use super::*;

    fn class(stage: Stage, code: i32, errno: i32) -> (ErrorClass, String) {
        let asked = Asked { host: "hv1", what: "start proxy-a".to_owned() };
        let failure = Failure { stage, code, domain: 10, errno, message: "words".to_owned(), sent: true };
        let error = asked.error(&failure);
        assert!(error.message.starts_with("host hv1: start proxy-a: words"), "{}", error.message);
        (error.class, error.reason)
    }

    #[test]
    fn codes_decide_the_class() {
        for (code, errno, expected, reason) in [
            (49, 0, Permanent, "pool-not-found"),
            (27, 0, Permanent, "unsupported"),
            (35, 0, Permanent, "unsupported"),
            (3, 0, Permanent, "unsupported"),
            (8, 0, Permanent, "unsupported"),
            (67, 0, Permanent, "unsupported"),
            (45, 0, Permanent, "forbidden"),
            (88, 0, Permanent, "forbidden"),
            (29, 0, Permanent, "forbidden"),
            (38, 28, QuotaExceeded, "quota"),
            (38, 2, Transient, "backend"),
            (42, 0, Transient, "vanished"),
            (50, 0, Transient, "vanished"),
            (55, 0, Transient, "busy"),
            (1, 0, Transient, "backend"),
            (4711, 0, Transient, "backend"),
        ] {
            assert_eq!(class(Stage::Libvirt, code, errno), (expected, reason.to_owned()), "{code}");
        }
    }

    #[test]
    fn stages_decide_the_class() {
        for (stage, expected, reason) in [
            ("denied", Permanent, "forbidden"),
            ("credentials", Transient, "credentials-unavailable"),
            ("name", Transient, "unreachable"),
            ("connect", Transient, "unreachable"),
            ("handshake", Transient, "unreachable"),
            ("host-key", Permanent, "unauthorized"),
            ("authentication", Permanent, "unauthorized"),
            ("channel", Transient, "forbidden"),
            ("timeout", Transient, "timeout"),
            ("cut", Transient, "unreachable"),
            ("too-large", Permanent, "too-large"),
            ("invalid", Permanent, "backend"),
            ("of-a-later-host", Transient, "backend"),
        ] {
            assert_eq!(class(Stage::read(stage), 0, 0), (expected, reason.to_owned()), "{stage}");
        }
    }

    #[test]
    fn an_image_servers_word_decides_the_class() {
        let asked = Asked { host: "hv1", what: "download debian".to_owned() };
        let class = |kind: &str, status| {
            let kind = TransferFailureKind::read(kind);
            asked.transfer(&TransferFailure { kind, status, code: None, message: String::new() }).class
        };
        for (status, expected) in
            [(404, Permanent), (403, Permanent), (410, Permanent), (429, Transient), (503, Transient)]
        {
            assert_eq!(class("status", Some(status)), expected, "{status}");
        }
        assert_eq!(class("digest-mismatch", None), Permanent);
        assert_eq!(class("no-space", None), QuotaExceeded);
        assert_eq!(class("connect", None), Transient);
        assert_eq!(class("denied", None), Permanent);
    }
}
