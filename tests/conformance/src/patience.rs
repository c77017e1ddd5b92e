//! Limits that no machine's load decides by.
//!
//! What a guest computes is measured by the machine's clock. Where a backend is simulated, or answers from a
//! recording, time is virtual otherwise, and a machine that does other things too would decide by chance. The
//! entry's own limits are what `epo provider call` holds to, and the operator.

use egress_runtime::Limits;

/// A guest that computes for so long computes for ever.
const COMPUTE_MS: u64 = 60_000;

/// The same limits, but for the machine's time.
pub fn patient(limits: &Limits) -> Limits {
    Limits { compute_ms: limits.compute_ms.max(COMPUTE_MS), ..limits.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machines_time_is_not_held_against_a_guest() {
        let limits = Limits { compute_ms: 5, host_calls: 7, ..Limits::default() };
        assert_eq!(patient(&limits), Limits { compute_ms: COMPUTE_MS, ..limits });
        let generous = Limits { compute_ms: 600_000, ..Limits::default() };
        assert_eq!(patient(&generous), generous);
    }
}
