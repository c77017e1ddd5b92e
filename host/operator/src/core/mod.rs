//! The control loops, free of Kubernetes: they decide, and act through two traits.

pub mod store;
