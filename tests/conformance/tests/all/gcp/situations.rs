//! Each row of the page's table of situations, provoked at the simulation: what the page says of it is what is said.

use std::collections::BTreeSet;

use egress_conformance::proxy::Proxy;
use egress_sim::compute::{OpError, Trouble};
use serde_json::{Value, json};

use super::{
    config,
    lab::{Lab, Told},
};

/// What is asked once it is so.
#[derive(Clone, Copy)]
enum Ask {
    Create,
    /// Until it says this while it is pending.
    CreateSays(&'static str),
    Get,
    Delete,
    DeleteSays(&'static str),
    List,
    Check,
}

/// See the module.
struct Situation {
    /// The row's first cell.
    name: &'static str,
    config: fn(&mut Value),
    proxy: fn(&mut Proxy),
    /// Whether an instance runs before it becomes so.
    made: bool,
    so: fn(&Lab),
    ask: Ask,
}

/// A config as it is, a Proxy as it is, nothing made.
fn plain(name: &'static str, so: fn(&Lab), ask: Ask) -> Situation {
    Situation { name, config: |_| {}, proxy: |_| {}, made: false, so, ask }
}

/// The same where an instance runs before.
fn made(name: &'static str, so: fn(&Lab), ask: Ask) -> Situation {
    Situation { made: true, ..plain(name, so, ask) }
}

fn insert_fails(lab: &Lab, error: OpError) {
    lab.compute().weather(|weather| weather.insert_fails.push_back(error));
}

fn in_zone(proxy: &mut Proxy) {
    proxy.spec.placement.zone = Some("us-central1-a".to_owned());
}

fn dry(lab: &Lab, zones: &[&str]) {
    let zones: Vec<String> = zones.iter().map(|zone| (*zone).to_owned()).collect();
    lab.compute().weather(|weather| weather.stocked_out.extend(zones));
}

const UBUNTU: &str = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64";

fn in_create() -> Vec<Situation> {
    let insert = |name, trouble: fn(&Lab)| plain(name, trouble, Ask::Create);
    vec![
        insert("a quota of the region is used up", |lab| {
            insert_fails(lab, OpError::quota("CPUS", 8.0, "us-central1"));
        }),
        Situation {
            proxy: in_zone,
            ..insert("the zone that the Proxy asks for has no machines left", |lab| {
                dry(lab, &["us-central1-a"])
            })
        },
        plain(
            "a zone has no machines left, and the Proxy asks for a region",
            |lab| dry(lab, &["us-central1-a"]),
            Ask::CreateSays("goes to us-central1-b"),
        ),
        insert("no zone of the region has machines left", |lab| {
            dry(lab, &["us-central1-a", "us-central1-b"])
        }),
        insert("Compute Engine fails inside", |lab| {
            insert_fails(lab, OpError::of("INTERNAL_ERROR", "Internal error. Please try again.", 503));
        }),
        insert("an operation comes in between", |lab| {
            insert_fails(lab, OpError::of("CONFLICT", "The operation was aborted.", 409));
        }),
        insert("the image is not there", |lab| {
            lab.compute().weather(|weather| {
                weather.missing_images.insert(UBUNTU.to_owned());
            });
        }),
        Situation {
            proxy: |proxy| proxy.spec.placement.machine_type = Some("e2-unknown".to_owned()),
            ..insert("the zone has no such machine type", |_| {})
        },
        insert("the network is not there", |lab| {
            let message = "The resource 'projects/lab-project/global/networks/default' was not found";
            insert_fails(lab, OpError::of("RESOURCE_NOT_FOUND", message, 404));
        }),
        insert("a permission is missing", |lab| lab.compute().forbid(&["compute.instances.create"])),
        insert("a failure that nobody knows yet", |lab| {
            insert_fails(lab, OpError::of("QUANTUM_DECOHERENCE", "The cat is dead.", 500));
        }),
        insert("the API is not enabled", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::ApiOff)
        }),
        insert("the API is asked too often", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::RateLimited);
        }),
        insert("the API says when to come back", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::TooMany(37));
        }),
        insert("a quota is said at once", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::QuotaAtOnce);
        }),
        insert("the key is not valid any more", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::Unauthorized);
        }),
        insert("something on the way answers with a page", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::Html(502));
        }),
        insert("the API is unavailable", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::Unavailable);
        }),
        insert("the name's last operation is not over", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::NotReady);
        }),
        insert("somebody changed what was read", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::Changed);
        }),
        insert("the answer is about something else", |lab| {
            lab.compute().answer_next("POST", "/instances", Trouble::Garbage);
        }),
        Situation {
            proxy: |proxy| {
                let image = "projects/debian-cloud/global/images/family/debian-13";
                proxy.spec.placement.image = Some(image.to_owned());
                proxy.user_data = b"#cloud-config\n".to_vec();
            },
            ..insert("the image runs no cloud-init, and the Proxy has user-data", |_| {})
        },
        Situation {
            proxy: |proxy| proxy.user_data = vec![b'x'; 300_000],
            ..insert("the user-data are too long for metadata", |_| {})
        },
        Situation {
            config: |config| {
                config["externalAddress"] = "reserved".into();
                config["reservedAddresses"] =
                    json!({ "us-central1": ["egress-1"], "europe-west1": ["egress-2"] });
            },
            ..insert("all reserved addresses are in use", |lab| {
                let somebody = lab.compute().instances().remove(0);
                lab.compute()
                    .edit(&somebody.zone, &somebody.name, |vm| vm.address = "198.51.100.2".to_owned());
            })
        },
    ]
}

