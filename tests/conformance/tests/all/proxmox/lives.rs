//! What happens to machines of Proxmox VE alone: they move, sleep, are locked, share numbers with others.

use std::time::Duration;

use egress_contract::{Created, ErrorClass, State};
use egress_sim::proxmox::Line;
use serde_json::json;

use super::bench::{Bench, block, config, with};

#[test]
fn a_made_machine_is_what_the_config_says() {
    block(async {
        let mut config = with("bridge", json!("vnet7"));
        config["vlan"] = json!(42);
        config["tags"] = json!(["team-b", "team-a"]);
        config["pool"] = json!("proxies");
        config["firewall"] = json!({ "allowFrom": ["10.0.0.0/8", "192.0.2.1"] });
        let mut bench = Bench::new(config).await;
        bench.pve.put_pool("proxies");
        bench.make().await.unwrap();
        let machine = bench.machine().unwrap();
        let option = |key: &str| machine.config.get(key).cloned().unwrap_or_default();
        assert_eq!(option("tags"), "egress-proxy;team-a;team-b", "and the template's are gone");
        assert!(option("net0").contains("bridge=vnet7") && option("net0").contains("tag=42"));
        assert!(option("net0").contains("firewall=1") && !option("net0").contains("BC:24:11:00:00:00"));
        assert!(option("scsi0").contains("size=8G") && !option("scsi0").contains("base-"), "{machine:?}");
        assert_eq!(
            (option("cores").as_str(), option("memory").as_str(), option("agent").as_str()),
            ("1", "512", "1")
        );
        let rules = machine.firewall.unwrap();
        let sources: Vec<&str> = rules.iter().map(|rule| rule["source"].as_str()).collect();
        assert_eq!(sources, ["10.0.0.0/8", "192.0.2.1"]);
        assert!(rules.iter().all(|rule| rule["dport"] == "3128" && rule["action"] == "ACCEPT"));
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none() && bench.seeds().is_empty());
    });
}

#[test]
fn linked_clones_back_onto_the_template() {
    block(async {
        let mut bench = Bench::new(with("fullClones", json!(false))).await;
        bench.make().await.unwrap();
        assert!(bench.machine().unwrap().config["scsi0"].contains("base-9000"));
    });
}

#[test]
fn a_machine_that_moved_is_found_and_removed_with_its_seed() {
    block(async {
        let mut bench = Bench::new(config()).await;
        bench.make().await.unwrap();
        bench.booted().await;
        bench.pve.migrate(bench.vmid(), "pve2");
        assert_eq!(bench.get().await.unwrap().details["node"], "pve2");
        let listed = |place| bench.host.list_place(place);
        assert_eq!(listed("pve1").await.unwrap().unwrap().items.len(), 0);
        assert_eq!(listed("pve2").await.unwrap().unwrap().items.len(), 1);
        bench.make().await.unwrap();
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none() && bench.seeds().is_empty(), "{:?}", bench.seeds());
    });
}

#[test]
fn a_template_on_shared_storage_serves_every_node() {
    block(async {
        let mut config = with("images", json!({ "debian-13": { "template": 9100 } }));
        config["defaults"] = json!({ "zone": "pve2" });
        config["storage"] = json!("nfs");
        config["isoStorage"] = json!("nfs");
        let mut bench = Bench::new(config).await;
        bench.pve.put_storage("", "nfs", "images,iso");
        bench.pve.put_template(9100, "pve1", "nfs", 2);
        bench.make().await.unwrap();
        let machine = bench.machine().unwrap();
        assert_eq!((machine.node.as_str(), machine.running), ("pve2", true));
        bench.pve.migrate(machine.vmid, "pve1");
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none() && bench.seeds().is_empty());
    });
}

