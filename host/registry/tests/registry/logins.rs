//! As whom a registry is asked.

use egress_registry::{Access, Kind, Login};

use super::{
    asking::{MOST, image, logged_in, password, plainly, pulling, pushing},
    fake::{Admits, Fake, IDENTITY, PASSWORD, TOKEN, says},
};

#[tokio::test]
async fn who_has_the_password_is_let_in_and_is_asked_for_it_once() {
    for admits in [Admits::Basic, Admits::Bearer] {
        let registry = Fake::new(admits).await;
        let at = registry.image("p:1");
        pushing(&at, logged_in()).push(&image()).await.unwrap();
        let before = registry.asked().len();
        pulling(&at, logged_in()).pull(MOST).await.unwrap();
        let asked = registry.asked().split_off(before);
        let refused = asked.iter().filter(|asked| asked.authorization.is_none()).count();
        assert_eq!(refused, 1, "{admits:?}: {asked:#?}");
    }
}

#[tokio::test]
async fn a_token_is_asked_for_what_is_to_be_done() {
    let registry = Fake::new(Admits::Bearer).await;
    pushing(&registry.image("team/p:1"), logged_in()).push(&image()).await.unwrap();
    let token = registry.asked().into_iter().find(|asked| asked.path == "/token").unwrap();
    assert_eq!(token.query, "service=fake&scope=repository:team/p:pull,push");
}

#[tokio::test]
async fn a_token_given_and_one_of_a_login_let_in_too() {
    let registry = Fake::new(Admits::Bearer).await;
    let at = registry.image("p:1");
    pushing(&at, logged_in()).push(&image()).await.unwrap();
    for login in [Login::Identity(IDENTITY.to_owned()), Login::Token(TOKEN.to_owned())] {
        pulling(&at, Access { login: Some(login), ..plainly() }).pull(MOST).await.unwrap();
    }
    let posted = registry.asked().into_iter().find(|asked| asked.path == "/token" && asked.method == "POST");
    assert_eq!(posted.unwrap().query, "", "a token in a URL would stand in logs");
}

#[tokio::test]
async fn who_shows_nothing_or_the_wrong_thing_is_told_which() {
    for admits in [Admits::Basic, Admits::Bearer] {
        let registry = Fake::new(admits).await;
        let at = registry.image("p:1");
        let nobody = pulling(&at, plainly()).pull(MOST).await.unwrap_err();
        assert_eq!(nobody.kind, Kind::Unauthorized);
        assert!(nobody.message.contains("without a login"), "{nobody}");
        let wrong = Access { login: Some(password("wrong-password")), ..plainly() };
        let wrong = pulling(&at, wrong).pull(MOST).await.unwrap_err();
        assert_eq!(wrong.kind, Kind::Unauthorized);
        assert!(wrong.message.contains("as \"squirrel\""), "{wrong}");
        assert!(!format!("{wrong:?}").contains("wrong-password"), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_registry_that_repeats_what_it_was_shown_is_not_quoted() {
    let registry = Fake::new(Admits::Basic).await;
    registry.rule(|asked| {
        let shown = asked.authorization.clone()?;
        let body = format!(r#"{{"errors":[{{"code":"{shown}","message":"{shown}"}},{{"code":"DENIED"}}]}}"#);
        Some(says(403, &[("docker-distribution-api-version", &shown)], body.as_bytes()))
    });
    let error = pulling(&registry.image("p:1"), logged_in()).pull(MOST).await.unwrap_err();
    assert_eq!(error.kind, Kind::Denied);
    let said = format!("{error} {error:?}");
    assert!(said.contains("DENIED") && !said.contains("Basic ") && !said.contains(PASSWORD), "{said}");
}
