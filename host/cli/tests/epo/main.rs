//! What `epo` promises to whoever types it, tried on the real binary and the real kubernetes provider.
//!
//! `make providers` builds the provider first.

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod command;
#[cfg(test)]
mod configmap;
#[cfg(test)]
mod docs;
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
mod mistakes;
#[cfg(test)]
mod new;
#[cfg(test)]
#[expect(dead_code, reason = "the tests on a real cluster take components out of it")]
#[path = "../projects/project.rs"]
mod project;
#[cfg(test)]
mod samples;
#[cfg(test)]
#[expect(dead_code, reason = "the capability's own tests use all of it")]
#[path = "../../../capabilities/tests/script/mod.rs"]
mod script;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod validate;
