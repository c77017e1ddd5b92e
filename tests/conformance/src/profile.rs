//! The words that the contract knows: axes of a profile, reasons of a health. docs/contract.md explains them,
//! and a test compares.

/// Each axis with its values.
pub const AXES: &[(&str, &[&str])] = &[
    ("readiness", &["immediate", "provisioning-window"]),
    ("ip-source", &["assigned-at-create", "discovered"]),
    ("gc-mark", &["native-labels", "written-metadata"]),
    ("created-at", &["backend-timestamp", "written-at-create"]),
    ("quota", &["detected", "absent"]),
    ("not-found", &["status-404", "error-code"]),
    ("primary-key", &["name-is-key", "allocated-id"]),
    ("provisioning-state", &["native", "no-address"]),
    ("secondary-resources", &["none", "cascade", "explicit"]),
    ("backend-test", &["cluster-e2e", "lab-e2e", "integration-tag", "manual-runbook"]),
];

/// What a health may say.
pub const HEALTH_REASONS: &[&str] = &[
    "reachable",
    "timeout",
    "unreachable",
    "unauthorized",
    "forbidden",
    "rights-missing",
    "api-error",
    "credentials-unavailable",
    "certificate-invalid",
    "pool-not-found",
    "pool-not-active",
    "storage-not-found",
    "template-not-found",
];
