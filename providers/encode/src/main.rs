//! `provider-encode PACKAGE OUT`: builds a guest crate of this workspace into a component.
//!
//! `epo provider build` does the same for people; this one is for `make`, which should not build the
//! whole host to build a guest.

use std::{env, path::Path, process::ExitCode};

use provider_encode::Guest;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(package), Some(out), None) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: provider-encode PACKAGE OUT");
        return ExitCode::from(2);
    };
    match Guest::find(Path::new("."), Some(&package)).and_then(|guest| guest.build(Path::new(&out))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("provider-encode: {error}");
            ExitCode::FAILURE
        }
    }
}
