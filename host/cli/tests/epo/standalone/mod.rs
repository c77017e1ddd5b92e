//! `epo run --dir`: the operator without a cluster, on the real binary.

mod attacks;
mod backend;
mod commands;
mod kills;
mod site;

/// Whether this is the long form.
fn soak() -> bool {
    std::env::var_os("EPO_SOAK").is_some()
}
