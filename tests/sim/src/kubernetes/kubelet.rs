//! The kubelet: what becomes of a Pod on its node, step by step.
//!
//! The steps, their order and their words are those of a real kubelet; the time between them is the cluster's
//! pace. A step that was planned for a container that has ended since, or for a Pod that is gone, does nothing.

use serde_json::{Value, json};

use super::{
    due::{Due, PodRef},
    identity,
    json::{at, list, put, text},
    node::Image,
    pod_status::{Container, Ended, Exit, Run, State as ContainerState},
    state::State,
    store::Key,
    time::stamp,
};

/// The first restart comes at once, the next after this; each doubles it.
const FIRST_BACKOFF_MS: u64 = 10_000;
const LONGEST_BACKOFF_MS: u64 = 300_000;
const LONGEST_MOUNT_BACKOFF_MS: u64 = 122_000;
/// How long a container's end is shown before its back-off is.
const END_SHOWN_MS: u64 = 1_000;
/// How soon a container that could not be configured is tried again.
const CONFIG_RETRY_MS: u64 = 10_000;
/// How long a failed pull is shown as such.
const PULL_ERROR_SHOWN_MS: u64 = 12_000;

/// What a kubelet does next with a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes it up.
    Admit,
    /// Makes its network, once its volumes are there.
    Sandbox,
    /// Something with one of its containers, in the run that it was planned for.
    Container { index: usize, restarts: u32, what: What },
    /// Its containers have heeded the signal, or been killed.
    Stop,
    /// The API server is told that nothing is left.
    Remove,
}

/// What is done with a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Pull,
    PullBackOff,
    Start,
    Started,
    Ready,
    Exit { code: i32, message: String },
    BackOff,
    Restart,
}

impl State {
    /// Goes on with a Pod, if it is still the same.
    pub(super) fn kubelet(&mut self, pod: &PodRef, step: Step) {
        let key = Key::pod(&pod.namespace, &pod.name);
        let Some(object) = self.store.get(&key).filter(|found| text(found, &["metadata", "uid"]) == pod.uid)
        else {
            self.runs.remove(&pod.uid);
            return;
        };
        let object = object.clone();
        let node = text(&object, &["spec", "nodeName"]);
        let Some(node) = self.nodes.iter().find(|found| found.name == node) else { return };
        if !node.up {
            self.waiting.push((node.name.clone(), pod.clone(), step));
            return;
        }
        let host_ip = node.address.clone();
        let stopping = self.runs.get(&pod.uid).is_some_and(|run| run.stopping);
        match step {
            Step::Admit => {
                let run = Run::new(&object, &host_ip, self.now_ms);
                self.runs.insert(pod.uid.clone(), run);
                self.plan_kubelet(self.pace.sandbox, pod, Step::Sandbox);
                // Deleted before the kubelet saw it.
                if at(&object, &["metadata", "deletionTimestamp"]).is_some() {
                    self.begin_stop(&object, pod);
                }
            }
            Step::Sandbox if !stopping => self.sandbox(&object, pod),
            Step::Container { index, restarts, what } if !stopping => {
                self.container(&object, pod, index, restarts, what);
            }
            Step::Sandbox | Step::Container { .. } => return,
            Step::Stop => self.stop(&object, pod),
            Step::Remove => {
                self.remove(&key, &object);
                return;
            }
        }
        self.write_status(&key, pod);
    }

    fn plan_kubelet(&mut self, in_ms: u64, pod: &PodRef, step: Step) {
        self.agenda.plan(self.now_ms + in_ms, Due::Kubelet(pod.clone(), step));
    }

    fn plan_container(&mut self, in_ms: u64, pod: &PodRef, index: usize, restarts: u32, what: What) {
        self.plan_kubelet(in_ms, pod, Step::Container { index, restarts, what });
    }

    /// Writes what the kubelet knows now, if that says anything new.
    pub(super) fn write_status(&mut self, key: &Key, pod: &PodRef) {
        let (Some(run), Some(object)) = (self.runs.get(&pod.uid), self.store.get(key)) else { return };
        if self.frozen.contains(&pod.uid) {
            return;
        }
        let status = run.status(object, self.now_ms);
        if object.get("status") != Some(&status) {
            let mut object = Value::clone(object);
            put(&mut object, &["status"], status);
            self.write(key, object);
        }
    }