#[test]
fn what_somebody_left_in_the_middle_of_a_clone_is_waited_for_by_a_delete() {
    block(async {
        let mut bench = Bench::new(config()).await;
        let mut clones = false;
        while !clones {
            bench.step().await.unwrap();
            clones = bench.pve.running().iter().any(|(kind, _)| kind == "qmclone");
            if !clones {
                bench.stage.wait(Duration::from_secs(1)).await;
            }
        }
        // The record is lost, and the clone shows nothing yet.
        (bench.proxy.id, bench.proxy.progress) = (None, None);
        bench.unmake().await.unwrap();
        bench.stage.wait(Duration::from_secs(60)).await;
        assert!(bench.machine().is_none() && bench.seeds().is_empty());
    });
}

#[test]
fn a_machine_on_a_node_that_no_entry_has_is_listed_by_the_first_place() {
    block(async {
        let mut config = config();
        config["nodes"] = json!([{ "name": "pve1" }]);
        config["images"] = json!({ "debian-13": { "template": 9000 } });
        let mut bench = Bench::new(config).await;
        bench.make().await.unwrap();
        bench.pve.migrate(bench.vmid(), "pve2");
        let listed = bench.host.list_place("pve1").await.unwrap().unwrap();
        assert_eq!(listed.items.len(), 1, "{listed:?}");
        assert!(bench.get().await.is_ok());
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none() && bench.seeds().is_empty());
    });
}

#[test]
fn an_ejected_seed_goes_after_the_first_boot_and_not_before() {
    block(async {
        let mut bench = Bench::new(with("ejectSeed", json!(true))).await;
        let mut boots = 0;
        loop {
            match bench.step().await.unwrap() {
                Created::Done(_) => break,
                Created::Pending(pending) => {
                    boots += u32::from(pending.message.contains("boots"));
                    assert!(boots == 0 || bench.seeds().len() == 1, "the seed is there as long as it boots");
                    bench.stage.wait(pending.poll).await;
                }
            }
        }
        assert!(boots > 0 && bench.seeds().is_empty());
        assert_eq!(bench.machine().unwrap().config["ide2"], "none,media=cdrom");
        bench.pve.stop(bench.vmid());
        bench.make().await.unwrap();
        assert!(bench.machine().unwrap().running && bench.seeds().is_empty(), "it starts without a seed too");
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none());
    });
}

#[test]
fn a_hibernated_machine_is_told_and_a_delete_frees_it() {
    block(async {
        let mut bench = Bench::new(config()).await;
        bench.make().await.unwrap();
        bench.pve.hibernate(bench.vmid());
        let told = bench.step().await.unwrap_err();
        assert_eq!((told.class, told.reason.as_str()), (ErrorClass::Transient, "paused"));
        assert_eq!(bench.get().await.unwrap().state, State::Stopped);
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none() && bench.seeds().is_empty());
    });
}

#[test]
fn a_hibernated_machine_goes_on_when_somebody_resumes_it() {
    block(async {
        let mut bench = Bench::new(config()).await;
        bench.make().await.unwrap();
        bench.pve.hibernate(bench.vmid());
        bench.step().await.unwrap_err();
        bench.pve.set_lock(bench.vmid(), None);
        bench.make().await.unwrap();
        assert!(bench.machine().unwrap().running);
    });
}

#[test]
fn a_lock_is_waited_for_and_then_told_with_the_command_that_frees_it() {
    block(async {
        let mut bench = Bench::new(config()).await;
        bench.make().await.unwrap();
        bench.pve.stop(bench.vmid());
        bench.pve.set_lock(bench.vmid(), Some("rollback"));
        let mut waited = Duration::ZERO;
        let told = loop {
            match bench.step().await {
                Ok(Created::Pending(pending)) => {
                    waited += pending.poll;
                    bench.stage.wait(pending.poll).await;
                }
                Ok(Created::Done(_)) => panic!("a locked machine is done"),
                Err(error) => break error,
            }
        };
        assert!(waited >= Duration::from_secs(600), "{waited:?}");
        assert_eq!((told.class, told.reason.as_str()), (ErrorClass::Transient, "busy"));
        let command = format!("qm unlock {}", bench.vmid());
        assert!(told.message.contains("rollback") && told.message.contains(&command), "{}", told.message);
        bench.pve.set_lock(bench.vmid(), None);
        bench.make().await.unwrap();
    });
}

