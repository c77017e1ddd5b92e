//! The program behind `Compile::Child`: `warm_cache CACHE_DIR MILLISECONDS BYTES < COMPONENT`.
//!
//! The operator's own binary does the same under a command of its own.

use std::{env, io::Read, process::ExitCode, time::Duration};

use egress_runtime::{Runtime, RuntimeConfig};

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    let (Some(cache_dir), Some(Ok(time)), Some(Ok(memory))) =
        (args.next(), args.next().map(|ms| ms.parse()), args.next().map(|bytes| bytes.parse()))
    else {
        eprintln!("usage: warm_cache CACHE_DIR MILLISECONDS BYTES < COMPONENT");
        return ExitCode::from(2);
    };
    let config = RuntimeConfig {
        cache_dir: Some(cache_dir.into()),
        compile_time: Duration::from_millis(time),
        compile_memory: memory,
        ..RuntimeConfig::default()
    };
    let mut component = Vec::new();
    if let Err(error) = std::io::stdin().read_to_end(&mut component) {
        eprintln!("can't read the component: {error}");
        return ExitCode::FAILURE;
    }
    match Runtime::warm_cache(&config, &component) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