    fn sandbox(&mut self, object: &Value, pod: &PodRef) {
        if !self.volumes_are_there(object) {
            let Some(run) = self.runs.get_mut(&pod.uid) else { return };
            let wait = run.mount_backoff_ms;
            run.mount_backoff_ms = (wait * 2).min(LONGEST_MOUNT_BACKOFF_MS);
            self.plan_kubelet(wait, pod, Step::Sandbox);
            return;
        }
        let ip = self.next_ip();
        let Some(run) = self.runs.get_mut(&pod.uid) else { return };
        run.sandbox = true;
        run.ip = Some(ip);
        for index in 0..run.containers.len() {
            self.plan_container(self.pace.pull, pod, index, 0, What::Pull);
        }
    }

    /// Of those that a container mounts: the others nobody waits for.
    fn volumes_are_there(&self, object: &Value) -> bool {
        let namespace = text(object, &["metadata", "namespace"]);
        let containers = list(object, &["spec", "containers"]);
        let mounted = |name: &str| {
            let mounts = containers.iter().flat_map(|container| list(container, &["volumeMounts"]));
            mounts.into_iter().any(|mount| text(mount, &["name"]) == name)
        };
        list(object, &["spec", "volumes"]).iter().filter(|volume| mounted(text(volume, &["name"]))).all(
            |volume| {
                let sources = [("configMap", "name", "configmaps"), ("secret", "secretName", "secrets")];
                sources.iter().all(|(source, field, resource)| {
                    let Some(source) = volume.get(*source) else { return true };
                    source.get("optional") == Some(&json!(true))
                        || self.store.get(&Key::new(resource, namespace, text(source, &[field]))).is_some()
                })
            },
        )
    }

    /// What a container's variables come from and what is not there.
    fn config_fault(&self, namespace: &str, container: &Value) -> Option<String> {
        let missing = |kind: &str, resource: &str, reference: Option<&Value>, by_key: bool| {
            let reference = reference.filter(|reference| reference.get("optional") != Some(&json!(true)))?;
            let name = text(reference, &["name"]);
            let Some(found) = self.store.get(&Key::new(resource, namespace, name)) else {
                return Some(format!("{} \"{name}\" not found", kind.to_lowercase()));
            };
            let key = text(reference, &["key"]);
            let has = !by_key || at(found, &["data", key]).is_some();
            (!has).then(|| format!("couldn't find key {key} in {kind} {namespace}/{name}"))
        };
        let from = list(container, &["envFrom"]).iter().find_map(|from| {
            missing("ConfigMap", "configmaps", from.get("configMapRef"), false)
                .or_else(|| missing("Secret", "secrets", from.get("secretRef"), false))
        });
        from.or_else(|| {
            list(container, &["env"]).iter().find_map(|variable| {
                let source = |field: &str| at(variable, &["valueFrom", field]);
                missing("ConfigMap", "configmaps", source("configMapKeyRef"), true)
                    .or_else(|| missing("Secret", "secrets", source("secretKeyRef"), true))
            })
        })
    }

