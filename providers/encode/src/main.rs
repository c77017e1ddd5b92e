//! `provider-encode PACKAGE OUT`: builds a guest crate of this workspace into a component.
//!
//! `epo provider build` does the same for people; this one is for `make`, which should not build the
//! whole host to build a guest.

use std::{env, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(package), Some(out), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: provider-encode PACKAGE OUT");
        return ExitCode::from(2);
    };
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    match provider_encode::build(&here, &package, &PathBuf::from(out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider-encode: {error}");
            ExitCode::FAILURE
        }
    }
}
