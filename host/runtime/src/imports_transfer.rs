//! Transfers as a guest sees them: the capability's types in the contract's, and back.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker};

use crate::{
    bindings::egress::provider::transfer::{self, Failure},
    capability::{Fill, Progress, Transfer, TransferFailure, TransferFailureKind},
    failure::Stop,
    limits::Limit,
    state::{HostFailure, State},
};

/// What is printed of a URL whose place can't be told.
const NO_PLACE: &str = "a URL";

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    transfer::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl HostFailure for TransferFailure {
    fn timeout(message: String) -> Self {
        host_failure(TransferFailureKind::Timeout, message)
    }

    fn withheld(message: String) -> Self {
        host_failure(TransferFailureKind::Denied, message)
    }

    fn too_large(message: String, _: bool) -> Self {
        host_failure(TransferFailureKind::TooLarge, message)
    }

    /// The kind is about images.
    fn too_large_for(&self) -> Option<Limit> {
        None
    }

    fn kind(&self) -> &'static str {
        self.kind.as_str()
    }
}

fn host_failure(kind: TransferFailureKind, message: String) -> TransferFailure {
    TransferFailure { kind, status: None, code: None, message }
}

impl From<TransferFailure> for Failure {
    fn from(failure: TransferFailure) -> Self {
        Self {
            kind: failure.kind.as_str().to_owned(),
            status: failure.status,
            code: failure.code,
            message: failure.message,
        }
    }
}

impl From<Progress> for transfer::Progress {
    fn from(progress: Progress) -> Self {
        Self { bytes: progress.bytes, total: progress.total, sha256: progress.sha256 }
    }
}

impl From<transfer::Request> for Fill {
    fn from(request: transfer::Request) -> Self {
        Self {
            host: request.host,
            pool: request.pool,
            volume: request.volume,
            url: request.url,
            format: request.format,
            sha256: request.sha256,
        }
    }
}

/// The server of a URL: users, passwords, paths and queries may be secrets.
fn server(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return NO_PLACE };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    match authority.rsplit('@').next() {
        Some(server) if !server.is_empty() => server,
        _ => NO_PLACE,
    }
}

impl State {
    fn transfer(&self) -> wasmtime::Result<Arc<dyn Transfer>> {
        // It is linked only when it is lent.
        let lent = self.setup.lent.transfer.clone();
        lent.ok_or_else(|| Stop::Violation("transfers are not lent".to_owned()).into())
    }
}

impl transfer::Host for State {
    async fn probe(&mut self, url: String) -> wasmtime::Result<Result<transfer::ProbeResult, Failure>> {
        let lent = self.transfer()?;
        let offer = self.host_call("transfer.probe", server(&url), url.len(), lent.probe(&url)).await?;
        Ok(offer.map_err(Failure::from).map(|offer| transfer::ProbeResult {
            size: offer.size,
            etag: offer.etag,
            last_modified: offer.last_modified,
        }))
    }

    async fn ensure(
        &mut self,
        request: transfer::Request,
    ) -> wasmtime::Result<Result<transfer::Progress, Failure>> {
        let (lent, fill) = (self.transfer()?, Fill::from(request));
        let bytes = fill.url.len() + fill.volume.len() + fill.pool.len();
        let progress = self.write_call("transfer.ensure", &fill.host, bytes, lent.ensure(&fill)).await?;
        Ok(progress.map(transfer::Progress::from).map_err(Failure::from))
    }

    async fn status(
        &mut self,
        host: String,
        pool: String,
        volume: String,
    ) -> wasmtime::Result<Result<Option<transfer::Progress>, Failure>> {
        let lent = self.transfer()?;
        let (bytes, asked) = (pool.len() + volume.len(), lent.status(&host, &pool, &volume));
        let progress = self.host_call("transfer.status", &host, bytes, asked).await?;
        Ok(progress.map(|known| known.map(transfer::Progress::from)).map_err(Failure::from))
    }
}

#[cfg(test)]
mod tests {
    use super::server;

    #[test]
    fn of_a_url_only_the_server_is_printed() {
        for (url, shown) in [
            ("https://images.example:8443/a/b?token=secret", "images.example:8443"),
            ("https://user:secret@images.example/a", "images.example"),
            ("https://secret@evil@images.example?x", "images.example"),
            ("http://[::1]/a", "[::1]"),
            ("https:///secret", "a URL"),
            ("secret", "a URL"),
        ] {
            assert_eq!(server(url), shown, "{url}");
        }
    }
}
