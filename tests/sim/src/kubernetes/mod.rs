//! The Kubernetes API in memory: API server, scheduler, kubelet and garbage collector in virtual time.
//!
//! A [`Cluster`] implements the runtime's capability, so it stands where the real capability does. Before each
//! request, whatever is due by its clock happens: Pods are scheduled, pulled, started, probed and ended, owners'
//! dependents collected, namespaces emptied, quotas counted. Nobody waits for real, and a seed decides every draw.
//!
//! # What is simulated
//!
//! - Reading: one counter of versions; lists by label and field selectors, in pages that show what was there when
//!   the list began, until the past is compacted (every five minutes) and the tokens expire (410).
//! - Writing: what a body's type does not have is dropped, defaults are filled in, names, labels and the fields of
//!   each kind are checked (422), versions and preconditions compared (409); merge patch, JSON patch with the API
//!   server's liberties, server-side apply with its managers.
//! - Deleting: finalizers, deletion timestamps, grace of Pods, preconditions, the Eviction API with budgets in whole
//!   numbers.
//! - Refusing: RBAC by its own objects or by [`Cluster::set_rights`], quotas, Pod Security, webhooks
//!   ([`Cluster::admission_refuses`]), namespaces that are missing or ending, what an entry's grant does not list.
//! - Pods: a scheduler that knows node selectors, room and counts; a kubelet that writes the conditions, reasons and
//!   addresses of a real one, mounts ConfigMaps and Secrets, pulls, probes, restarts with back-off, evicts.
//! - Nodes that stop answering and come back; Deployments and ReplicaSets that make their Pods.
//! - What goes because something else went: owners' dependents, the content of namespaces.
//!
//! The kinds are ConfigMap, Deployment, Event, Namespace, Node, Pod, PodDisruptionBudget, ReplicaSet,
//! ResourceQuota, Secret, Service, ServiceAccount, those of RBAC, and what [`Cluster::serve`] adds.
//!
//! # How it is known to be right
//!
//! `tests/agreement` asks the simulator and a real API server (1.36) the same, several hundred requests, and
//! compares every answer to the letter, but for identities, versions and times. These differences remain:
//!
//! - Kinds other than these are not served.
//! - Init containers, affinity, topology, classes of runtime and what else providers seldom set is not checked.
//! - What the cluster's own controllers write has no entry in `managedFields`.
//! - A change of what must not change is refused without the diff of Go's fields.
//! - Whether a Pod that has ended still shows its address is a matter of chance on a real node; here it does.
//! - A patch after which an object can't be read is refused without the same quote of that object.
//! - How many restarts come before a real kubelet first shows a back-off depends on how busy its node is.
//!
//! # What is not simulated
//!
//! Watches, logs and exec, which the capability does not lend; Events; LimitRanges; how many Pods of a
//! Deployment are there while it is rolled out; networks and volumes beyond whether they are there; taints, preemption, init containers and
//! sidecars, lifecycle hooks; in-place changes of a running Pod. An object of a kind that [`Cluster::serve`]
//! added is taken as it is.

mod admin;
mod admission;
mod apply;
mod cluster;
mod clusters;
mod defaults;
mod deployments;
mod due;
mod eviction;
mod faults;
mod fields;
mod garbage;
mod identity;
mod json;
mod kinds;
mod kubelet;
mod names;
mod node;
mod nodes;
mod paging;
mod patch;
mod pod_status;
mod quantity;
mod quota;
mod requests;
mod rights;
mod scheduler;
mod schema;
mod security;
mod selectors;
mod state;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod time;
mod update;
mod validation;

pub use cluster::Cluster;
pub use clusters::Clusters;
pub use kinds::Kind;
pub use node::{Image, Node, Pace};
pub use rights::{Right, Rights};
