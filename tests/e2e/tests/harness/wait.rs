//! Waiting, and chance that can be repeated.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Longer than anything takes that works, on a machine that does other things too.
const MOST: Duration = Duration::from_secs(240);

/// Asks until the answer is good; what it last was is why the test fails.
pub async fn eventually<T, E: Debug>(what: &str, ask: impl AsyncFnMut() -> Result<T, E>) -> T {
    eventually_within(MOST, what, ask).await
}

/// The same for what takes longer still.
pub async fn eventually_within<T, E: Debug>(
    most: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(last) if start.elapsed() > most => panic!("{what}: not within {most:?}; at last: {last:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Printed, so that a run can be repeated with `EPO_SEED`.
pub fn seed() -> u64 {
    let seed = match std::env::var("EPO_SEED") {
        Ok(text) => text.parse().expect("EPO_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("EPO_SEED={seed}");
    seed
}

/// Whether the long form was asked for: `EPO_SOAK=1`.
pub fn soaks() -> bool {
    std::env::var_os("EPO_SOAK").is_some_and(|value| value == "1")
}

/// How much of something: the same test, with another number.
pub struct Budget {
    pub usual: usize,
    pub soak: usize,
}

impl Budget {
    pub fn get(&self) -> usize {
        if soaks() { self.soak } else { self.usual }
    }
}
