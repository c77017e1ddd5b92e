//! Registries that are broken, or that want what is not theirs.

use std::time::Duration;

use egress_registry::{Access, Hash, Kind, RegistryError, Timeouts};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    asking::{COMPONENT, MOST, image, impatient, logged_in, plainly, pulling, pushing},
    fake::{Admits, Answer, Asked, Fake, PASSWORD, says},
};

async fn pushed(admits: Admits) -> (Fake, String) {
    let registry = Fake::new(admits).await;
    let at = registry.image("p:1");
    pushing(&at, logged_in()).push(&image()).await.unwrap();
    (registry, at)
}

async fn fails(at: &str, access: Access) -> RegistryError {
    pulling(at, access).pull(MOST).await.unwrap_err()
}

fn redirect(to: String) -> impl Fn(&Asked) -> Option<Answer> + Send + Sync {
    move |asked| asked.path.contains("/blobs/").then(|| says(307, &[("location", &to)], b""))
}

/// Answers each request with these bytes; `goes_on` then sends more of them, and never ends.
async fn raw(head: &'static [u8], goes_on: Option<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let mut sent = stream.write_all(head).await;
                while let (Ok(()), Some(more)) = (&sent, goes_on) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    sent = stream.write_all(more).await;
                }
            });
        }
    });
    format!("{at}/p:1")
}

#[tokio::test]
async fn what_is_not_what_was_asked_for_is_refused() {
    let (registry, at) = pushed(Admits::Everybody).await;
    let wanted = registry.image(&format!("p@{}", image().digest()));
    registry.rule(|asked| asked.path.contains("/manifests/").then(|| says(200, &[], b"{}")));
    let error = fails(&wanted, plainly()).await;
    assert_eq!(error.kind, Kind::DigestDiffers);
    assert!(error.message.contains(Hash::of(b"{}").as_str()), "{error}");
    registry.rule(|_| None);
    registry.change_blob(COMPONENT, b"\0asm and evil!");
    let error = fails(&at, plainly()).await;
    assert_eq!(error.kind, Kind::DigestDiffers);
    assert!(error.message.contains(Hash::of(b"\0asm and evil!").as_str()), "{error}");
    registry.change_blob(COMPONENT, b"less");
    assert_eq!(fails(&at, plainly()).await.kind, Kind::DigestDiffers);
}

#[tokio::test]
async fn what_is_too_large_is_not_read_to_its_end() {
    let (registry, at) = pushed(Admits::Everybody).await;
    registry.change_blob(COMPONENT, &[0; 100]);
    let error = fails(&at, plainly()).await;
    assert_eq!(error.kind, Kind::TooLarge, "more than the manifest says: {error}");
    let error = pulling(&at, plainly()).pull(3).await.unwrap_err();
    assert_eq!(error.kind, Kind::TooLarge);
    assert!(error.message.contains("14 bytes, and 3 is the most"), "{error}");
    registry.rule(|asked| asked.path.contains("/manifests/").then(|| says(200, &[], &vec![b' '; 10 << 20])));
    let error = fails(&at, plainly()).await;
    assert_eq!(error.kind, Kind::TooLarge);
    assert!(error.message.contains("the manifest of"), "{error}");
    // Without a length, and without an end.
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk: &[u8] =
        Box::leak([b"80000\r\n".as_slice(), &[b' '; 0x80000], b"\r\n"].concat().into_boxed_slice());
    let error = fails(&raw(head, Some(chunk)).await, plainly()).await;
    assert_eq!(error.kind, Kind::TooLarge, "{error}");
    let endless_header = raw(b"HTTP/1.1 200 OK\r\nA: ", Some(&[b'a'; 4096])).await;
    assert_eq!(fails(&endless_header, plainly()).await.kind, Kind::Unreachable);
}

