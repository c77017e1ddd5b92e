//! What a failure becomes: its stage, and words that name the host, the cause and the way out.

use egress_runtime::capability::{LibvirtFailure, LibvirtStage as Stage};
use libvirt_remote::{Error, ErrorCode, ErrorDomain};

pub(super) fn plain(stage: Stage, message: String) -> LibvirtFailure {
    LibvirtFailure { stage, code: 0, domain: 0, errno: 0, message, sent: false }
}

/// As libvirt would have answered.
pub(super) fn coded(code: ErrorCode, domain: ErrorDomain, message: String) -> LibvirtFailure {
    LibvirtFailure { code: code.0, domain: domain.0, ..plain(Stage::Libvirt, message) }
}

pub(super) fn of_call(host: &str, error: &Error) -> LibvirtFailure {
    let message = format!("host {host}: {error}");
    match error {
        Error::Libvirt { fault, .. } => {
            LibvirtFailure { errno: fault.errno().unwrap_or(0), ..coded(fault.code, fault.domain, message) }
        }
        Error::Authentication { .. } => coded(ErrorCode::AUTH_FAILED, ErrorDomain(7), message),
        Error::Argument { .. } => plain(Stage::Invalid, message),
        _ => LibvirtFailure { sent: error.outcome_unknown(), ..plain(Stage::Cut, message) },
    }
}

/// Nothing came in time for what was asked.
pub(super) fn late(host: &str, ms: u64) -> LibvirtFailure {
    let message =
        format!("host {host}: libvirt did not answer within {ms} ms; it may still do what was asked");
    LibvirtFailure { sent: true, ..plain(Stage::Timeout, message) }
}
