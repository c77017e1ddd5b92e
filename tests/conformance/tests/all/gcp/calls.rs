//! How many requests each call of the provider makes, as the page lists them.

use serde_json::{Value, json};

use super::{config, lab::Lab};

/// Without what costs requests of its own.
fn bare() -> Value {
    let mut config = config();
    let object = config.as_object_mut().unwrap();
    for key in ["firewall", "resourceManager", "images"] {
        object.remove(key);
    }
    config["defaults"]["image"] =
        "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64".into();
    config
}

/// The requests of each step of a create, then of a delete.
async fn steps(config: &Value) -> (Vec<usize>, Vec<usize>) {
    let mut lab = Lab::new(config).await;
    let mut counts = [Vec::new(), Vec::new()];
    for (number, counts) in counts.iter_mut().enumerate() {
        loop {
            let before = lab.last();
            let wait = if number == 0 {
                match lab.host.create_step(&mut lab.proxy).await.unwrap().answer.unwrap() {
                    egress_contract::Created::Done(_) => None,
                    egress_contract::Created::Pending(step) => Some(step.poll),
                }
            } else {
                match lab.host.delete_step(&mut lab.proxy).await.unwrap().answer.unwrap() {
                    egress_contract::Deleted::Done => None,
                    egress_contract::Deleted::Pending(step) => Some(step.poll),
                }
            };
            counts.push(lab.requests_since(before));
            match wait {
                Some(wait) => lab.stage.wait(wait).await,
                None => break,
            }
        }
    }
    let [create, delete] = counts;
    (create, delete)
}

#[tokio::test]
async fn a_create_looks_once_inserts_and_asks_the_operation() {
    let (create, delete) = steps(&bare()).await;
    // The zone is named; look and insert; the operation, as long as it runs; the operation and the instance.
    assert_eq!(create, [0, 2, 1, 1, 2]);
    // Look and delete; the operation, as long as it runs; the operation, and that nothing is left.
    assert_eq!(delete, [2, 1, 1, 1, 2]);
}

#[tokio::test]
async fn a_firewall_rule_costs_one_request_once_it_stands() {
    let mut config = bare();
    config["firewall"] = json!({ "sourceRanges": ["192.0.2.0/24"] });
    let (create, _) = steps(&config).await;
    assert_eq!(create, [0, 2, 1, 1, 4, 3], "the entry's first instance makes it");
    let mut lab = Lab::new(&config).await;
    lab.make().await;
    lab.proxy = lab.stage.proxy(2);
    let before = lab.last();
    lab.create_until(None).await;
    assert_eq!(lab.requests_since(before), 7, "and the others look whether it stands");
}

#[tokio::test]
async fn looking_costs_what_the_page_says() {
    let mut lab = Lab::new(&bare()).await;
    lab.make().await;
    let mut before = lab.last();
    let mut since = |lab: &Lab| {
        let count = lab.requests_since(before);
        before = lab.last();
        count
    };
    lab.get().await;
    assert_eq!(since(&lab), 1, "get");
    lab.list().await;
    assert_eq!(since(&lab), 2, "list: the instances of all zones, and the rules");
    lab.check().await;
    assert_eq!(since(&lab), 2, "check: each region");
    lab.proxy.id = None;
    lab.delete_until(Some("deletes")).await;
    assert_eq!(since(&lab), 3, "delete without an id: all zones, look, delete");
    let lab = Lab::new(&config()).await;
    let before = lab.last();
    lab.check().await;
    assert_eq!(lab.requests_since(before), 4, "and the permissions, and each image");
}

#[tokio::test]
async fn a_write_that_is_sent_again_does_nothing_twice() {
    let mut lab = Lab::new(&bare()).await;
    lab.create_until(Some("inserts")).await;
    // The record of the step is lost, and what was inserted can't be seen yet.
    lab.proxy.progress = None;
    lab.make().await;
    assert_eq!(lab.compute().operations("insert"), 2, "somebody's, and one of ours");
}

#[tokio::test]
async fn an_operation_that_is_forgotten_says_nothing() {
    let mut lab = Lab::new(&bare()).await;
    lab.create_until(Some("inserts")).await;
    lab.pass(60).await;
    lab.compute().forget_operations();
    assert_eq!(lab.create_until(None).await.class, "done");
    lab.delete_until(Some("deletes")).await;
    lab.pass(60).await;
    lab.compute().forget_operations();
    assert_eq!(lab.delete_until(None).await.class, "done");
    assert!(lab.compute().instances().iter().all(|seen| seen.name != lab.proxy.name().as_str()));
}

#[tokio::test]
async fn a_spot_machine_that_was_taken_away_is_started_or_made_again() {
    for then in ["stop", "delete"] {
        let mut config = bare();
        config["spot"] = json!({ "onPreemption": then });
        let mut lab = Lab::new(&config).await;
        lab.make().await;
        let seen = lab.vm();
        lab.compute().preempt(&seen.zone, &seen.name);
        assert_eq!(lab.create_until(None).await.class, "done", "{then}");
        assert_eq!(lab.vm().vm.number == seen.vm.number, then == "stop");
    }
}

