//! The provider over a host that a test makes up.
