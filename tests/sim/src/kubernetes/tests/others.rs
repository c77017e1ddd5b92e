use super::*;
use crate::kubernetes::{Clusters, Image, Kind, Node, Right, Rights};

fn refused(answer: Result<Value, KubernetesFailure>) -> (u16, String) {
    let failure = answer.unwrap_err();
    (failure.code, failure.message)
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_refused_and_told() {
    let world = World::new();
    let cluster = &world.cluster;
    cluster.forbid(vec![Right::to("create", "pods").within("default"), Right::to("delete", "")]);
    let user = cluster.user().to_owned();
    let (code, message) = refused(world.create("pods", pod("a")).await);
    let expected = format!(
        "pods is forbidden: User \"{user}\" cannot create resource \"pods\" in API group \"\" in the namespace \
         \"default\""
    );
    assert_eq!((code, message), (403, expected));
    world.create("configmaps", json!({ "metadata": { "name": "a" } })).await.unwrap();
    assert_eq!(refused(world.delete("configmaps", "a").await).0, 403);
    let asked = async |verb: &str, plural: &str, namespace: &str| {
        let access = Access { verb: verb.into(), resource: core(plural), namespace: namespace.into() };
        cluster.allowed("", &access).await.unwrap()
    };
    assert!(!asked("create", "pods", "default").await && !asked("delete", "secrets", "").await);
    assert!(asked("create", "pods", "kube-system").await && asked("get", "pods", "default").await);
    cluster.set_rights(&user, Rights::Only(vec![Right::to("get", "pods")]));
    assert!(asked("get", "pods", "default").await && !asked("list", "pods", "default").await);
    let other = cluster.as_user("somebody");
    assert!(other.get("", &core("secrets"), "default", "x").await.is_err_and(|failure| failure.code == 404));
}

#[tokio::test]
async fn what_the_grant_does_not_list_is_denied_before_anything_is_sent() {
    let world = World::new();
    world.cluster.not_granted(vec![Right::to("create", "pods")]);
    let denied = world.create("pods", pod("a")).await.unwrap_err();
    assert_eq!((denied.kind.as_str(), denied.code, denied.sent), ("denied", 0, false));
    assert!(
        denied.message.starts_with("entry kubernetes may not create pods in namespace default"),
        "{}",
        denied.message
    );
    let access = Access { verb: "create".into(), resource: core("pods"), namespace: "default".into() };
    assert_eq!(world.cluster.allowed("", &access).await.unwrap_err().kind.as_str(), "denied");
}

#[tokio::test]
async fn a_quota_that_is_used_up_has_room_again_when_something_goes() {
    let world = World::new();
    world.cluster.set_quota("default", "q", &[("pods", "1")]);
    world.create("pods", pod("a")).await.unwrap();
    let full = "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!(refused(world.create("pods", pod("b")).await), (403, full.to_owned()));
    world.pass(10_000);
    world.delete("pods", "a").await.unwrap();
    assert_eq!(refused(world.create("pods", pod("b")).await).0, 403, "it still ends");
    world.pass(10_000);
    world.create("pods", pod("b")).await.unwrap();
    assert_eq!(world.get("resourcequotas", "q").await.unwrap()["status"]["used"]["pods"], "1");
}

#[tokio::test]
async fn a_webhook_refuses_what_it_was_told_to() {
    let world = World::new();
    world.cluster.admission_refuses("pods", "", "not today");
    let why = "admission webhook \"simulated.example.com\" denied the request: not today";
    assert_eq!(refused(world.create("pods", pod("a")).await), (403, why.to_owned()));
    world.create("configmaps", json!({ "metadata": { "name": "a" } })).await.unwrap();
    world.cluster.admission_allows();
    world.create("pods", pod("a")).await.unwrap();
}

#[tokio::test]
async fn a_status_that_somebody_set_stays_until_the_pod_goes() {
    let world = World::new();
    world.create("pods", pod("a")).await.unwrap();
    world.pass(10_000);
    assert!(world.cluster.edit("pods", "default", "a", |pod| pod["status"]["phase"] = json!("Hibernating")));
    world.cluster.crash("default", "a", 1, "");
    world.pass(60_000);
    assert_eq!(world.get("pods", "a").await.unwrap()["status"]["phase"], "Hibernating");
    world.delete("pods", "a").await.unwrap();
    world.pass(60_000);
    assert_eq!(world.get("pods", "a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn an_evicted_pod_has_failed_for_good() {
    let world = World::new();
    world.create("pods", pod("a")).await.unwrap();
    world.pass(10_000);
    assert!(world.cluster.evict("default", "a") && !world.cluster.evict("default", "none"));
    world.pass(600_000);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!((&pod["status"]["phase"], &pod["status"]["reason"]), (&json!("Failed"), &json!("Evicted")));
    world.delete("pods", "a").await.unwrap();
    assert_eq!(world.get("pods", "a").await.unwrap_err().code, 404, "nothing has to be ended");
}

#[tokio::test]
async fn a_node_that_is_down_keeps_what_is_deleted_until_it_is_back() {
    let world = World::new();
    let (up, mut down) = (Node::new("node-1"), Node::new("node-1"));
    down.up = false;
    world.create("pods", pod("a")).await.unwrap();
    world.pass(10_000);
    world.cluster.set_nodes(vec![down]);
    world.pass(51_000);
    let lost = world.get("pods", "a").await.unwrap();
    assert_eq!(lost["status"]["conditions"][2]["status"], "False", "not ready any more");
    assert_eq!(lost["status"]["phase"], "Running", "as far as anybody knows");
    assert_eq!(
        world.cluster.object("nodes", "", "node-1").unwrap()["status"]["conditions"][0]["status"],
        "Unknown"
    );
    world.pass(301_000);
    assert!(world.get("pods", "a").await.unwrap()["metadata"]["deletionTimestamp"].is_string());
    world.pass(3_600_000);
    assert!(world.get("pods", "a").await.is_ok(), "nobody can end it");
    world.cluster.set_nodes(vec![up]);
    world.pass(10_000);
    assert_eq!(world.get("pods", "a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn a_pod_without_room_is_looked_at_again_when_there_is_some() {
    let world = World::new();
    let mut small = Node::new("small");
    small.pods = 1;
    world.cluster.set_nodes(vec![small]);
    world.create("pods", pod("a")).await.unwrap();
    world.pass(10_000);
    world.create("pods", pod("b")).await.unwrap();
    world.pass(10_000);
    let waiting = world.get("pods", "b").await.unwrap();
    let why = waiting["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(why.starts_with("0/1 nodes are available: 1 Too many pods."), "{why}");
    world.delete("pods", "a").await.unwrap();
    world.pass(10_000);
    assert_eq!(seen(&world.get("pods", "b").await.unwrap()), "Running running  ready=true");
}

#[tokio::test]
async fn an_image_is_missing_everywhere_where_every_image_is() {
    let world = World::new();
    world.cluster.set_every_image(Image::Missing);
    world.create("pods", pod("a")).await.unwrap();
    world.pass(2_000);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Pending waiting ErrImagePull ready=false");
}

#[tokio::test]
async fn no_list_goes_on_while_tokens_expire() {
    let world = World::new();
    for name in ["a", "b"] {
        world.create("secrets", json!({ "metadata": { "name": name } })).await.unwrap();
    }
    let (_, token) = world.page("secrets", 1, None).await.unwrap();
    world.cluster.let_tokens_expire(true);
    assert_eq!(world.page("secrets", 1, token.clone()).await.unwrap_err().code, 410);
    world.cluster.let_tokens_expire(false);
    assert_eq!(world.page("secrets", 1, token).await.unwrap().0, ["b"]);
}

#[tokio::test]
async fn a_copy_goes_its_own_way() {
    let world = World::new();
    world.create("configmaps", json!({ "metadata": { "name": "a" } })).await.unwrap();
    let copy = world.cluster.copy(Arc::new(world.clock.clone()));
    world.delete("configmaps", "a").await.unwrap();
    assert!(copy.get("", &core("configmaps"), "default", "a").await.is_ok());
    assert_eq!(world.get("configmaps", "a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn the_same_seed_makes_the_same_cluster() {
    let story = async |seed| {
        let clock = VirtualClock::default();
        let cluster = Cluster::with_seed(Arc::new(clock.clone()), seed);
        cluster.create("", &core("pods"), "default", pod("a")).await.unwrap();
        clock.advance(Duration::from_secs(10));
        json!(cluster.objects()).to_string()
    };
    assert_eq!(story(7).await, story(7).await);
    assert_ne!(story(7).await, story(8).await);
}

#[tokio::test]
async fn a_kind_of_ones_own_is_served_and_can_own() {
    let world = World::new();
    let proxies = Resource { api_version: "egressproxies.dev/v1alpha1".into(), plural: "proxies".into() };
    let make = async || {
        let body = json!({ "metadata": { "name": "web" }, "spec": { "anything": { "goes": [1] } } });
        world.cluster.create("", &proxies, "default", body).await
    };
    assert_eq!(make().await.unwrap_err().message, "HTTP 404 Not Found, without a Status: 404 page not found");
    world.cluster.serve(Kind {
        api_version: "egressproxies.dev/v1alpha1".into(),
        plural: "proxies".into(),
        kind: "Proxy".into(),
        namespaced: true,
        status: true,
    });
    let made = make().await.unwrap();
    assert_eq!(
        (&made["spec"]["anything"]["goes"], &made["metadata"]["generation"]),
        (&json!([1]), &json!(1))
    );
    let owner = json!([{ "apiVersion": "egressproxies.dev/v1alpha1", "kind": "Proxy", "name": "web", "uid": made["metadata"]["uid"] }]);
    world
        .create("configmaps", json!({ "metadata": { "name": "a", "ownerReferences": owner } }))
        .await
        .unwrap();
    world.pass(1_000);
    world.get("configmaps", "a").await.unwrap();
    assert!(world.cluster.remove("proxies.egressproxies.dev", "default", "web"));
    world.pass(1_000);
    assert_eq!(world.get("configmaps", "a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn a_cluster_that_no_grant_names_is_denied() {
    let world = World::new();
    let clusters = Clusters::default().with("home", Arc::new(world.cluster.clone()));
    assert!(clusters.about("home").await.unwrap().home);
    let denied = clusters.about("away").await.unwrap_err();
    assert_eq!((denied.kind.as_str(), denied.sent), ("denied", false));
    assert!(denied.message.contains("home"), "{}", denied.message);
}
