//! What the Kubernetes side promises, over a plain double of the API server and, ignored by default, over a
//! real one.

mod canary;
pub mod double;
mod entries;
mod identity;
mod keeping;
mod leaving;
mod naming;
mod places;
mod process;
mod real;
mod shadow;