#[test]
fn a_number_that_somebody_takes_meanwhile_leads_to_another() {
    block(async {
        // On the same node the clone is refused, on another one its task fails.
        for node in ["pve1", "pve2"] {
            let mut bench = Bench::new(config()).await;
            bench.step().await.unwrap();
            let id = bench.proxy.id.clone().unwrap();
            let vmid: u32 = id.split('/').nth(1).unwrap().parse().unwrap();
            bench.pve.put(vmid, node, &[("name", "somebody-else")]);
            bench.make_in_the_end().await;
            let machine = bench.machine().unwrap();
            assert_ne!(machine.vmid, vmid);
            let other = bench.pve.machines().into_iter().find(|machine| machine.vmid == vmid).unwrap();
            assert_eq!(other.name, "somebody-else", "it is left alone");
        }
    });
}

#[test]
fn a_token_of_one_pool_makes_machines_among_those_that_it_can_t_see() {
    block(async {
        let mut config = with("pool", json!("proxies"));
        config["vmids"] = json!({ "first": 300, "last": 302 });
        let mut bench = Bench::new(config).await;
        bench.pve.put_pool("proxies");
        bench.step().await.unwrap();
        let id = bench.proxy.id.take().unwrap();
        let vmid: u32 = id.split('/').nth(1).unwrap().parse().unwrap();
        let next = 300 + (vmid - 300 + 1) % 3;
        for (number, node) in [(vmid, "pve1"), (next, "pve2")] {
            bench.pve.put(number, node, &[("name", "unseen")]);
        }
        bench.pve.allow(&[
            ("/pool/proxies", &[]),
            ("/storage", &[]),
            ("/nodes", &[]),
            ("/vms/9000", &["VM.Clone", "VM.Audit"]),
        ]);
        assert!(bench.host.check("pve1").await.unwrap().answer.unwrap().ready);
        bench.make_in_the_end().await;
        assert_eq!(bench.vmid(), 300 + (vmid - 300 + 2) % 3);
        assert_eq!(bench.host.list_place("pve1").await.unwrap().unwrap().items.len(), 1);
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none());
        assert!(bench.pve.machines().iter().filter(|machine| machine.name == "unseen").count() == 2);
    });
}

#[test]
fn a_clone_that_a_token_of_one_pool_can_t_see_yet_is_not_begun_twice() {
    block(async {
        let mut bench = Bench::new(with("pool", json!("proxies"))).await;
        bench.pve.put_pool("proxies");
        bench.pve.allow(&[
            ("/pool/proxies", &[]),
            ("/storage", &[]),
            ("/nodes", &[]),
            ("/vms/9000", &["VM.Clone", "VM.Audit"]),
        ]);
        while !bench.pve.running().iter().any(|(kind, _)| kind == "qmclone") {
            bench.step().await.unwrap();
            if bench.pve.running().is_empty() {
                continue;
            }
            bench.stage.wait(Duration::from_millis(300)).await;
        }
        // What the last step answered was not kept.
        bench.proxy.progress = None;
        bench.make_in_the_end().await;
        let name = bench.proxy.name();
        let machines = bench.pve.machines();
        let ours = machines.iter().filter(|machine| machine.name == name.as_str()).count();
        assert_eq!(ours, 1, "{machines:#?}");
    });
}

