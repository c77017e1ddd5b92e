//! The whole on a real cluster with a real node: a component out of a ConfigMap, run by the real `epo`, asked
//! through the Kubernetes API as people ask it, and answering web requests.
//!
//! `make e2e` brings the lab up and runs it; `LAB` names the cluster's kubeconfig. Waits are long on purpose:
//! they end a test that can't succeed and decide none that can. `EPO_SOAK=1` asks for the long forms.

#[cfg(test)]
mod bad_modules;
#[cfg(test)]
mod canary;
#[cfg(test)]
mod capability;
#[cfg(test)]
mod collect;
#[cfg(test)]
#[path = "../../../host/cli/tests/epo/collector.rs"]
mod collector;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod deployed;
#[cfg(test)]
mod deploying;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod health;
#[cfg(test)]
mod hypervisors;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod latches;
#[cfg(test)]
mod leadership;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lost;
#[cfg(test)]
#[path = "../../../host/cli/tests/epo/metrics.rs"]
mod metrics;
#[cfg(test)]
#[expect(dead_code, reason = "a project's own tests are tried where it is made")]
#[path = "../../../host/cli/tests/projects/project.rs"]
mod project;
#[cfg(test)]
mod projects;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod shadow;
#[cfg(test)]
mod swap;
#[cfg(test)]
mod telemetry;
#[cfg(test)]
mod together;
#[cfg(test)]
mod troubleshooting;
#[cfg(test)]
mod trying;
