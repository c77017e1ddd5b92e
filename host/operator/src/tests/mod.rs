//! What the Kubernetes side promises, over a plain double of the API server and, ignored by default, over a
//! real one.

mod canary;
pub mod double;
mod entries;
/// The registry that the client of registries is tried at.
#[path = "../../../registry/tests/registry/fake.rs"]
#[expect(dead_code, reason = "what is wrong with registries is tried there")]
pub mod fake_registry;
mod identity;
mod keeping;
mod leaving;
mod naming;
mod places;
mod process;
mod real;
mod registry;
mod shadow;
