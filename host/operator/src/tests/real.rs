//! Over a real API server. A control plane without nodes is enough, and no operator may run there:
//! `KUBECONFIG=... cargo test -p egress-operator -- --ignored`.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{ConfigMap, Namespace, Secret},
        events::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{conditions, wait::await_condition},
};
use serde_json::json;

use crate::{
    api::{
        ActiveRevision, CloudInit, FINALIZER, HealthCheck, KeyRef, Phase, Proxy, ProxySpec, ProxyStatus, crds,
    },
    cluster::{ApiServer, Cluster, call},
    config::Settings,
    core::store::{Notice, ProxyKey, ProxyRecord, Store, StoreError, UserDataError},
    events::Events,
    identity::{self, IdentityError},
    kube_store::KubeStore,
    revisions::{KeepError, Revisions},
};

/// A namespace of its own in the cluster that KUBECONFIG names, with the CRDs in place.
struct Real {
    cluster: Cluster,
    store: KubeStore,
}

impl Real {
    async fn new(test: &str) -> Self {
        let config = kube::Config::infer().await.unwrap();
        let name = format!("test-{test}-{:08x}", rand::random::<u32>());
        let cluster = Cluster::new(ApiServer::Cluster(Box::new(config)), name.clone()).unwrap();
        let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        namespaces
            .create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() })
            .await
            .unwrap();
        install_crds(&cluster.client).await;
        let store = KubeStore::new(cluster.client.clone(), Events::new(cluster.client.clone(), "test"));
        Self { cluster, store }
    }

    fn key(&self) -> ProxyKey {
        ProxyKey { namespace: self.cluster.namespace.clone(), name: "web".to_owned() }
    }

    fn proxies(&self) -> Api<Proxy> {
        Api::namespaced(self.cluster.client.clone(), &self.cluster.namespace)
    }

    async fn create(&self, spec: ProxySpec) -> ProxyRecord {
        let proxy = Proxy::new("web", spec);
        self.proxies().create(&PostParams::default(), &proxy).await.unwrap();
        self.store.get(&self.key()).await.unwrap().unwrap()
    }
}

async fn install_crds(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        let name = crd.name_any();
        let apply = PatchParams::apply("test").force();
        api.patch(&name, &apply, &Patch::Apply(&crd)).await.unwrap();
        await_condition(api.clone(), &name, conditions::is_crd_established()).await.unwrap();
    }
}

