//! What one provider entry may use. Each is a value in the entry's `limits`, and each, when it is hit, is
//! an error of its own that names the limit and its value.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// Limits of one entry. Durations are milliseconds, sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Limits {
    /// Linear memory of one call, all memories together.
    pub memory_bytes: u64,
    /// Elements of all tables of one call.
    pub table_elements: u64,
    /// Core instances of one call.
    pub instances: u32,
    /// Time that the guest may compute in one call, waiting for the host not counted.
    pub compute_ms: u64,
    /// Time from a call's start to its end.
    pub create_ms: u64,
    /// As `create_ms`.
    pub get_ms: u64,
    /// As `create_ms`.
    pub delete_ms: u64,
    /// As `create_ms`.
    pub list_ms: u64,
    /// As `create_ms`.
    pub check_ms: u64,
    /// As `create_ms`, for `describe` and `configure`.
    pub configure_ms: u64,
    /// Time of one host call.
    pub host_call_ms: u64,
    /// Host calls in one call.
    pub host_calls: u32,
    /// What a guest may send in one host call.
    pub request_bytes: u64,
    /// What a host call may answer.
    pub response_bytes: u64,
    /// What a call may answer to the operator: messages, progress, items.
    pub answer_bytes: u64,
    /// Log lines of one call; what exceeds it is dropped and counted.
    pub log_lines: u32,
    /// Calls at once; what exceeds it waits its turn.
    pub concurrent_calls: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 * MIB,
            table_elements: 20_000,
            instances: 20,
            compute_ms: 2_000,
            create_ms: 120_000,
            get_ms: 60_000,
            delete_ms: 120_000,
            list_ms: 60_000,
            check_ms: 20_000,
            configure_ms: 2_000,
            host_call_ms: 95_000,
            host_calls: 1_000,
            request_bytes: 8 * MIB,
            response_bytes: 8 * MIB,
            answer_bytes: MIB,
            log_lines: 200,
            concurrent_calls: 256,
        }
    }
}