#[test]
fn a_container_takes_a_number_too() {
    block(async {
        let mut bench = Bench::new(with("vmids", json!({ "first": 300, "last": 301 }))).await;
        bench.step().await.unwrap();
        let first = bench.proxy.id.take().unwrap();
        let vmid: u32 = first.split('/').nth(1).unwrap().parse().unwrap();
        let mut bench = Bench::new(with("vmids", json!({ "first": 300, "last": 301 }))).await;
        bench.pve.put_container(vmid, "pve2");
        bench.make().await.unwrap();
        assert_eq!(bench.vmid(), 601 - vmid);
    });
}

#[test]
fn clones_of_one_template_are_limited_across_proxies() {
    block(async {
        let mut bench = Bench::new(with("clonesAtOnce", json!(2))).await;
        let mut proxies: Vec<_> = (1..=6).map(|number| bench.stage.proxy(number)).collect();
        let mut most = 0;
        let mut done = 0;
        for _ in 0..200 {
            for proxy in &mut proxies {
                if proxy.progress.is_some() || proxy.id.is_none() {
                    let answer = bench.host.create_step(proxy).await.unwrap().answer.unwrap();
                    done += u32::from(matches!(answer, Created::Done(_)));
                }
                let clones = bench.pve.running().iter().filter(|(kind, _)| kind == "qmclone").count();
                most = most.max(clones);
            }
            if done == 6 {
                break;
            }
            bench.stage.wait(Duration::from_millis(500)).await;
        }
        bench.proxy = proxies.remove(0);
        assert_eq!((done, most), (6, 2));
    });
}

#[test]
fn version_8_makes_and_removes_a_machine_too() {
    block(async {
        let mut bench = Bench::new(config()).await;
        bench.pve.set_line(Line::V8);
        bench.pve.take_privilege("VM.GuestAgent.Audit");
        assert!(bench.host.check("pve1").await.unwrap().answer.unwrap().ready);
        bench.make().await.unwrap();
        bench.booted().await;
        assert_eq!(bench.get().await.unwrap().state, State::Running);
        assert!(bench.machine().unwrap().config["scsi0"].contains("size=8G"));
        bench.pve.revoke(true);
        let told = bench.get().await.unwrap_err();
        assert!(told.message.contains("invalid token value!"), "{}", told.message);
        bench.pve.revoke(false);
        bench.unmake().await.unwrap();
        assert!(bench.machine().is_none());
    });
}

#[test]
fn a_machine_of_an_earlier_operator_is_adopted_by_its_id_and_marked_anew() {
    block(async {
        let mut bench = Bench::new(config()).await;
        let description = "proxy-operator-managed=true\nproxy-operator-created-at=2025-02-03T04:05:06Z";
        bench.pve.put(777, "pve2", &[("name", "proxy-old"), ("description", description)]);
        bench.pve.run_as(777, "running");
        bench.proxy.id = Some("vms/777/proxy-old".to_owned());
        bench.make().await.unwrap();
        assert_eq!(bench.proxy.id.as_deref(), Some("vms/777/proxy-old"));
        let machine = bench.pve.machines().into_iter().find(|machine| machine.vmid == 777).unwrap();
        assert!(machine.description.contains(&bench.proxy.uid), "{}", machine.description);
        bench.unmake().await.unwrap();
        assert!(bench.pve.machines().iter().all(|machine| machine.vmid != 777));
    });
}

#[test]
fn somebodys_copy_of_a_machine_is_not_taken_for_it() {
    block(async {
        let mut bench = Bench::new(config()).await;
        bench.make().await.unwrap();
        let machine = bench.machine().unwrap();
        let copy = [("name", "Copy-of-VM-x"), ("description", machine.description.as_str())];
        bench.pve.put(555, "pve2", &copy);
        for place in ["pve1", "pve2"] {
            let listed = bench.host.list_place(place).await.unwrap().unwrap();
            assert!(listed.items.iter().all(|item| !item.id.contains("/555/")), "{listed:?}");
        }
        bench.unmake().await.unwrap();
        assert!(bench.pve.machines().iter().any(|machine| machine.vmid == 555));
    });
}
