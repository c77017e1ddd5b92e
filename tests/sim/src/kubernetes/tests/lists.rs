use super::*;

async fn five(world: &World) {
    for name in ["a", "b", "c", "d", "e"] {
        let labels = json!({ "n": name, "x": "y" });
        world.create("secrets", json!({ "metadata": { "name": name, "labels": labels } })).await.unwrap();
    }
}

#[tokio::test]
async fn a_list_shows_what_was_there_when_it_began() {
    let world = World::new();
    five(&world).await;
    let (names, token) = world.page("secrets", 2, None).await.unwrap();
    assert_eq!(names, ["a", "b"]);
    world.delete("secrets", "c").await.unwrap();
    world.create("secrets", json!({ "metadata": { "name": "ca" } })).await.unwrap();
    let (names, token) = world.page("secrets", 2, token).await.unwrap();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(world.page("secrets", 2, token).await.unwrap(), (vec!["e".to_owned()], None));
}

#[tokio::test]
async fn a_token_expires_with_the_past() {
    let world = World::new();
    five(&world).await;
    let (_, token) = world.page("secrets", 2, None).await.unwrap();
    world.pass(299_000);
    world.page("secrets", 2, token.clone()).await.unwrap();
    world.create("secrets", json!({ "metadata": { "name": "f" } })).await.unwrap();
    world.pass(301_000);
    world.page("secrets", 2, None).await.unwrap();
    world.pass(301_000);
    let expired = world.page("secrets", 2, token).await.unwrap_err();
    assert_eq!((expired.code, expired.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn tokens_expire_when_an_administrator_says_so() {
    let world = World::new();
    five(&world).await;
    let (_, token) = world.page("secrets", 2, None).await.unwrap();
    world.cluster.expire_continue_tokens();
    assert_eq!(world.page("secrets", 2, token).await.unwrap_err().code, 410);
    assert_eq!(world.page("secrets", 0, None).await.unwrap().0.len(), 5);
}

#[tokio::test]
async fn selectors_choose_and_their_refusals_quote_what_is_wrong() {
    let world = World::new();
    five(&world).await;
    let ask = async |labels: &str, fields: &str| {
        let options = ListOptions {
            label_selector: labels.to_owned(),
            field_selector: fields.to_owned(),
            ..ListOptions::default()
        };
        let list = world.cluster.list("", &core("secrets"), "default", &options).await;
        list.map(|list| {
            let items = list["items"].as_array().unwrap().iter();
            items.map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<String>()
        })
        .map_err(|failure| failure.message)
    };
    for (labels, names) in [
        ("n=a", "a"),
        ("n==a", "a"),
        ("n!=a", "bcde"),
        ("n in (a,b)", "ab"),
        ("n notin (a,b),x", "cde"),
        ("!n", ""),
        ("n in (,a)", "a"),
        (" n = a , x", "a"),
        ("in in (in)", ""),
        ("n>3", ""),
    ] {
        assert_eq!(ask(labels, "").await, Ok(names.to_owned()), "{labels}");
    }
    for (labels, why) in [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("n in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("n in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("n=a,", "found '', expected: identifier after ','"),
        ("n=a b", "found 'b', expected: ',' or 'end of string'"),
        ("n===", "unable to parse requirement: found '=', expected: identifier"),
        ("!n=a", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("n in a", "unable to parse requirement: found 'a' expected: '('"),
    ] {
        assert_eq!(ask(labels, "").await, Err(why.to_owned()), "{labels}");
    }
    assert_eq!(ask("", "metadata.name!=a").await, Ok("bcde".to_owned()));
    assert_eq!(ask("", "metadata.name==a,").await, Ok("a".to_owned()));
    assert_eq!(ask("", "foo=bar").await, Err("field label not supported: foo".to_owned()));
}
