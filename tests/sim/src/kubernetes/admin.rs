//! What others do to a cluster: its administrators, its nodes, its registries.

use serde_json::{Map, Value, json};

use super::{
    Cluster,
    admission::Refusal,
    due::PodRef,
    json::{at, text},
    kinds::Kind,
    node::{Image, Node, Pace},
    rights::{Right, Rights},
    state::pod_ref,
    store::Key,
};

impl Cluster {
    /// Every object, by resource, namespace and name.
    pub fn objects(&self) -> Vec<Value> {
        self.now().store.all().map(|(_, object)| Value::clone(object)).collect()
    }

    /// One object; `resource` is `pods` or `deployments.apps`.
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.now().store.get(&Key::new(resource, namespace, name)).map(|object| Value::clone(object))
    }

    /// Puts an object in its place as it is: nothing is checked and nothing filled in but UID, version and time.
    /// False where its kind is not served.
    pub fn put(&self, object: Value) -> bool {
        let mut state = self.now();
        let Some(kind) = state.kinds.of(text(&object, &["apiVersion"]), text(&object, &["kind"])) else {
            return false;
        };
        let of = |field: &str| text(&object, &["metadata", field]).to_owned();
        let key = Key::new(&kind.qualified(), &of("namespace"), &of("name"));
        match state.store.get(&key) {
            Some(_) => state.write(&key, object),
            None => state.add(&key, object),
        };
        true
    }

    /// Changes an object behind everybody's back. False where there is none. A Pod's status that is changed so stays
    /// so: its kubelet has no say any more until the Pod goes.
    pub fn edit(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        let mut state = self.now();
        let key = Key::new(resource, namespace, name);
        let Some(object) = state.store.get(&key) else { return false };
        let mut changed = Value::clone(object);
        change(&mut changed);
        if resource == "pods" && changed.get("status") != object.get("status") {
            let uid = text(object, &["metadata", "uid"]).to_owned();
            state.frozen.insert(uid);
        }
        state.write(&key, changed);
        true
    }

    /// Takes an object away at once, finalizers or not. False where there is none.
    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> bool {
        self.now().erase(&Key::new(resource, namespace, name)).is_some()
    }

    /// A namespace more, with its ServiceAccount.
    pub fn add_namespace(&self, name: &str) {
        self.now().add_namespace(name);
    }

    /// One more kind, as a CustomResourceDefinition adds it.
    pub fn serve(&self, kind: Kind) {
        self.now().kinds.add(kind);
    }

    /// Other nodes. A kubelet that is down goes on where it was once its node is up again.
    pub fn set_nodes(&self, nodes: Vec<Node>) {
        self.now().set_nodes(nodes);
    }

    /// What becomes of containers with this image, from now on.
    pub fn set_image(&self, image: &str, becomes: Image) {
        self.now().images.insert(image.to_owned(), becomes);
    }

    /// The same for all images of which nothing else is said.
    pub fn set_every_image(&self, becomes: Image) {
        self.now().any_image = becomes;
    }

    /// No registry has this image.
    pub fn image_missing(&self, image: &str) {
        self.set_image(image, Image::Missing);
    }

    /// How fast things go, from now on.
    pub fn set_pace(&self, pace: Pace) {
        self.now().pace = pace;
    }

    /// A Pod's container ends by itself. False where none runs.
    pub fn crash(&self, namespace: &str, name: &str, code: i32, message: &str) -> bool {
        let mut state = self.now();
        self.pod(&state, namespace, name).is_some_and(|pod| state.crash(&pod, code, message))
    }

    /// A node ends a Pod for want of room. False where it runs on none.
    pub fn evict(&self, namespace: &str, name: &str) -> bool {
        let mut state = self.now();
        let message = "The node was low on resource: memory. ";
        self.pod(&state, namespace, name).is_some_and(|pod| state.evict(&pod, message))
    }

    /// What a user may do. Who was never named may do everything, unless he is a ServiceAccount of the cluster:
    /// that may do what RBAC's objects let it.
    pub fn set_rights(&self, user: &str, rights: Rights) {
        self.now().granted.set(user, rights);
    }

    /// Takes rights from the user that this handle asks as; the others stay.
    pub fn forbid(&self, rights: Vec<Right>) {
        self.set_rights(self.user(), Rights::AllBut(rights));
    }

    /// What the entry's grant does not list: refused as the real capability does, before anything is sent.
    pub fn not_granted(&self, rights: Vec<Right>) {
        self.now().not_granted = rights;
    }

    /// A quota of a namespace, in force at once; `hard` are pairs like `pods`, `3`.
    pub fn set_quota(&self, namespace: &str, name: &str, hard: &[(&str, &str)]) {
        let hard: Map<String, Value> =
            hard.iter().map(|(what, amount)| ((*what).to_owned(), (*amount).into())).collect();
        self.put(json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "namespace": namespace, "name": name },
            "spec": { "hard": hard }, "status": {},
        }));
        self.now().count_quota(namespace);
    }

    /// New objects of a resource (all where it is empty) in a namespace (likewise) are refused, as a webhook does
    /// it.
    pub fn admission_refuses(&self, resource: &str, namespace: &str, message: &str) {
        let of = |text: &str| text.to_owned();
        let refusal = Refusal { resource: of(resource), namespace: of(namespace), message: of(message) };
        self.now().refusals.push(refusal);
    }

    /// They are let in again.
    pub fn admission_allows(&self) {
        self.now().refusals.clear();
    }

    /// Every list that has begun has to begin anew.
    pub fn expire_continue_tokens(&self) {
        let mut state = self.now();
        // Whatever was answered named at most this version.
        state.expire_tokens();
    }

    /// Whether lists can't go on at all: each token expires at once.
    pub fn let_tokens_expire(&self, on: bool) {
        self.now().tokens_expire = on;
    }

    fn pod(&self, state: &super::state::State, namespace: &str, name: &str) -> Option<PodRef> {
        let pod = state.store.get(&Key::pod(namespace, name))?;
        at(pod, &["metadata", "uid"]).map(|_| pod_ref(pod))
    }
}
