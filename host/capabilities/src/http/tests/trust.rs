//! Whom TLS trusts, and who is trusted.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CertifiedKey, IsCa, KeyPair,
    generate_simple_self_signed,
};
use rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer, server::WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{SecretRef, SecretUnread};

/// A TLS server with a new certificate, in PEM.
async fn secure() -> (SocketAddr, String) {
    serving(None).await
}

/// As [`secure`]; with an authority of clients it serves nobody else than whom that one signed.
async fn serving(clients: Option<RootCertStore>) -> (SocketAddr, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = match clients {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let config = config.with_single_cert(vec![cert.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let at = listen(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            head(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecure").await;
            let _ = stream.shutdown().await;
        }
    });
    (at.await, cert.pem())
}

#[tokio::test]
async fn only_who_the_ca_signed_is_trusted_and_another_ca_takes_effect_at_once() {
    let (server, pem) = secure().await;
    let (_, another) = secure().await;
    let ca = Secret::new(&another);
    let mut granted = endpoint(&format!("https://localhost:{}", server.port()));
    granted["ca"] = json!({ "file": ca.path() });
    let http = capability(granted);
    let failure = fails(&http).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Tls, false), "{}", failure.message);
    ca.becomes(&pem);
    assert_eq!(http.send(&asking("GET")).await.unwrap().body, b"secure");
    ca.becomes(&another);
    assert_eq!(fails(&http).await.kind, Kind::Tls, "no connection that was trusted before is used");
    ca.becomes("rubbish");
    let failure = fails(&http).await;
    assert_eq!(failure.kind, Kind::Credentials);
    assert!(failure.message.contains("holds no certificates in PEM"), "{}", failure.message);
    let mut by_address = endpoint(&format!("https://127.0.0.1:{}", server.port()));
    ca.becomes(&pem);
    by_address["ca"] = json!({ "file": ca.path() });
    assert_eq!(fails(&capability(by_address)).await.kind, Kind::Tls, "its name counts, too");
}

/// An authority, and what it signs.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A client's certificate and its key, in PEM.
fn client(authority: &CertifiedIssuer<'static, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["epo".to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// Secrets by their key alone.
struct Kept(std::sync::Mutex<BTreeMap<String, String>>);

#[async_trait]
impl Secrets for Kept {
    async fn read(&self, secret: &SecretRef) -> Result<Vec<u8>, SecretUnread> {
        let kept = self.0.lock().unwrap();
        kept.get(&secret.key).map(|text| text.as_bytes().to_vec()).ok_or(SecretUnread::Missing)
    }
}

#[tokio::test]
async fn a_client_certificate_out_of_a_secret_is_shown_and_another_one_takes_effect_at_once() {
    let (ours, others) = (authority(), authority());
    let mut roots = RootCertStore::empty();
    roots.add(ours.der().clone()).unwrap();
    let (server, pem) = serving(Some(roots)).await;
    let (certificate, key) = client(&others);
    let kept = Arc::new(Kept(std::sync::Mutex::new(BTreeMap::from([
        ("ca".to_owned(), pem),
        ("certificate".to_owned(), certificate),
        ("key".to_owned(), key),
    ]))));
    let place = |key: &str| json!({ "secretRef": { "name": "pve", "key": key } });
    let mut granted = endpoint(&format!("https://localhost:{}", server.port()));
    granted["ca"] = place("ca");
    granted["clientCertificate"] = json!({ "certificate": place("certificate"), "key": place("key") });
    let http = capability(granted.clone()).with_secrets(Some(Arc::clone(&kept) as Arc<dyn Secrets>));
    let set = |certificate: String, key: String| {
        kept.0.lock().unwrap().extend([("certificate".to_owned(), certificate), ("key".to_owned(), key)]);
    };

    let refused = fails(&http).await;
    assert!(matches!(refused.kind, Kind::Tls | Kind::Cut), "{}", refused.message);
    let (certificate, key) = client(&ours);
    set(certificate.clone(), key);
    assert_eq!(http.send(&asking("GET")).await.unwrap().body, b"secure");
    let (_, other_key) = client(&ours);
    set(certificate, other_key);
    let failure = fails(&http).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Credentials, false));
    assert!(
        failure.message.contains("Secret pve, key key is not the key of Secret pve, key certificate"),
        "{}",
        failure.message
    );
    kept.0.lock().unwrap().remove("certificate");
    let failure = fails(&http).await;
    assert!(failure.message.contains("Secret pve, key certificate: there is none"), "{}", failure.message);
    let alone = fails(&capability(granted)).await;
    assert!(alone.message.contains("without a cluster; give a file"), "{}", alone.message);
}