#[tokio::test]
async fn an_image_of_very_many_layers_is_bounded_as_a_whole() {
    let registry = Fake::new(Admits::Everybody).await;
    registry.put_blob(COMPONENT);
    registry.put_blob(b"c");
    let part = |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": Hash::of(bytes).as_str(), "size": bytes.len() });
    let mut layers = vec![part("text/plain", COMPONENT); 1000];
    layers.push(part("application/wasm", COMPONENT));
    let manifest = json!({ "config": part("c", b"c"), "layers": layers }).to_string();
    registry.put_manifest("p", "1", manifest.as_bytes());
    let most = 3 * COMPONENT.len() as u64;
    let error = pulling(&registry.image("p:1"), plainly()).fetch(most).await.unwrap_err();
    assert_eq!(error.kind, Kind::TooLarge, "{error}");
    assert!(registry.asked().len() < 10, "{}", registry.asked().len());
    pulling(&registry.image("p:1"), plainly()).pull(most).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_told_as_that() {
    let torn = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", None).await;
    let error = fails(&torn, plainly()).await;
    assert_eq!(error.kind, Kind::Unreachable);
    assert!(error.message.contains("broke off"), "{error}");
    let garbage = raw(b"SSH-2.0-OpenSSH_9.2\r\n", None).await;
    let error = fails(&garbage, plainly()).await;
    assert_eq!(error.kind, Kind::Unreachable);
    assert!(error.message.contains("no answer that is HTTP"), "{error}");
}

#[tokio::test]
async fn one_that_drips_or_says_nothing_is_given_up() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    let error = fails(&raw(head, Some(b"x")).await, impatient()).await;
    assert_eq!(error.kind, Kind::Unreachable);
    assert!(error.message.contains("not done within 500 ms"), "{error}");
    let stall = Timeouts { stall: Duration::from_millis(100), ..Timeouts::default() };
    let error = fails(&raw(head, None).await, Access { timeouts: stall, ..plainly() }).await;
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("{}/p:1", silent.local_addr().unwrap());
    let error = fails(&at, Access { timeouts: stall, ..plainly() }).await;
    assert!(error.message.contains("no answer within 100 ms"), "{error}");
    drop(silent);
    let error = fails(&at, plainly()).await;
    assert_eq!(error.kind, Kind::Unreachable);
    assert!(error.message.contains("no connection"), "{error}");
}

#[tokio::test]
async fn only_who_the_ca_signed_is_trusted() {
    let registry = Fake::with_tls().await;
    let at = format!("localhost:{}/p:1", registry.at.port());
    let layer = |bytes: &[u8]| json!({ "mediaType": "application/wasm", "digest": Hash::of(bytes).as_str(), "size": bytes.len() });
    let manifest = json!({ "config": layer(b"c"), "layers": [layer(b"a")] });
    registry.put_manifest("p", "1", manifest.to_string().as_bytes());
    registry.put_blob(b"a");
    let error = fails(&at, Access::default()).await;
    assert_eq!(error.kind, Kind::TlsTrust, "{error}");
    let trusting = Access { ca: registry.pem.clone(), ..Access::default() };
    assert_eq!(&pulling(&at, trusting.clone()).pull(MOST).await.unwrap().component[..], b"a");
    let another = Fake::with_tls().await;
    let error = fails(&at, Access { ca: another.pem.clone(), ..Access::default() }).await;
    assert_eq!(error.kind, Kind::TlsTrust);
    let by_address = format!("127.0.0.1:{}/p:1", registry.at.port());
    assert_eq!(fails(&by_address, trusting.clone()).await.kind, Kind::TlsTrust, "its name counts, too");
    let plain = Fake::new(Admits::Everybody).await;
    let error = fails(&format!("localhost:{}/p:1", plain.at.port()), trusting.clone()).await;
    assert_eq!(error.kind, Kind::TlsTrust, "{error}");
    assert!(plain.asked().is_empty(), "nothing is said in the clear");
    registry.rule(redirect(format!("http://{}/a", plain.at)));
    let error = fails(&at, trusting).await;
    assert_eq!(error.kind, Kind::RedirectRefused, "no way out of TLS: {error}");
    assert!(plain.asked().is_empty());
}

