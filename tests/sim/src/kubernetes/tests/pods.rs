use super::*;

#[tokio::test]
async fn a_pod_is_scheduled_started_and_gets_ready_in_its_time() {
    let world = World::new();
    world.create("pods", pod("a")).await.unwrap();
    let mut story = Vec::new();
    while let Some(due) = world.cluster.next_due() {
        let pod = world.get("pods", "a").await.unwrap();
        let state = seen(&pod);
        if story.last() != Some(&state) {
            story.push(state);
        }
        world.pass(due - world.clock.now_ms());
    }
    let pod = world.get("pods", "a").await.unwrap();
    story.push(seen(&pod));
    story.dedup();
    assert_eq!(
        story,
        [
            "Pending   ready=false",
            "Pending waiting ContainerCreating ready=false",
            "Running running  ready=false",
            "Running running  ready=true",
        ]
    );
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("10.244."));
    assert_eq!(pod["status"]["conditions"][2]["type"], "Ready");
    assert_eq!(pod["status"]["conditions"][2]["status"], "True");
}

#[tokio::test]
async fn a_deleted_pod_stays_until_its_containers_have_ended() {
    let world = World::new();
    world.create("pods", pod("a")).await.unwrap();
    world.pass(10_000);
    let deleted = world.delete("pods", "a").await.unwrap();
    assert_eq!(deleted["metadata"]["deletionTimestamp"], "2026-01-01T00:00:40Z");
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Running running  ready=true");
    world.pass(450);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Succeeded terminated Completed ready=false");
    world.pass(100);
    let gone = world.get("pods", "a").await.unwrap_err();
    assert_eq!((gone.code, gone.reason.as_str()), (404, "NotFound"));
}

#[tokio::test]
async fn a_pod_without_a_node_is_gone_at_once() {
    let world = World::new();
    world.cluster.set_nodes(Vec::new());
    world.create("pods", pod("a")).await.unwrap();
    world.pass(1_000);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!(pod["status"]["conditions"][0]["reason"], "Unschedulable");
    world.delete("pods", "a").await.unwrap();
    assert_eq!(world.get("pods", "a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn a_finalizer_holds_a_pod_that_has_ended() {
    let world = World::new();
    let mut held = pod("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.create("pods", held).await.unwrap();
    world.pass(10_000);
    world.delete("pods", "a").await.unwrap();
    world.pass(60_000);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!(seen(&pod), "Succeeded terminated Completed ready=false");
    world.merge("pods", "a", json!({ "metadata": { "finalizers": null } })).await.unwrap();
    assert_eq!(world.get("pods", "a").await.unwrap_err().code, 404);
}

#[tokio::test]
async fn an_image_that_nobody_has_is_pulled_again_and_again() {
    let world = World::new();
    world.cluster.image_missing("squid:6");
    world.create("pods", pod("a")).await.unwrap();
    world.pass(1_000);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!(seen(&pod), "Pending waiting ErrImagePull ready=false");
    assert!(pod["status"]["podIP"].is_string(), "the network is there already");
    world.pass(12_000);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Pending waiting ImagePullBackOff ready=false");
    world.cluster.set_image("squid:6", crate::kubernetes::Image::Runs);
    world.pass(30_000);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Running running  ready=true");
}

#[tokio::test]
async fn a_container_that_crashes_comes_back_ever_more_slowly() {
    let world = World::new();
    world.create("pods", pod("a")).await.unwrap();
    world.pass(10_000);
    assert!(world.cluster.crash("default", "a", 1, "no"));
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Running terminated Error ready=false");
    world.pass(1_500);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1, "the first time at once");
    world.pass(10_000);
    assert!(world.cluster.crash("default", "a", 1, "no"));
    world.pass(1_500);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!(seen(&pod), "Running waiting CrashLoopBackOff ready=false");
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    world.pass(12_000);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Running running  ready=true");
}

#[tokio::test]
async fn a_missing_config_map_is_waited_for() {
    let world = World::new();
    let mut mounts = pod("a");
    mounts["spec"]["volumes"] = json!([{ "name": "c", "configMap": { "name": "conf" } }]);
    mounts["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "c", "mountPath": "/c" }]);
    world.create("pods", mounts).await.unwrap();
    world.pass(10_000);
    let pod = world.get("pods", "a").await.unwrap();
    assert_eq!(seen(&pod), "Pending waiting ContainerCreating ready=false");
    world.create("configmaps", json!({ "metadata": { "name": "conf" } })).await.unwrap();
    world.pass(20_000);
    assert_eq!(seen(&world.get("pods", "a").await.unwrap()), "Running running  ready=true");
}