    fn container(&mut self, object: &Value, pod: &PodRef, index: usize, restarts: u32, what: What) {
        let now = stamp(self.now_ms);
        let id = match what {
            What::Start => format!("containerd://{}", identity::hex(&mut self.random, 64)),
            _ => String::new(),
        };
        let specs = list(object, &["spec", "containers"]);
        let Some(spec) = specs.get(index) else { return };
        let image = text(spec, &["image"]).to_owned();
        let fault = (what == What::Start).then(|| self.config_fault(&pod.namespace, spec)).flatten();
        let becomes = self.images.get(&image).unwrap_or(&self.any_image).clone();
        let Some(run) = self.runs.get_mut(&pod.uid) else { return };
        let Some(container) = run.containers.get_mut(index).filter(|found| found.restarts == restarts) else {
            return;
        };
        let pace = self.pace;
        let next = match what {
            What::Pull | What::PullBackOff | What::Restart if container.is_running() => None,
            What::Pull if becomes == Image::Missing => {
                let message = pull_error(&image);
                container.state = ContainerState::Waiting { reason: "ErrImagePull", message };
                Some((PULL_ERROR_SHOWN_MS, What::PullBackOff))
            }
            What::Pull => Some((pace.start, What::Start)),
            What::PullBackOff => {
                let message =
                    format!("Back-off pulling image \"{image}\": ErrImagePull: {}", pull_error(&image));
                container.state = ContainerState::Waiting { reason: "ImagePullBackOff", message };
                let wait = next_backoff(&mut container.backoff_ms);
                Some((wait, What::Pull))
            }
            What::Start if let Some(message) = fault => {
                container.state = ContainerState::Waiting { reason: "CreateContainerConfigError", message };
                Some((CONFIG_RETRY_MS, What::Start))
            }
            What::Start => {
                container.start(&now, id, &image, spec, &becomes);
                match becomes {
                    Image::Exits { code, message, after_ms } => {
                        Some((after_ms, What::Exit { code, message }))
                    }
                    Image::NeverStarted if spec.get("startupProbe").is_some() => None,
                    _ if !container.started => Some((pace.probe, What::Started)),
                    _ if !container.ready && becomes != Image::NeverReady => Some((pace.probe, What::Ready)),
                    _ => None,
                }
            }
            What::Started if container.is_running() => {
                container.started = true;
                if spec.get("readinessProbe").is_none() {
                    container.ready = true;
                    None
                } else {
                    (becomes != Image::NeverReady).then_some((pace.probe, What::Ready))
                }
            }
            What::Ready if container.is_running() => {
                container.ready = true;
                None
            }
            What::Exit { code, message } if container.is_running() => {
                container.end(code, last_words(spec, code, message), &now);
                let again = match text(object, &["spec", "restartPolicy"]) {
                    "Never" => false,
                    "OnFailure" => code != 0,
                    _ => true,
                };
                let what = if container.restarts == 0 { What::Restart } else { What::BackOff };
                again.then_some((END_SHOWN_MS, what))
            }
            What::BackOff => {
                let wait = next_backoff(&mut container.backoff_ms);
                container.back_off(object, wait);
                Some((wait - END_SHOWN_MS, What::Restart))
            }
            What::Restart => {
                container.last = container.exit().cloned().or_else(|| container.last.take());
                container.restarts += 1;
                let restarts = container.restarts;
                self.plan_container(0, pod, index, restarts, What::Start);
                return;
            }
            What::Started | What::Ready | What::Exit { .. } => None,
        };
        if let Some((in_ms, what)) = next {
            self.plan_container(in_ms, pod, index, restarts, what);
        }
    }

    /// After a delete: the signal is sent.
    pub(super) fn begin_stop(&mut self, object: &Value, pod: &PodRef) {
        let Some(run) = self.runs.get_mut(&pod.uid) else { return };
        run.stopping = true;
        let grace = at(object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_u64);
        let heeded = self.pace.stop;
        let wait = grace.map_or(heeded, |seconds| heeded.min(seconds * 1000));
        self.plan_kubelet(wait, pod, Step::Stop);
    }

    fn stop(&mut self, object: &Value, pod: &PodRef) {
        let now = stamp(self.now_ms);
        let wait = self.pace.remove;
        let Some(run) = self.runs.get_mut(&pod.uid) else { return };
        run.stopping = true;
        for container in &mut run.containers {
            match &container.state {
                ContainerState::Running { .. } => container.end(0, String::new(), &now),
                ContainerState::Waiting { .. } => container.never_began(),
                ContainerState::Exited(_) => {}
            }
        }
        if at(object, &["metadata", "deletionTimestamp"]).is_some() {
            self.plan_kubelet(wait, pod, Step::Remove);
        }
    }

    /// The kubelet's own delete, without grace. A finalizer still holds the object.
    fn remove(&mut self, key: &Key, object: &Value) {
        if list(object, &["metadata", "finalizers"]).is_empty() {
            self.erase(key);
        } else {
            let mut object = object.clone();
            put(&mut object, &["metadata", "deletionGracePeriodSeconds"], 0);
            put(&mut object, &["metadata", "deletionTimestamp"], stamp(self.now_ms));
            self.write(key, object);
        }
    }

