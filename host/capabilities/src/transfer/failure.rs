//! What a failure becomes.

use egress_runtime::capability::{
    Fill, LibvirtFailure, LibvirtStage as Stage, TransferFailure, TransferFailureKind as Kind,
};

/// No space left on the device.
const ENOSPC: i32 = 28;

pub(super) fn plain(kind: Kind, message: String) -> TransferFailure {
    TransferFailure { kind, status: None, code: None, message }
}

pub(super) fn exists(fill: &Fill) -> TransferFailure {
    let Fill { host, pool, volume, .. } = fill;
    let message = format!(
        "the volume {volume} stands in pool {pool} of host {host} already; if it is incomplete, delete it first"
    );
    plain(Kind::Exists, message)
}

pub(super) fn of_status(at: &str, status: http::StatusCode) -> TransferFailure {
    TransferFailure { status: Some(status.as_u16()), ..plain(Kind::Status, format!("{at} answers {status}")) }
}

pub(super) fn of_libvirt(failure: LibvirtFailure) -> TransferFailure {
    let kind = match failure.stage {
        Stage::Denied => Kind::Denied,
        Stage::Credentials => Kind::Credentials,
        _ if failure.errno == ENOSPC => Kind::NoSpace,
        _ => Kind::Libvirt,
    };
    let code = (kind == Kind::Libvirt && failure.stage == Stage::Libvirt).then_some(failure.code);
    TransferFailure { code, ..plain(kind, failure.message) }
}