#[tokio::test]
async fn a_registry_leads_inside_only_where_that_is_listed_and_no_login_goes_along() {
    let (registry, at) = pushed(Admits::Basic).await;
    let store = Fake::new(Admits::Everybody).await;
    store.rule(|_| Some(says(200, &[], COMPONENT)));
    registry.rule(redirect(format!("http://{}/blob?signature=1", store.at)));
    let error = fails(&at, logged_in()).await;
    assert_eq!(error.kind, Kind::RedirectRefused);
    assert!(error.message.contains(&store.at.to_string()), "{error}");
    assert!(store.asked().is_empty(), "it was not even connected to");
    let listed = Access { inside: vec!["127.0.0.0/8".parse().unwrap()], ..logged_in() };
    assert_eq!(&pulling(&at, listed.clone()).pull(MOST).await.unwrap().component[..], COMPONENT);
    assert!(store.asked().iter().all(|asked| asked.authorization.is_none()), "{:?}", store.asked());
    for to in ["file:///etc/passwd", "http://user:pass@127.0.0.1/", "ftp://127.0.0.1/", "http://", ""] {
        registry.rule(redirect(to.to_owned()));
        assert_eq!(fails(&at, listed.clone()).await.kind, Kind::RedirectRefused, "{to}");
    }
    registry.rule(redirect(format!("http://{}/v2/p/blobs/again", registry.at)));
    let error = fails(&at, listed).await;
    assert!(error.message.contains("more than 5 redirects"), "{error}");
}

#[tokio::test]
async fn a_login_is_shown_to_nobody_whom_only_a_redirect_names() {
    let (registry, at) = pushed(Admits::Basic).await;
    let thief = Fake::new(Admits::Everybody).await;
    let realm = format!(r#"Bearer realm="http://{}/token",service="s""#, thief.at);
    let challenge = realm.clone();
    thief.rule(move |_| Some(says(401, &[("www-authenticate", &challenge)], b"")));
    registry.rule(redirect(format!("http://{}/blob", thief.at)));
    let listed = Access { inside: vec!["127.0.0.0/8".parse().unwrap()], ..logged_in() };
    assert_eq!(fails(&at, listed).await.kind, Kind::Unauthorized);
    assert!(thief.asked().iter().all(|asked| asked.authorization.is_none()), "{:?}", thief.asked());
    // One inside that the registry names for tokens is not asked either, unless it is listed.
    let before = thief.asked().len();
    registry.rule(move |_| Some(says(401, &[("www-authenticate", &realm)], b"")));
    let error = fails(&at, logged_in()).await;
    assert_eq!(error.kind, Kind::RedirectRefused);
    assert_eq!(thief.asked().len(), before);
    assert!(!format!("{error:?}").contains(PASSWORD));
}

#[tokio::test]
async fn an_upload_goes_to_nobody_inside_whom_only_the_registry_names() {
    let registry = Fake::new(Admits::Everybody).await;
    let thief = Fake::new(Admits::Everybody).await;
    let to = format!("http://{}/upload", thief.at);
    registry.rule(move |asked| (asked.method == "POST").then(|| says(202, &[("location", &to)], b"")));
    let error = pushing(&registry.image("p:1"), logged_in()).push(&image()).await.unwrap_err();
    assert_eq!(error.kind, Kind::RedirectRefused);
    assert!(thief.asked().is_empty());
    registry.rule(|asked| (asked.method == "POST").then(|| says(202, &[], b"")));
    let error = pushing(&registry.image("p:1"), logged_in()).push(&image()).await.unwrap_err();
    assert!(!matches!(error.kind, Kind::Unreachable), "{error}");
}
