//! A registry that does what it should.

use egress_registry::{About, Hash, Kind, artifact};
use serde_json::json;

use super::{
    asking::{COMPONENT, MOST, image, plainly, pulling, pushing},
    fake::{Admits, Fake, says},
};

#[tokio::test]
async fn what_was_pushed_is_fetched_and_is_not_sent_twice() {
    let registry = Fake::new(Admits::Everybody).await;
    let at = registry.image("team/p:1");
    let digest = pushing(&at, plainly()).push(&image()).await.unwrap();
    assert_eq!(digest, image().digest());
    let pulled = pulling(&at, plainly()).pull(MOST).await.unwrap();
    assert_eq!((pulled.digest, &pulled.component[..]), (digest.clone(), COMPONENT));
    assert_eq!(pulling(&at, plainly()).fetch(MOST).await.unwrap(), image());
    let sent =
        |registry: &Fake| registry.asked().iter().filter(|asked| asked.path.ends_with("uploads/1")).count();
    assert_eq!(sent(&registry), 2, "a config and a layer");
    pushing(&registry.image("team/p:2"), plainly()).push(&image()).await.unwrap();
    assert_eq!(sent(&registry), 2);
    let by_digest = registry.image(&format!("team/p@{digest}"));
    assert_eq!(pulling(&by_digest, plainly()).pull(MOST).await.unwrap().digest, digest);
}

#[tokio::test]
async fn a_tag_means_what_it_was_moved_to_and_a_digest_always_the_same() {
    let registry = Fake::new(Admits::Everybody).await;
    let at = registry.image("p:1");
    let first = pushing(&at, plainly()).push(&image()).await.unwrap();
    assert_eq!(pulling(&at, plainly()).resolve().await.unwrap(), first);
    let second = pushing(&at, plainly()).push(&artifact(b"another", &About::default())).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(pulling(&at, plainly()).resolve().await.unwrap(), second);
    let asked = registry.asked().len();
    let fixed = registry.image(&format!("p:1@{first}"));
    assert_eq!(pulling(&fixed, plainly()).resolve().await.unwrap(), first);
    assert_eq!(registry.asked().len(), asked, "nobody need be asked");
}

#[tokio::test]
async fn a_registry_that_does_not_tell_the_digest_is_asked_for_the_manifest() {
    let registry = Fake::new(Admits::Everybody).await;
    let at = registry.image("p:1");
    pushing(&at, plainly()).push(&image()).await.unwrap();
    for status in [200, 405] {
        registry.rule(move |asked| (asked.method == "HEAD").then(|| says(status, &[], b"")));
        assert_eq!(pulling(&at, plainly()).resolve().await.unwrap(), image().digest());
    }
}

#[tokio::test]
async fn each_refusal_has_a_kind_of_its_own() {
    let registry = Fake::new(Admits::Everybody).await;
    pushing(&registry.image("p:1"), plainly()).push(&image()).await.unwrap();
    let of = async |rest: &str| pulling(&registry.image(rest), plainly()).pull(MOST).await.unwrap_err();
    let error = of("p:2").await;
    assert_eq!(error.kind, Kind::NotFound);
    assert!(error.message.contains("p:2") && error.message.contains("MANIFEST_UNKNOWN"), "{error}");
    assert!(of("q:1").await.message.contains("NAME_UNKNOWN"));
    for (status, kind) in [
        (401, Kind::Unauthorized),
        (403, Kind::Denied),
        (404, Kind::NotFound),
        (429, Kind::TooManyRequests),
        (500, Kind::RegistryFailed),
        (503, Kind::RegistryFailed),
        (418, Kind::RegistryFailed),
    ] {
        registry.rule(move |_| Some(says(status, &[("retry-after", "7")], b"<html>")));
        let error = of("p:1").await;
        assert_eq!(error.kind, kind, "{error}");
        assert_eq!(error.wait.map(|wait| wait.as_secs()), Some(7));
        let error = pulling(&registry.image("p:1"), plainly()).resolve().await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[tokio::test]
async fn what_is_no_component_is_told_with_what_it_is() {
    let registry = Fake::new(Admits::Everybody).await;
    let layer = |kind: &str| json!({ "mediaType": kind, "digest": Hash::of(b"a").as_str(), "size": 1 });
    let tar = "application/vnd.oci.image.layer.v1.tar+gzip";
    let image = json!({ "schemaVersion": 2, "config": layer("c"), "layers": [layer(tar)] });
    registry.put_manifest("p", "image", image.to_string().as_bytes());
    let index = json!({ "schemaVersion": 2, "manifests": [layer("m")] });
    registry.put_manifest("p", "index", index.to_string().as_bytes());
    registry.put_manifest("p", "page", b"<html>");
    let of = async |tag: &str| {
        pulling(&registry.image(&format!("p:{tag}")), plainly()).pull(MOST).await.unwrap_err()
    };
    let error = of("image").await;
    assert_eq!(error.kind, Kind::NoWasmLayer);
    assert!(error.message.contains(tar), "{error}");
    let error = of("index").await;
    assert_eq!(error.kind, Kind::ManifestInvalid);
    assert!(error.message.contains(Hash::of(b"a").as_str()), "{error}");
    assert_eq!(of("page").await.kind, Kind::ManifestInvalid);
}