#[tokio::test]
async fn another_zone_is_tried_when_one_has_no_room() {
    let mut lab = Lab::new(&bare()).await;
    lab.compute().weather(|weather| {
        weather.stocked_out.insert("us-central1-a".to_owned());
    });
    assert_eq!(lab.create_until(None).await.class, "done");
    assert_eq!(lab.vm().zone, "us-central1-b");
    let ours = lab.compute().instances().into_iter().filter(|seen| seen.name.starts_with("proxy-")).count();
    assert_eq!(ours, 1);
}

#[tokio::test]
async fn each_instance_has_a_reserved_address_of_its_own() {
    let mut config = bare();
    config["zones"] = json!(["us-central1-a"]);
    config["externalAddress"] = "reserved".into();
    config["reservedAddresses"] = json!({ "us-central1": ["egress-1", "egress-2"] });
    let mut lab = Lab::new(&config).await;
    for number in 1..=2 {
        lab.proxy = lab.stage.proxy(number);
        lab.make().await;
    }
    let mut addresses: Vec<String> =
        lab.compute().instances().into_iter().map(|seen| seen.vm.address).collect();
    addresses.sort();
    assert_eq!(addresses, ["", "198.51.100.1", "198.51.100.2"], "somebody's has none");
    lab.proxy = lab.stage.proxy(3);
    assert_eq!(lab.create_until(None).await.class, "quota-exceeded");
}

#[tokio::test]
async fn an_internal_machine_serves_by_its_internal_address() {
    let mut config = bare();
    config["externalAddress"] = "none".into();
    let mut lab = Lab::new(&config).await;
    lab.make().await;
    let told = lab.get().await;
    assert_eq!(told.class, "running");
    assert!(told.message.trim().starts_with("10.128."), "{told:?}");
}

/// A rule is the entry's, and a leftover once nothing uses it and it is not young.
#[tokio::test]
async fn a_firewall_rule_goes_with_the_last_that_used_it() {
    let mut lab = Lab::new(&config()).await;
    lab.make().await;
    let rule = lab.compute().rules().remove(0);
    assert_eq!(rule["sourceRanges"], json!(["192.0.2.0/24"]));
    assert_eq!(lab.vm().vm.body["tags"]["items"], json!([rule["name"]]));
    lab.pass(7_200).await;
    assert_eq!(lab.list().await.message, "1", "the instance alone: it uses the rule");
    lab.host.unmake(&mut lab.proxy).await.unwrap();
    let items = lab.host.list().await.unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(
        (items[0].leftover.as_deref(), items[0].name.as_str()),
        (Some("firewall"), rule["name"].as_str().unwrap())
    );
    lab.host.collect_all().await.unwrap();
    assert!(lab.compute().rules().is_empty());
    // The request id that made it once would only say again that all went well.
    lab.proxy = lab.stage.proxy(2);
    lab.make().await;
    assert_eq!(lab.compute().rules().len(), 1);
}

#[tokio::test]
async fn a_young_rule_is_no_leftover() {
    let mut lab = Lab::new(&config()).await;
    lab.make().await;
    let seen = lab.vm();
    lab.compute().remove(&seen.zone, &seen.name);
    assert_eq!((lab.compute().rules().len(), lab.list().await.message.as_str()), (1, "0"));
}

/// Both parameters come and go with revisions of the API.
#[tokio::test]
async fn a_parameter_that_is_not_taken_any_more_is_left_out() {
    let mut lab = Lab::new(&bare()).await;
    lab.make().await;
    for parameter in ["returnPartialSuccess", "fields"] {
        lab.compute().weather(|weather| {
            weather.refused_parameters.insert(parameter.to_owned());
        });
        let told = lab.list().await;
        assert_eq!((told.class.as_str(), told.message.as_str()), ("listed", "1"), "{parameter}");
    }
}

/// A Proxy that names the id of an earlier operator's machine gets that one, under the name that it has.
#[tokio::test]
async fn an_earlier_operators_machine_is_taken_over_by_its_id() {
    let mut lab = Lab::new(&bare()).await;
    lab.make().await;
    let seen = lab.vm();
    let labels = [("proxy-operator-managed", "true"), ("team", "web")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    lab.compute().edit(&seen.zone, &seen.name, |vm| vm.labels = labels.clone().into_iter().collect());
    let id = lab.proxy.id.clone();
    lab.proxy = lab.stage.proxy(2);
    lab.proxy.id = id.clone();
    assert_eq!(lab.create_until(None).await.class, "done");
    assert_eq!(lab.proxy.id, id);
    let now = lab.compute().instances().into_iter().find(|now| now.name == seen.name).unwrap().vm;
    assert_eq!(now.number, seen.vm.number);
    assert_eq!(
        (now.labels.get("egressproxies-uid"), now.labels.contains_key("proxy-operator-managed")),
        (Some(&lab.proxy.uid), false)
    );
    assert_eq!(now.labels.get("team").map(String::as_str), Some("web"));
    assert_eq!(lab.get().await.class, "running");
    assert_eq!(lab.delete_until(None).await.class, "done");
}
