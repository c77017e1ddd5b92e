//! Keeping revisions among ConfigMaps that others made.

use egress_runtime::Module;
use serde_json::{Value, json};

use super::double::Double;
use crate::{api::ActiveRevision, cluster::Cluster, config::Settings, revisions::Revisions};

const AT: &str = "/api/v1/namespaces/system/configmaps";

fn revisions(api: &Double) -> Revisions {
    let cluster = Cluster { client: api.client(), namespace: "system".to_owned() };
    Revisions::new(&cluster, "kubernetes".parse().unwrap())
}

/// So many that the oldest must go, each a second after the one before.
async fn keep(revisions: &Revisions, numbers: std::ops::Range<u32>) {
    let module = Module::unpack(b"\0asm and so on", 1 << 20).unwrap();
    for number in numbers {
        let about = ActiveRevision {
            revision: format!("{number:012x}"),
            digest: module.digest().to_string(),
            since: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                jiff::Timestamp::from_second(1_700_000_000 + i64::from(number)).unwrap(),
            )),
            ..ActiveRevision::default()
        };
        revisions.keep(&about, &Settings::default(), &module, &[]).await.unwrap();
    }
}

#[tokio::test]
async fn a_config_map_that_only_looks_like_a_kept_revision_is_neither_listed_nor_deleted() {
    let (api, ours) = (Double::default(), "egress-revision-kubernetes-000000000001");
    let revisions = revisions(&api);
    keep(&revisions, 1..2).await;
    let made = api.object(&format!("{AT}/{ours}")).unwrap();
    let foreign = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut object = made.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"].as_object_mut().unwrap().remove("uid");
        change(&mut object);
        api.put(&format!("{AT}/{name}"), object);
    };
    let label = |object: &mut Value, key: &str| {
        object["metadata"]["labels"].as_object_mut().unwrap().remove(key).unwrap();
    };
    foreign("labelled", &|object| {
        object["metadata"]["labels"] = json!({ "egressproxies.dev/entry": "kubernetes" });
        object["metadata"]["annotations"] = Value::Null;
    });
    foreign("another-name", &|_| {});
    foreign("egress-revision-kubernetes-0a", &|_| {});
    foreign("egress-revision-kubernetes-0b", &|object| {
        object["metadata"]["annotations"]["egressproxies.dev/about"] = json!("{");
    });
    foreign("unmanaged", &|object| label(object, "app.kubernetes.io/managed-by"));
    foreign("unnumbered", &|object| label(object, "egressproxies.dev/revision"));

    keep(&revisions, 2..13).await;
    let left = api.below(&format!("{AT}/"));
    assert_eq!(left.len(), 10 + 6, "the ten newest, and all of the others");
    assert!(api.object(&format!("{AT}/{ours}")).is_none(), "the oldest of ours went");
    let history = revisions.history().await.unwrap();
    let history: Vec<_> = history.into_iter().map(|kept| kept.revision).collect();
    let newest: Vec<_> = (3..13).rev().map(|number| format!("{number:012x}")).collect();
    assert_eq!(history, newest);
}
