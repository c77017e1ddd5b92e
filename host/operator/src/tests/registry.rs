//! Entries whose component is an image in a registry.

use egress_registry::{About, Access, Client, Rights, artifact};

use super::{
    fake_registry::{Admits, Fake},
    process::{GUEST, World},
};

/// The entry of [`super::process::text`], with an image as its module.
fn text(image: &str, config: &str) -> String {
    let file = super::process::text("a.wasm", config);
    file.replace("{ file: a.wasm }", &format!("{{ oci: {{ ref: '{image}', plainHttp: true }} }}"))
}

/// Answers the digest that the tag means now.
async fn push(image: &str, component: &[u8]) -> String {
    let access = Access { plain_http: true, ..Access::default() };
    let client = Client::new(image.parse().unwrap(), Rights::Push, access).unwrap();
    client.push(&artifact(component, &About::default())).await.unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_goes_on_without_its_registry_and_so_does_a_start() {
    let registry = Fake::new(Admits::Everybody).await;
    let image = registry.image("team/kubernetes:1");
    let digest = push(&image, &GUEST).await;
    let world = World::new("registry");
    let process = world.start();
    process.apply(&text(&image, "one"));
    let one = process.active_after(None).await;
    let health = process.shows(|health| health["status"]["active"]["revision"] == one.as_str()).await;
    assert_eq!(health["status"]["active"]["source"], format!("image {image}@{digest}"));
    process.kept(1).await;

    let fetched = |registry: &Fake| {
        registry.asked().iter().filter(|asked| asked.path.contains("/blobs/sha256:")).count()
    };
    let before = fetched(&registry);
    process.apply(&text(&image, "two"));
    let two = process.active_after(Some(&one)).await;
    process.kept(2).await;
    assert_eq!(fetched(&registry), before, "what is known is not fetched again");

    drop(registry);
    process.apply(&text(&image, "three"));
    let health = process.shows(|health| health["status"]["refusal"]["reason"] == "Unreachable").await;
    let message = health["status"]["refusal"]["message"].as_str().unwrap();
    assert!(
        message.contains(&image.replace("/team/kubernetes:1", "")) && message.contains("is the registry up"),
        "{message}"
    );
    assert_eq!(health["status"]["active"]["revision"], two.as_str());
    // What the image means is known, when it is named by its digest.
    process.apply(&text(&format!("{image}@{digest}"), "three"));
    let three = process.active_after(Some(&two)).await;
    process.kept(3).await;
    drop(process);

    let process = world.start();
    process.apply(&text(&image, "three"));
    let health = process.shows(|health| health["status"]["refusal"]["reason"] == "Unreachable").await;
    process.shows(|_| process.active().is_some()).await;
    assert_eq!(process.active(), Some(three), "{health:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_says_nothing_holds_up_neither_a_start_nor_a_change_of_the_entry() {
    let world = World::new("silent");
    let process = world.start();
    process.apply(&super::process::text("a.wasm", "one"));
    let one = process.active_after(None).await;
    process.kept(1).await;
    drop(process);
    // It takes connections, and answers none: minutes go by until it is given up.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let image = format!("{}/p:1", silent.local_addr().unwrap());
    let process = world.start();
    process.apply(&text(&image, "one"));
    let given_up = |health: &serde_json::Value| health["status"]["refusal"]["reason"] == "Unreachable";
    let health = process.shows(|_| process.active().is_some()).await;
    assert_eq!(process.active(), Some(one.clone()));
    assert!(!given_up(&health), "it still waits: {health:#}");
    process.apply(&super::process::text("a.wasm", "two"));
    let two = process.active_after(Some(&one)).await;
    let health = process.shows(|health| health["status"]["active"]["revision"] == two.as_str()).await;
    assert!(!given_up(&health), "{health:#}");
    drop(silent);
}
