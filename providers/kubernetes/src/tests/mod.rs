//! The provider's promises, over a Kubernetes API in memory.

mod checks;
mod configs;
mod creates;
mod cuts;
mod deletes;
mod fake;
mod gets;
mod lists;
mod made;
mod refusals;

use provider_sdk::{
    Clock, Context, Created, Deleted, Error, Item, Kubernetes, Mark, Provider, Spec, Target, Verdict,
    kubernetes::{Access, DeleteOptions, Failure, ListOptions, PatchKind, Resource, Server},
};
use serde_json::{Value, json};

use crate::KubernetesProvider;
use fake::Fake;

const UID: &str = "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33";
const NAME: &str = "proxy-web-abc123-abcd2345";

fn config() -> Value {
    json!({ "cluster": "home", "image": "squid:6" })
}

fn spec() -> Spec {
    Spec { port: 3128, ..Spec::default() }
}

fn pairs(pairs: &[(&str, &str)]) -> Mark {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn installation_mark() -> Mark {
    pairs(&[("managed", "true"), ("installation", "abc123")])
}

/// What one call is lent.
struct Lent<'a> {
    fake: &'a Fake,
    config: &'a Value,
    mark: Mark,
}

impl Context for Lent<'_> {
    fn config(&self) -> Value {
        self.config.clone()
    }
    fn entry(&self) -> String {
        "kubernetes".to_owned()
    }
    fn installation(&self) -> String {
        "abc123".to_owned()
    }
    fn mark(&self) -> Mark {
        self.mark.clone()
    }
    fn installation_mark(&self) -> Mark {
        installation_mark()
    }
    fn verify(&self, mark: &Mark) -> Verdict {
        let has = |wanted: &Mark, keys: &[&str]| {
            keys.iter().all(|key| {
                let of =
                    |mark: &Mark| mark.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
                of(wanted).is_some() && of(wanted) == of(mark)
            })
        };
        if !has(&installation_mark(), &["managed", "installation"]) || mark.is_empty() {
            Verdict::Foreign
        } else if has(&self.mark, &["managed", "installation", "uid", "incarnation"]) {
            Verdict::ThisTarget
        } else if mark.iter().any(|(key, value)| key == "installation" && value == "abc123") {
            Verdict::ThisInstallation
        } else {
            Verdict::Foreign
        }
    }
    fn remaining_ms(&self) -> u32 {
        30_000
    }
}

impl Clock for Lent<'_> {
    fn now_ms(&self) -> u64 {
        self.fake.now_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.fake.monotonic_ms()
    }
    fn sleep_ms(&self, ms: u32) {
        self.fake.sleep_ms(ms);
    }
}

impl Kubernetes for Lent<'_> {
    fn about(&self, cluster: &str) -> Result<Server, Failure> {
        self.fake.about(cluster)
    }
    fn get(&self, cluster: &str, resource: Resource, namespace: &str, name: &str) -> Result<Value, Failure> {
        self.fake.get(cluster, resource, namespace, name)
    }
    fn list(
        &self,
        cluster: &str,
        of: Resource,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Value, Failure> {
        self.fake.list(cluster, of, namespace, options)
    }
    fn allowed(&self, cluster: &str, access: &Access) -> Result<bool, Failure> {
        self.fake.allowed(cluster, access)
    }
    fn create(&self, cluster: &str, of: Resource, namespace: &str, body: &Value) -> Result<Value, Failure> {
        self.fake.create(cluster, of, namespace, body)
    }
    fn patch(
        &self,
        cluster: &str,
        of: Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind,
        body: &Value,
    ) -> Result<Value, Failure> {
        self.fake.patch(cluster, of, namespace, name, kind, body)
    }
    fn delete(
        &self,
        cluster: &str,
        of: Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Value, Failure> {
        self.fake.delete(cluster, of, namespace, name, options)
    }
}

/// A Proxy as the operator drives it: it keeps the id, and nothing else.
struct Proxy<'a> {
    fake: &'a Fake,
    config: Value,
    spec: Spec,
    target: Target,
}

impl<'a> Proxy<'a> {
    fn new(fake: &'a Fake) -> Self {
        let target = Target {
            name: NAME.to_owned(),
            uid: UID.to_owned(),
            incarnation: 1,
            namespace: "team-a".to_owned(),
            proxy: "web".to_owned(),
            id: None,
            progress: None,
        };
        Self { fake, config: config(), spec: spec(), target }
    }

    fn provider(&self) -> KubernetesProvider<Lent<'_>> {
        let mut mark = installation_mark();
        mark.extend(pairs(&[
            ("uid", &self.target.uid),
            ("incarnation", &self.target.incarnation.to_string()),
            ("namespace", &self.target.namespace),
            ("proxy", &self.target.proxy),
        ]));
        KubernetesProvider::from(Lent { fake: self.fake, config: &self.config, mark })
    }

    fn create_step(&mut self) -> Result<Created, Error> {
        let created = self.provider().create(&self.target, &self.spec, b"")?;
        let id = match &created {
            Created::Done(id) => Some(id),
            Created::Pending(pending) => pending.id.as_ref(),
        };
        self.target.id = id.or(self.target.id.as_ref()).cloned();
        Ok(created)
    }

    /// Up to the step that makes the Pod.
    fn begin(&mut self) {
        for _ in 0..2 {
            self.create_step().unwrap();
        }
    }

    fn create(&mut self) -> Result<String, Error> {
        for _ in 0..10 {
            match self.create_step()? {
                Created::Done(id) => return Ok(id),
                Created::Pending(_) => self.fake.settle(),
            }
        }
        panic!("create never ends: {:?}", self.fake.calls());
    }

    fn delete_step(&self) -> Result<Deleted, Error> {
        self.provider().delete(&self.target)
    }

    fn delete(&self) -> Result<(), Error> {
        for _ in 0..10 {
            match self.delete_step()? {
                Deleted::Done => return Ok(()),
                Deleted::Pending(_) => self.fake.settle(),
            }
        }
        panic!("delete never ends: {:?}", self.fake.calls());
    }

    fn waits_for(&mut self) -> String {
        match self.create_step().unwrap() {
            Created::Pending(pending) => pending.message,
            Created::Done(id) => panic!("{id} is done"),
        }
    }
}

/// A whole sweep.
fn sweep(fake: &Fake, config: &Value) -> (Vec<Item>, Vec<String>) {
    let provider = KubernetesProvider::from(Lent { fake, config, mark: Mark::new() });
    let (mut items, mut unread, mut cursor) = (Vec::new(), Vec::new(), None);
    for _ in 0..1000 {
        let page = provider.list("home", cursor.as_deref()).unwrap();
        items.extend(page.items);
        unread.extend(page.unread);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return (items, unread),
        }
    }
    panic!("the list never ends");
}
