//! WASI that leads nowhere: components from ordinary toolchains import it whether they use it or not.
//!
//! No files, no environment, no arguments, no sockets, no input. Time is the call's clock, randomness is
//! random, and what is printed goes line by line to the guest's log, under its limit.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder,
    cli::{IsTerminal, StdoutStream},
    p2::{
        OutputStream, Pollable, StreamResult,
        bindings::sockets::{
            ip_name_lookup::ResolveAddressStream,
            network::{ErrorCode, Network},
        },
    },
};

use crate::{
    capability::Clock,
    guest_log::{GuestLog, Level},
    state::State,
};

/// What may be printed at once, and how long a line grows before it goes out unfinished.
const BUFFER: usize = 4096;
/// As wasmtime 48 names it.
const LOOKUP: &str = "wasi:sockets/ip-name-lookup@0.2.12";
/// What a guest may ask of randomness at once: the host allocates it.
const MOST_RANDOM: u64 = 64 * 1024;

/// Links all of it.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    // wasmtime traces what WASI's functions are given. No text of a guest's may come out there, and this is
    // the only function that takes one without a file.
    linker.allow_shadowing(true);
    let mut lookup = linker.instance(LOOKUP)?;
    lookup.func_wrap("resolve-addresses", |_, _: (Resource<Network>, String)| {
        Ok((Err::<Resource<ResolveAddressStream>, _>(ErrorCode::AccessDenied),))
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

pub(crate) fn wasi(log: &Arc<GuestLog>, clock: &Arc<dyn Clock>) -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(Output { log: Arc::clone(log), level: Level::Info })
        .stderr(Output { log: Arc::clone(log), level: Level::Error })
        .wall_clock(GuestClock(Arc::clone(clock)))
        .monotonic_clock(GuestClock(Arc::clone(clock)))
        .max_random_size(MOST_RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .build()
}

struct GuestClock(Arc<dyn Clock>);

impl HostWallClock for GuestClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0.now_ms())
    }
}

impl HostMonotonicClock for GuestClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        self.0.monotonic_ms().saturating_mul(1_000_000)
    }
}

#[derive(Clone)]
struct Output {
    log: Arc<GuestLog>,
    level: Level,
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(Lines { output: self.clone(), line: Vec::new() })
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Lines { output: self.clone(), line: Vec::new() })
    }
}

/// Gathers lines.
struct Lines {
    output: Output,
    line: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end(),
                byte => {
                    self.line.push(*byte);
                    if self.line.len() >= BUFFER {
                        self.end();
                    }
                }
            }
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            self.output.log.write(self.output.level, &String::from_utf8_lossy(&self.line), &[]);
            self.line.clear();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.end();
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Lines {
    async fn ready(&mut self) {}
}

#[wasmtime_wasi::async_trait]
impl OutputStream for Lines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(BUFFER)
    }
}

impl AsyncWrite for Lines {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
