//! What one provider entry may use. Each is a value in the entry's `limits`, and each, when it is hit, is
//! an error of its own that names the limit and its value.

use serde::{Deserialize, Serialize};

const MIB: u64 = 1024 * 1024;

/// Limits of one entry. Durations are milliseconds, sizes are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// As `createMs`.
    pub get_ms: u64,
    /// As `createMs`.
    pub delete_ms: u64,
    /// As `createMs`.
    pub list_ms: u64,
    /// As `createMs`.
    pub check_ms: u64,
    /// As `createMs`, for `describe` and `configure`.
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
            configure_ms: 10_000,
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

/// One of the [`Limits`] that ends something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    MemoryBytes,
    TableElements,
    Instances,
    ComputeMs,
    CreateMs,
    GetMs,
    DeleteMs,
    ListMs,
    CheckMs,
    ConfigureMs,
    HostCallMs,
    HostCalls,
    RequestBytes,
    ResponseBytes,
    AnswerBytes,
    ConcurrentCalls,
}

impl Limit {
    /// As it stands in the entry.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::MemoryBytes => "limits.memoryBytes",
            Self::TableElements => "limits.tableElements",
            Self::Instances => "limits.instances",
            Self::ComputeMs => "limits.computeMs",
            Self::CreateMs => "limits.createMs",
            Self::GetMs => "limits.getMs",
            Self::DeleteMs => "limits.deleteMs",
            Self::ListMs => "limits.listMs",
            Self::CheckMs => "limits.checkMs",
            Self::ConfigureMs => "limits.configureMs",
            Self::HostCallMs => "limits.hostCallMs",
            Self::HostCalls => "limits.hostCalls",
            Self::RequestBytes => "limits.requestBytes",
            Self::ResponseBytes => "limits.responseBytes",
            Self::AnswerBytes => "limits.answerBytes",
            Self::ConcurrentCalls => "limits.concurrentCalls",
        }
    }

    /// The reason of an error that a call ends with.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::MemoryBytes => "limit-memory",
            Self::TableElements => "limit-tables",
            Self::Instances => "limit-instances",
            Self::ComputeMs => "limit-compute",
            Self::CreateMs
            | Self::GetMs
            | Self::DeleteMs
            | Self::ListMs
            | Self::CheckMs
            | Self::ConfigureMs => "limit-time",
            Self::HostCallMs => "limit-host-call-time",
            Self::HostCalls => "limit-host-calls",
            Self::RequestBytes => "limit-request",
            Self::ResponseBytes => "limit-response",
            Self::AnswerBytes => "limit-answer",
            Self::ConcurrentCalls => "limit-concurrent-calls",
        }
    }

    /// The reason of a refusal.
    pub(crate) fn refusal(self) -> &'static str {
        match self {
            Self::MemoryBytes => "LimitMemory",
            Self::TableElements => "LimitTables",
            Self::Instances => "LimitInstances",
            Self::ComputeMs => "LimitCompute",
            Self::CreateMs
            | Self::GetMs
            | Self::DeleteMs
            | Self::ListMs
            | Self::CheckMs
            | Self::ConfigureMs => "LimitTime",
            Self::HostCallMs => "LimitHostCallTime",
            Self::HostCalls => "LimitHostCalls",
            Self::RequestBytes => "LimitRequest",
            Self::ResponseBytes => "LimitResponse",
            Self::AnswerBytes => "LimitAnswer",
            Self::ConcurrentCalls => "LimitConcurrentCalls",
        }
    }

    /// What the entry sets it to.
    pub(crate) fn value(self, limits: &Limits) -> u64 {
        match self {
            Self::MemoryBytes => limits.memory_bytes,
            Self::TableElements => limits.table_elements,
            Self::Instances => limits.instances.into(),
            Self::ComputeMs => limits.compute_ms,
            Self::CreateMs => limits.create_ms,
            Self::GetMs => limits.get_ms,
            Self::DeleteMs => limits.delete_ms,
            Self::ListMs => limits.list_ms,
            Self::CheckMs => limits.check_ms,
            Self::ConfigureMs => limits.configure_ms,
            Self::HostCallMs => limits.host_call_ms,
            Self::HostCalls => limits.host_calls.into(),
            Self::RequestBytes => limits.request_bytes,
            Self::ResponseBytes => limits.response_bytes,
            Self::AnswerBytes => limits.answer_bytes,
            Self::ConcurrentCalls => limits.concurrent_calls.into(),
        }
    }
}