    /// A container ends by itself, at once.
    pub(super) fn crash(&mut self, pod: &PodRef, code: i32, message: &str) -> bool {
        let Some(run) = self.runs.get(&pod.uid) else { return false };
        let Some((index, container)) =
            run.containers.iter().enumerate().find(|(_, container)| container.is_running())
        else {
            return false;
        };
        let restarts = container.restarts;
        let what = What::Exit { code, message: message.to_owned() };
        self.kubelet(pod, Step::Container { index, restarts, what });
        true
    }

    /// The node ends a Pod for its own sake, and leaves it as it is then.
    pub(super) fn evict(&mut self, pod: &PodRef, message: &str) -> bool {
        let now = stamp(self.now_ms);
        let Some(run) = self.runs.get_mut(&pod.uid) else { return false };
        run.stopping = true;
        run.ended = Some(Ended { reason: "Evicted".to_owned(), message: message.to_owned() });
        for container in run.containers.iter_mut().filter(|container| container.is_running()) {
            container.end(137, String::new(), &now);
        }
        let key = Key::pod(&pod.namespace, &pod.name);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message,
            "lastProbeTime": null, "lastTransitionTime": now,
        });
        if let Some(object) = self.store.get(&key) {
            let mut object = Value::clone(object);
            let mut conditions = list(&object, &["status", "conditions"]).to_vec();
            conditions.push(condition);
            put(&mut object, &["status", "conditions"], conditions);
            self.write(&key, object);
        }
        self.write_status(&key, pod);
        true
    }
}

fn next_backoff(backoff_ms: &mut u64) -> u64 {
    *backoff_ms = match *backoff_ms {
        0 => FIRST_BACKOFF_MS,
        last => (last * 2).min(LONGEST_BACKOFF_MS),
    };
    *backoff_ms
}

fn pull_error(image: &str) -> String {
    format!(
        "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found"
    )
}

/// A container says last words where it is asked for them.
fn last_words(spec: &Value, code: i32, message: String) -> String {
    match text(spec, &["terminationMessagePolicy"]) {
        "FallbackToLogsOnError" if code != 0 => message,
        _ => String::new(),
    }
}

impl Container {
    fn start(&mut self, now: &str, id: String, image: &str, spec: &Value, becomes: &Image) {
        self.state = ContainerState::Running { since: now.to_owned() };
        self.id = id;
        self.image_id = format!("sha256:{:0>64}", hex_of(image));
        self.started = spec.get("startupProbe").is_none();
        self.ready = self.started && spec.get("readinessProbe").is_none() && *becomes != Image::NeverReady;
    }

    fn end(&mut self, code: i32, message: String, now: &str) {
        let from = match &self.state {
            ContainerState::Running { since } => Some(since.clone()),
            _ => None,
        };
        let reason = if code == 0 { "Completed" } else { "Error" };
        let (to, id) = (Some(now.to_owned()), self.id.clone());
        self.state = ContainerState::Exited(Exit { code, reason, message, from, to, id });
        self.started = false;
        self.ready = false;
    }

    fn never_began(&mut self) {
        self.state = ContainerState::Exited(match self.last.take() {
            Some(last) => last,
            None => Exit {
                code: 137,
                reason: "ContainerStatusUnknown",
                message: "The container could not be located when the pod was terminated".to_owned(),
                from: None,
                to: None,
                id: String::new(),
            },
        });
    }

    fn back_off(&mut self, pod: &Value, wait_ms: u64) {
        self.last = self.exit().cloned().or_else(|| self.last.take());
        let message = format!(
            "back-off {}s restarting failed container={} pod={}_{}({})",
            wait_ms / 1000,
            self.name,
            text(pod, &["metadata", "name"]),
            text(pod, &["metadata", "namespace"]),
            text(pod, &["metadata", "uid"])
        );
        self.state = ContainerState::Waiting { reason: "CrashLoopBackOff", message };
    }
}

/// Some digest that is one image's own.
fn hex_of(image: &str) -> String {
    let sum = image
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{sum:016x}").repeat(4)
}
