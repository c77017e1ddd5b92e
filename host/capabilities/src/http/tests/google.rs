//! Google's kinds of credentials, at a server of tokens and at one that wants them.

use super::*;
use base64::Engine;

/// Made for these tests; it opens nothing.
const KEY: &str = include_str!("service-account.pem");
const SENTINEL: &str = "1//refresh-token-sentinel";

fn with(server: SocketAddr, secret: &Secret) -> HttpCapability {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut granted = endpoint(&format!("http://{server}"));
    granted["credentials"] = json!({ "google": { "json": { "file": secret.path() } } });
    capability(granted)
}

fn service_account(key_id: &str) -> String {
    json!({
        "type": "service_account", "project_id": "p", "private_key_id": key_id, "private_key": KEY,
        "client_email": "epo@p.iam.gserviceaccount.com",
    })
    .to_string()
}

fn user(token_uri: &str) -> String {
    json!({
        "type": "authorized_user", "client_id": "id", "client_secret": "client-secret-sentinel",
        "refresh_token": SENTINEL, "token_uri": token_uri,
    })
    .to_string()
}

fn token_of(asked: &str) -> String {
    let (_, behind) = asked.split_once("authorization: Bearer ").unwrap();
    behind.split_once("\r\n").unwrap().0.to_owned()
}

/// The part of a signed token.
fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn a_service_accounts_key_signs_and_another_key_takes_effect_with_the_next_request() {
    let (server, asked) = says(OK).await;
    let secret = Secret::new(&service_account("key-1"));
    let http = with(server, &secret);
    http.send(&asking("GET")).await.unwrap();
    http.send(&asking("GET")).await.unwrap();
    secret.becomes(&service_account("key-2"));
    http.send(&asking("GET")).await.unwrap();
    let tokens: Vec<String> = asked.lock().unwrap().iter().map(|head| token_of(head)).collect();
    assert_eq!(tokens[0], tokens[1], "a token that holds is used again");
    let ids = [0, 2].map(|index: usize| part(&tokens[index], 0)["kid"].clone());
    assert_eq!(ids, ["key-1", "key-2"]);
    let claims = part(&tokens[0], 1);
    assert_eq!(claims["iss"], "epo@p.iam.gserviceaccount.com");
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    assert_eq!(http.info("a").await.unwrap()["principal"], "epo@p.iam.gserviceaccount.com");
}

#[tokio::test]
async fn a_users_token_is_asked_for_at_the_server_of_tokens() {
    let (server, asked) = says(OK).await;
    let token = br#"{"access_token":"short-lived","expires_in":3599,"token_type":"Bearer"}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        token.len()
    );
    let answer: &'static [u8] = [answer.as_bytes(), token].concat().leak();
    let (tokens, _) = says(answer).await;
    let secret = Secret::new(&user(&format!("http://{tokens}/token")));
    with(server, &secret).send(&asking("GET")).await.unwrap();
    assert_eq!(token_of(&asked.lock().unwrap().concat()), "short-lived");
}

#[tokio::test]
async fn who_gets_no_token_is_told_why_and_nothing_of_the_secret() {
    let (server, asked) = says(OK).await;
    let refusal = format!(r#"{{"error":"invalid_grant","error_description":"no {SENTINEL} is known"}}"#);
    let answer = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{refusal}", refusal.len());
    let (tokens, _) = says(answer.into_bytes().leak()).await;
    let secret = Secret::new(&user(&format!("http://{tokens}/token")));
    let http = with(server, &secret);
    let failure = fails(&http).await;
    assert_eq!((failure.kind, failure.sent), (Kind::Credentials, false), "{}", failure.message);
    assert!(
        failure.message.ends_with("was the key deleted, or the account? (invalid_grant)"),
        "{}",
        failure.message
    );
    assert!(!failure.message.contains("sentinel"), "{}", failure.message);

    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    secret.becomes(&user(&format!("http://{nobody}/token")));
    let request = HttpRequest { timeout: Some(Duration::from_secs(5)), ..asking("GET") };
    let failure = http.send(&request).await.unwrap_err();
    assert!(matches!(failure.kind, Kind::Connect | Kind::Timeout), "{}", failure.message);
    assert!(!failure.sent);

    for (text, why) in [
        ("rubbish-sentinel", "is no JSON (line 1, column 1)"),
        (r#"{"type":"sentinel"}"#, "names no type of credentials"),
        (r#"{"type":"service_account","private_key":"sentinel"}"#, "is no whole service_account"),
        (
            r#"{"type":"service_account","project_id":"p","private_key_id":"a","client_email":"b","private_key":"sentinel"}"#,
            "",
        ),
    ] {
        secret.becomes(text);
        let failure = fails(&http).await;
        assert_eq!((failure.kind, failure.sent), (Kind::Credentials, false), "{}", failure.message);
        assert!(failure.message.contains(why), "{}", failure.message);
        assert!(failure.message.contains(&secret.path().display().to_string()), "{}", failure.message);
        assert!(!failure.message.contains("sentinel"), "{}", failure.message);
    }
    assert!(asked.lock().unwrap().is_empty(), "nothing is asked without a token");
}
