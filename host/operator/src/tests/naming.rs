//! Names out of objects that people write, and where they may lead.

use super::double::Double;
use crate::{
    api::{CloudInit, KeyRef, ProxySpec, ProxyStatus},
    cluster::Cluster,
    core::store::{ProxyKey, ProxyRecord, Store, UserDataError},
    events::Events,
    kube_store::KubeStore,
    revisions::Revisions,
};

#[tokio::test]
async fn user_data_is_never_asked_for_by_a_name_that_leads_elsewhere() {
    let api = Double::default();
    let store = KubeStore::new(api.client(), Events::new(api.client(), "test"));
    let at = |name: &str, key: &str| Some(KeyRef { name: name.to_owned(), key: key.to_owned() });
    let secret = |name, key| CloudInit { secret_ref: at(name, key), ..CloudInit::default() };
    let config_map = |name, key| CloudInit { config_map_ref: at(name, key), ..CloudInit::default() };
    for (source, told) in [
        (secret("../../kube-system/secrets/root", "a"), "spec.cloudInit.secretRef.name"),
        (secret("a?watch=true", "a"), "spec.cloudInit.secretRef.name"),
        (secret("a", "a/b"), "spec.cloudInit.secretRef.key"),
        (config_map("a#", "a"), "spec.cloudInit.configMapRef.name"),
        (config_map("a", ""), "spec.cloudInit.configMapRef.key"),
    ] {
        let record = ProxyRecord {
            key: ProxyKey { namespace: "team-a".to_owned(), name: "web".to_owned() },
            uid: "uid".to_owned(),
            generation: 1,
            version: "1".to_owned(),
            deleting: false,
            finalizer: true,
            retry: None,
            abandon: false,
            adopt: None,
            spec: ProxySpec { cloud_init: Some(source), ..ProxySpec::default() },
            status: ProxyStatus::default(),
        };
        let error = store.user_data(&record).await.unwrap_err();
        assert!(matches!(&error, UserDataError::Invalid { field, .. } if field == told), "{error}");
    }
    assert_eq!(api.count("GET", "/"), 0, "nothing was asked for");
}

#[tokio::test]
async fn a_hold_on_what_is_no_revision_is_refused_without_a_call() {
    let api = Double::default();
    let cluster = Cluster { client: api.client(), namespace: "system".to_owned() };
    let revisions = Revisions::new(&cluster, "kubernetes".parse().unwrap());
    for bad in ["", "1/../../x", "12?34", "none", "AB"] {
        let refusal = revisions.restore(bad, 1 << 20).await.unwrap_err();
        assert_eq!(refusal.reason, "RevisionInvalid", "{bad}");
        assert!(refusal.message.starts_with("spec.hold.revision of ProviderHealth kubernetes"), "{refusal}");
    }
    assert_eq!(api.count("GET", "/"), 0, "nothing was asked for");
}