fn behind_create() -> Vec<Situation> {
    fn force(lab: &Lab, status: &str) {
        let seen = lab.vm();
        assert!(lab.compute().force(&seen.zone, &seen.name, status));
    }
    vec![
        made("somebody suspended the instance", |lab| force(lab, "SUSPENDED"), Ask::Create),
        made(
            "the instance is being deleted",
            |lab| {
                let seen = lab.vm();
                assert!(lab.compute().hold_removal(&seen.zone, &seen.name));
            },
            Ask::Create,
        ),
        made("its status is one that nobody knows yet", |lab| force(lab, "QUANTUM"), Ask::Create),
        made(
            "the name bears another mark, or none",
            |lab| {
                let seen = lab.vm();
                lab.compute().edit(&seen.zone, &seen.name, |vm| vm.labels.clear());
            },
            Ask::Create,
        ),
        made(
            "somebody changed the firewall rule",
            |lab| {
                let rule = lab.compute().rules().remove(0);
                let name = rule["name"].as_str().unwrap().to_owned();
                lab.compute().edit_rule(&name, |rule| rule["sourceRanges"] = json!(["0.0.0.0/0"]));
                let seen = lab.vm();
                lab.compute().remove(&seen.zone, &seen.name);
            },
            Ask::Create,
        ),
        made("the instance was stopped", |lab| force(lab, "TERMINATED"), Ask::CreateSays("starts")),
        Situation {
            config: |config| config["spot"] = json!({ "onPreemption": "stop" }),
            ..made(
                "a Spot machine was taken away",
                |lab| {
                    let seen = lab.vm();
                    assert!(lab.compute().preempt(&seen.zone, &seen.name));
                },
                Ask::Get,
            )
        },
        made(
            "it runs without an external address",
            |lab| {
                let seen = lab.vm();
                lab.compute().edit(&seen.zone, &seen.name, |vm| vm.silent = true);
            },
            Ask::Get,
        ),
        made(
            "somebody deleted the instance",
            |lab| {
                let seen = lab.vm();
                lab.compute().remove(&seen.zone, &seen.name);
            },
            Ask::Get,
        ),
        made(
            "a page says 404 on the way to the instance",
            |lab| lab.compute().answer_next("GET", lab.proxy.name().as_str(), Trouble::Html(404)),
            Ask::Get,
        ),
        made(
            "somebody protected the instance from being deleted",
            |lab| {
                let seen = lab.vm();
                lab.compute().edit(&seen.zone, &seen.name, |vm| vm.body["deletionProtection"] = true.into());
            },
            Ask::Delete,
        ),
        made(
            "somebody else deletes it already",
            |lab| {
                let seen = lab.vm();
                assert!(lab.compute().hold_removal(&seen.zone, &seen.name));
            },
            Ask::DeleteSays("is being deleted"),
        ),
        made(
            "the delete fails",
            |lab| {
                let error =
                    OpError::of("RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", "It is used by another one.", 400);
                lab.compute().weather(|weather| weather.delete_fails.push_back(error));
            },
            Ask::Delete,
        ),
    ]
}

