//! What every command that talks or computes stands on: threads, TLS, and where compiled components are kept.

use std::{env, path::PathBuf};

use crate::failure::Failure;

/// To be called first: memory in pages of their common size, whatever the machine's setting is. A huge page is
/// all there once a byte of it is used, and a call uses a few bytes in each of many places.
pub fn pages() {
    // A kernel that can't has none, or is too old to be asked: more memory is used then, and nothing else differs.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Runs it to its end, on as many threads as there are processors.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::Setup(format!("can't start threads: {error}")))?.block_on(work)
}

/// To be called before the first client: rustls panics where it has to guess between two providers.
pub fn tls() -> Result<(), Failure> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| Failure::Setup("TLS was set up twice".to_owned()))
}

/// Where compiled components are kept unless somebody says otherwise: in the user's cache folder, if he has one.
pub fn cache_dir() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    Some(cache.join("egress-proxies-operator/compiled"))
}
