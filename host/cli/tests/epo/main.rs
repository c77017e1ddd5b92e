//! What `epo` promises to whoever types it, tried on the real binary and the real kubernetes provider.
//!
//! `make providers` builds the provider first.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod collector;
#[cfg(test)]
mod command;
#[cfg(test)]
mod configmap;
#[cfg(test)]
mod docs;
/// The registry that the client of registries is tried at.
#[cfg(test)]
#[expect(dead_code, reason = "what is wrong with registries is tried there")]
#[path = "../../../registry/tests/registry/fake.rs"]
mod fake_registry;
#[cfg(test)]
mod image_servers;
#[cfg(test)]
#[expect(dead_code, reason = "the capability's own tests use all of it")]
#[path = "../../../capabilities/tests/hypervisor/images.rs"]
mod images;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod look;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod new;
#[cfg(test)]
#[expect(dead_code, reason = "the tests on a real cluster take components out of it")]
#[path = "../projects/project.rs"]
mod project;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod samples;
#[cfg(test)]
#[expect(dead_code, reason = "the capability's own tests use all of it")]
#[path = "../../../capabilities/tests/script/mod.rs"]
mod script;
#[cfg(test)]
mod standalone;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod validate;