fn looking() -> Vec<Situation> {
    vec![
        made(
            "a zone is out of reach",
            |lab| {
                lab.compute().weather(|weather| {
                    weather.unreachable.insert("us-central1-b".to_owned());
                });
            },
            Ask::List,
        ),
        made(
            "a list says that it is not whole",
            |lab| {
                lab.compute()
                    .weather(|weather| weather.list_warning = Some("LIST_OVERHEAD_QUOTA_EXCEED".to_owned()))
            },
            Ask::List,
        ),
        plain(
            "permissions are missing",
            |lab| lab.compute().forbid(&["compute.instances.delete"]),
            Ask::Check,
        ),
        plain(
            "an image of the entry is not there",
            |lab| {
                lab.compute().weather(|weather| {
                    weather.missing_images.insert(UBUNTU.to_owned());
                });
            },
            Ask::Check,
        ),
        plain(
            "an image of the entry is deprecated",
            |lab| {
                lab.compute().weather(|weather| {
                    weather.deprecated_images.insert(UBUNTU.to_owned());
                });
            },
            Ask::Check,
        ),
        Situation {
            config: |config| {
                let source = "projects/debian-cloud/global/images/family/debian-13";
                config["images"]["debian"] = json!({ "source": source });
            },
            ..plain("an image of the entry runs no cloud-init", |_| {}, Ask::Check)
        },
        plain("a region is down", |lab| lab.compute().region("us-central1", true, false), Ask::Check),
        plain(
            "a quota is used up before anything is made",
            |lab| lab.compute().limit("CPUS", Some(0.0)),
            Ask::Check,
        ),
        plain("quotas can't be read", |lab| lab.compute().region("us-central1", false, true), Ask::Check),
    ]
}

async fn told(situation: &Situation) -> Told {
    let mut config = config();
    (situation.config)(&mut config);
    let mut lab = Lab::new(&config).await;
    (situation.proxy)(&mut lab.proxy);
    if situation.made {
        lab.make().await;
    }
    (situation.so)(&lab);
    match situation.ask {
        Ask::Create => lab.create_until(None).await,
        Ask::CreateSays(says) => lab.create_until(Some(says)).await,
        Ask::Get => lab.get().await,
        Ask::Delete => lab.delete_until(None).await,
        Ask::DeleteSays(says) => lab.delete_until(Some(says)).await,
        Ask::List => lab.list().await,
        Ask::Check => lab.check().await,
    }
}

/// The cells of each row of the page's section.
fn rows(title: &str) -> Vec<Vec<String>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/providers/gcp.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, section) = page.split_once(title).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim().to_owned()).collect()).skip(1).collect()
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[tokio::test]
async fn the_page_says_of_each_situation_what_is_said() {
    let situations: Vec<Situation> =
        in_create().into_iter().chain(behind_create()).chain(looking()).collect();
    let rows = rows("## Reasons");
    assert!(rows.len() >= 25, "{}", rows.len());
    let named: BTreeSet<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    let known: BTreeSet<&str> = situations.iter().map(|situation| situation.name).collect();
    assert_eq!(named, known, "rows of the page, and what is provoked here");
    let mut faults = Vec::new();
    for situation in &situations {
        let row = rows.iter().find(|row| row[0] == situation.name).unwrap();
        let told = told(situation).await;
        println!("{} -> {} {}: {}", situation.name, told.class, told.reason, told.message);
        let says = quoted(&row[2]);
        let mut says = says.iter();
        let class = says.next().copied().unwrap_or_default();
        let reason = if told.reason.is_empty() { "" } else { says.next().copied().unwrap_or_default() };
        if (class, reason) != (told.class.as_str(), told.reason.as_str()) {
            faults.push(format!("{}: the page says {class} {reason}, and it is {told:?}", situation.name));
        }
        let missing =
            quoted(&row[1]).into_iter().chain(says.copied()).find(|words| !told.message.contains(words));
        if let Some(words) = missing {
            faults.push(format!("{}: {words:?} is not in {told:?}", situation.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// All that stands in the files that the page may speak of.
fn sources() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [
        "providers/gcp/src",
        "tests/sim/src/compute",
        "tests/conformance/tests/all/gcp",
        "host/capabilities/src/http",
        "host/capabilities/src/http/tests",
    ];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let files =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "rs"));
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn each_quirk_names_a_test_that_there_is() {
    let (rows, sources) = (rows("## Quirks of the API"), sources());
    assert!(rows.len() >= 20, "{}", rows.len());
    for row in rows.iter().filter(|row| row[1] != "the same") {
        let name = quoted(&row[1]).first().copied().unwrap_or_default().to_owned();
        let is_promise = egress_conformance::promise::all().iter().any(|promise| promise.id == name);
        assert!(is_promise || sources.contains(&format!("fn {name}(")), "{row:?}");
    }
}
