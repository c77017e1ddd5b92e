//! As whom a registry is asked, and when.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use egress_capabilities::{CredentialRef, SecretRef, SecretUnread};
use egress_registry::{About, Access, artifact};

use super::*;
use crate::tests::fake_registry::{Admits, Fake, PASSWORD, USER, says};

const KEY: &str = ".dockerconfigjson";
const MOST: u64 = 1024;

/// Secrets by their name alone.
#[derive(Default)]
struct Held(Mutex<BTreeMap<String, Result<String, SecretUnread>>>);

#[async_trait]
impl Secrets for Held {
    async fn read(&self, secret: &SecretRef) -> Result<Vec<u8>, SecretUnread> {
        assert_eq!(secret.key, KEY);
        let held = self.0.lock().unwrap();
        let found = held.get(&secret.name).cloned().unwrap_or(Err(SecretUnread::Missing));
        found.map(String::into_bytes)
    }
}

fn image(reference: &str) -> OciImage {
    let secret_ref = Some(SecretRef { name: "login".to_owned(), key: KEY.to_owned() });
    OciImage {
        reference: reference.parse().unwrap(),
        login: Some(CredentialRef { secret_ref, file: None }),
        ca: None,
        plain_http: true,
        inside: Vec::new(),
        every: Some(Duration::from_millis(10)),
    }
}

async fn push(reference: &str, component: &[u8]) -> String {
    let login = Login::Password { user: USER.to_owned(), password: PASSWORD.to_owned() };
    let access = Access { plain_http: true, login: Some(login), ..Access::default() };
    let client = Client::new(reference.parse().unwrap(), Rights::Push, access).unwrap();
    client.push(&artifact(component, &About::default())).await.unwrap().to_string()
}

fn docker_config(registry: &str, password: &str) -> String {
    let auth = STANDARD.encode(format!("{USER}:{password}"));
    format!(r#"{{ "auths": {{ "{registry}": {{ "auth": "{auth}" }} }} }}"#)
}

#[tokio::test]
async fn each_fault_of_a_login_has_its_reason_and_its_way_out_and_none_is_quoted() {
    let registry = Fake::new(Admits::Basic).await;
    let at = registry.at.to_string();
    let reference = registry.image("p:1");
    push(&reference, b"component").await;
    let held = Arc::new(Held::default());
    let registries = Registries::new(Arc::clone(&held) as Arc<dyn Secrets>);
    let set = |secret| held.0.lock().unwrap().insert("login".to_owned(), secret);
    let fails = async |image: &OciImage| {
        let not = registries.read(image, MOST).await.unwrap_err();
        assert!(!format!("{not:?}").contains("hunter2"), "{not:?}");
        assert!(not.retry.is_some(), "{not:?}");
        (not.refusal.reason, not.refusal.message)
    };
    let asked = image(&reference);
    let (reason, message) = fails(&asked).await;
    assert_eq!(reason, "PullSecretMissing");
    assert!(
        message.contains(&format!("kubectl create secret docker-registry login --docker-server={at}")),
        "{message}"
    );
    set(Err(SecretUnread::Unreadable("forbidden".to_owned())));
    let (reason, message) = fails(&asked).await;
    assert_eq!(reason, "PullSecretUnreadable");
    assert!(message.contains("the right to get it"), "{message}");
    set(Ok("hunter2".to_owned()));
    assert_eq!(fails(&asked).await.0, "PullSecretInvalid");
    set(Ok(r#"{ "credsStore": "desktop" }"#.to_owned()));
    let (reason, message) = fails(&asked).await;
    assert_eq!(reason, "PullSecretInvalid");
    assert!(message.contains("desktop"), "{message}");
    set(Ok(docker_config("other.example", PASSWORD)));
    let (reason, message) = fails(&asked).await;
    assert_eq!(reason, "PullSecretOther");
    assert!(message.contains("other.example"), "{message}");
    set(Ok(docker_config(&at, "hunter2-and-wrong")));
    let (reason, message) = fails(&asked).await;
    assert_eq!(reason, "Unauthorized");
    assert!(message.contains("write Secret login, key .dockerconfigjson anew"), "{message}");
    let (reason, message) = fails(&OciImage { login: None, ..asked.clone() }).await;
    assert_eq!(reason, "Unauthorized");
    assert!(message.contains("module.oci.pullSecret"), "{message}");
    set(Ok(docker_config(&at, PASSWORD)));
    let (component, ..) = registries.read(&asked, MOST).await.unwrap();
    assert_eq!(component, b"component");
    assert_eq!(fails(&image(&registry.image("p:2"))).await.0, "NotFound");
    let large = Registries::new(held as Arc<dyn Secrets>);
    assert_eq!(large.read(&asked, 3).await.unwrap_err().refusal.reason, "TooLarge");
}

#[tokio::test]
async fn a_tag_that_moves_is_told_and_so_is_a_registry_that_goes_away() {
    let registry = Fake::new(Admits::Everybody).await;
    let reference = registry.image("p:1");
    let first = push(&reference, b"one").await;
    let registries = Registries::new(Arc::new(Held::default()));
    let asked = OciImage { login: None, ..image(&reference) };
    let (tell, mut changes) = watch::channel(None);
    let watching = async { registries.watch(&asked, &tell).await };
    let seen = async {
        changes.changed().await.unwrap();
        assert_eq!(*changes.borrow_and_update(), Some(first));
        let second = push(&reference, b"two").await;
        changes.changed().await.unwrap();
        assert_eq!(*changes.borrow_and_update(), Some(second));
        registry.rule(|_| Some(says(404, &[], b"")));
        changes.changed().await.unwrap();
        assert_eq!(*changes.borrow_and_update(), Some("NotFound".to_owned()));
    };
    tokio::select! {
        () = watching => panic!("it ended"),
        () = seen => {}
    }
}

#[tokio::test]
async fn a_blip_is_ridden_out_and_a_registry_that_asks_for_peace_gets_it() {
    let registry = Fake::new(Admits::Everybody).await;
    let reference = registry.image("p:1");
    push(&reference, b"one").await;
    let registries = Registries::new(Arc::new(Held::default()));
    let asked = OciImage { login: None, ..image(&reference) };
    let left = Arc::new(Mutex::new(2));
    registry.rule(move |_| {
        let mut left = left.lock().unwrap();
        let fails = *left > 0;
        *left -= u32::from(fails);
        fails.then(|| says(503, &[], b""))
    });
    assert!(registries.read(&asked, MOST).await.is_ok());
    registry.rule(|_| Some(says(429, &[("retry-after", "1000")], b"")));
    let before = registry.asked().len();
    let not = registries.read(&asked, MOST).await.unwrap_err();
    assert_eq!((not.refusal.reason, registry.asked().len() - before), ("TooManyRequests", 1));
    let (first, longest) = not.retry.unwrap();
    assert!(first >= Duration::from_secs(1000) && longest >= first, "{first:?} {longest:?}");
}