fn spec() -> ProxySpec {
    ProxySpec { provider: "kubernetes".to_owned(), port: 3128, ..ProxySpec::default() }
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn a_spec_that_makes_no_sense_is_refused_at_the_door() {
    let real = Real::new("spec").await;
    let both = CloudInit {
        inline: Some("a".to_owned()),
        secret_ref: Some(KeyRef { name: "a".to_owned(), key: "b".to_owned() }),
        ..CloudInit::default()
    };
    let secret = |name: &str, key: &str| {
        let at = KeyRef { name: name.to_owned(), key: key.to_owned() };
        Some(CloudInit { secret_ref: Some(at), ..CloudInit::default() })
    };
    let health = |change: fn(&mut HealthCheck)| {
        let mut check = HealthCheck { period_seconds: Some(5), ..HealthCheck::default() };
        change(&mut check);
        ProxySpec { health_check: Some(check), ..spec() }
    };
    for (bad, told) in [
        (ProxySpec { provider: "Upper".to_owned(), ..spec() }, "[a-z0-9-]{1,20}"),
        (ProxySpec { provider: "a".repeat(21), ..spec() }, "may not be more than 20"),
        (ProxySpec { port: 0, ..spec() }, "greater than or equal to 1"),
        (ProxySpec { cloud_init: secret("../../a", "b"), ..spec() }, "an object's name has"),
        (ProxySpec { cloud_init: secret("a", "b/c"), ..spec() }, "a key matches"),
        (ProxySpec { cloud_init: Some(both), ..spec() }, "exactly one of inline"),
        (ProxySpec { cloud_init: Some(CloudInit::default()), ..spec() }, "exactly one of inline"),
        (health(|check| check.period_seconds = Some(0)), "greater than or equal to 1"),
        (health(|check| check.replace_after_seconds = Some(29)), "greater than or equal to 30"),
        (health(|check| check.timeout_seconds = Some(9)), "timeoutSeconds must be at most periodSeconds"),
    ] {
        let answer = call(real.proxies().create(&PostParams::default(), &Proxy::new("web", bad))).await;
        let error = answer.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn a_write_of_what_was_changed_meanwhile_is_a_conflict() {
    let real = Real::new("stale").await;
    let read = real.create(spec()).await;
    let status =
        ProxyStatus { phase: Some(Phase::Creating), incarnation: u32::MAX, ..ProxyStatus::default() };
    let written = real.store.write_status(&read, status.clone()).await.unwrap();
    assert_eq!(written.status, status);
    let stale = real.store.write_status(&read, ProxyStatus::default()).await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    assert!(matches!(real.store.set_finalizer(&read, true).await, Err(StoreError::Conflict(_))));
    let same = real.store.write_status(&written, status).await.unwrap();
    assert_eq!(same.version, written.version, "an unchanged status is no change");
    let bare = real.store.write_status(&written, ProxyStatus::default()).await.unwrap();
    assert_eq!(bare.status, ProxyStatus::default(), "what is left out is gone");
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn a_successor_of_the_same_name_is_never_written_to() {
    let real = Real::new("successor").await;
    let read = real.create(spec()).await;
    real.proxies().delete("web", &DeleteParams::default()).await.unwrap();
    let gone = real.store.write_status(&read, ProxyStatus::default()).await;
    assert!(matches!(gone, Err(StoreError::Gone(_))), "{gone:?}");
    assert_eq!(real.store.get(&real.key()).await.unwrap(), None);
    let successor = real.create(spec()).await;
    // Even somebody who guesses the version.
    let guessed = ProxyRecord { version: successor.version.clone(), ..read };
    let written = real.store.write_status(&guessed, ProxyStatus::default()).await;
    assert!(matches!(written, Err(StoreError::Conflict(_))), "{written:?}");
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn the_finalizer_goes_on_and_off_beside_those_of_others() {
    let real = Real::new("finalizer").await;
    let read = real.create(spec()).await;
    let others = json!({ "metadata": { "finalizers": ["example.com/other"] } });
    real.proxies().patch("web", &PatchParams::default(), &Patch::Merge(others)).await.unwrap();
    let read = real.store.get(&read.key).await.unwrap().unwrap();
    let held = real.store.set_finalizer(&read, true).await.unwrap().unwrap();
    assert!(held.finalizer);
    let seen = real.proxies().get("web").await.unwrap();
    assert_eq!(seen.finalizers(), ["example.com/other", FINALIZER]);

    real.proxies().delete("web", &DeleteParams::default()).await.unwrap();
    let deleting = real.store.get(&read.key).await.unwrap().unwrap();
    assert!(deleting.deleting && deleting.generation > held.generation);
    let left = real.store.set_finalizer(&deleting, false).await.unwrap().unwrap();
    assert!(!left.finalizer, "the other's finalizer still holds it");
    let none = json!({ "metadata": { "finalizers": null } });
    real.proxies().patch("web", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    assert_eq!(real.store.get(&read.key).await.unwrap(), None);
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn taking_the_last_finalizer_off_is_the_end() {
    let real = Real::new("end").await;
    let read = real.create(spec()).await;
    real.store.set_finalizer(&read, true).await.unwrap().unwrap();
    real.proxies().delete("web", &DeleteParams::default()).await.unwrap();
    let deleting = real.store.get(&read.key).await.unwrap().unwrap();
    assert_eq!(real.store.set_finalizer(&deleting, false).await.unwrap(), None);
    assert_eq!(real.store.get(&read.key).await.unwrap(), None);
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn user_data_comes_from_where_the_spec_says() {
    let real = Real::new("userdata").await;
    let at = KeyRef { name: "squid".to_owned(), key: "user-data".to_owned() };
    let (client, namespace) = (real.cluster.client.clone(), real.cluster.namespace.clone());
    let from_secret = CloudInit { secret_ref: Some(at.clone()), ..CloudInit::default() };
    let mut record = real.create(ProxySpec { cloud_init: Some(from_secret), ..spec() }).await;
    let missing = real.store.user_data(&record).await.unwrap_err();
    let what = format!("Secret {namespace}/squid, key user-data");
    assert_eq!(missing, UserDataError::Missing { what });

    let metadata = ObjectMeta { name: Some(at.name.clone()), ..ObjectMeta::default() };
    let value = ByteString(vec![0, 159, 146, 150]);
    let secret = Secret {
        metadata: metadata.clone(),
        data: Some(BTreeMap::from([(at.key.clone(), value.clone())])),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(real.store.user_data(&record).await.unwrap(), value.0, "byte for byte");

    let config_map = ConfigMap {
        metadata,
        data: Some(BTreeMap::from([(at.key.clone(), "#cloud-config".to_owned())])),
        ..ConfigMap::default()
    };
    let config_maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    config_maps.create(&PostParams::default(), &config_map).await.unwrap();
    record.spec.cloud_init = Some(CloudInit { config_map_ref: Some(at), ..CloudInit::default() });
    assert_eq!(real.store.user_data(&record).await.unwrap(), b"#cloud-config");
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn the_identity_is_minted_once_and_stays_in_its_cluster() {
    let real = Real::new("identity").await;
    let all = futures::future::join_all(
        (0..16).map(|_| identity::establish(&real.cluster, std::slice::from_ref(&real.cluster.namespace))),
    )
    .await;
    let ids: std::collections::BTreeSet<_> =
        all.iter().map(|identity| identity.as_ref().unwrap().installation.id().to_owned()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");

    let secrets: Api<Secret> = Api::namespaced(real.cluster.client.clone(), &real.cluster.namespace);
    let moved = json!({ "stringData": { "cluster": "another" } });
    secrets.patch(identity::SECRET, &PatchParams::default(), &Patch::Merge(moved)).await.unwrap();
    let refused =
        identity::establish(&real.cluster, std::slice::from_ref(&real.cluster.namespace)).await.unwrap_err();
    assert!(matches!(refused, IdentityError::OtherCluster { .. }), "{refused}");
    let lost = json!({ "data": { "id": null } });
    secrets.patch(identity::SECRET, &PatchParams::default(), &Patch::Merge(lost)).await.unwrap();
    let refused =
        identity::establish(&real.cluster, std::slice::from_ref(&real.cluster.namespace)).await.unwrap_err();
    assert!(matches!(refused, IdentityError::Broken { .. }), "{refused}");
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn a_revision_is_kept_whole_and_one_that_does_not_fit_is_told() {
    let real = Real::new("revisions").await;
    let revisions = Revisions::new(&real.cluster, "kubernetes".parse().unwrap());
    let module = egress_runtime::Module::unpack(b"\0asm and so on", 1 << 20).unwrap();
    let about = ActiveRevision {
        revision: "0123456789ab".to_owned(),
        digest: module.digest().to_string(),
        ..ActiveRevision::default()
    };
    let settings = Settings { config: json!({ "cluster": "home" }), ..Settings::default() };
    for _ in 0..2 {
        revisions.keep(&about, &settings, &module, &[]).await.unwrap();
    }
    let kept = revisions.restore("0123456789ab", 1 << 20).await.unwrap();
    assert_eq!((kept.module.bytes(), kept.settings), (module.bytes(), settings.clone()));
    assert_eq!(revisions.history().await.unwrap().len(), 1);
    assert_eq!(revisions.restore("ffff", 1 << 20).await.unwrap_err().reason, "RevisionMissing");

    let mut noise = vec![0; 1_100_000];
    rand::RngCore::fill_bytes(&mut rand::rng(), &mut noise);
    let large = egress_runtime::Module::unpack(&[b"\0asm".as_slice(), &noise].concat(), 4 << 20).unwrap();
    let about = ActiveRevision { revision: "large".to_owned(), ..about };
    let error = revisions.keep(&about, &settings, &large, &[]).await.unwrap_err();
    assert!(matches!(error, KeepError::TooLarge { .. }), "{error}");
}

#[tokio::test]
#[ignore = "needs an API server: KUBECONFIG"]
async fn the_same_words_are_one_event_that_is_counted() {
    let real = Real::new("events").await;
    let record = real.create(spec()).await;
    let notice =
        |message: &str| Notice { warning: true, reason: "Refused".to_owned(), message: message.to_owned() };
    for message in ["one", "one", "two", "one", &"ä".repeat(2000)] {
        real.store.notify(&record, notice(message)).await;
    }
    let events: Api<Event> = Api::namespaced(real.cluster.client.clone(), &real.cluster.namespace);
    let found = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 3);
    let one = found.iter().find(|event| event.note.as_deref() == Some("one")).unwrap();
    assert_eq!(one.series.as_ref().unwrap().count, 3);
    assert_eq!(one.regarding.as_ref().unwrap().kind.as_deref(), Some(Proxy::kind(&()).as_ref()));
}
