//! Each row of the page's table of reasons, provoked: what the server answers, what the status says, the way out.

use std::{collections::BTreeMap, path::Path, time::Duration};

use egress_conformance::promise;
use egress_contract::{Created, State};
use egress_sim::proxmox::Pve;
use serde_json::json;

use super::bench::{Bench, block, config, with};

const PAGE: &str = include_str!("../../../../../docs/providers/proxmox.md");
const GIB: u64 = 1 << 30;

struct Row {
    answers: String,
    says: String,
    way_out: String,
}

/// By situation.
fn table() -> BTreeMap<String, Row> {
    let (_, behind) = PAGE.split_once("| situation | ").unwrap();
    let rows = behind.lines().skip(2).take_while(|line| line.starts_with("| "));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let [situation, answers, says, way_out] = cells[..] else { panic!("{line}") };
        let row =
            Row { answers: answers.to_owned(), says: says.replace('`', ""), way_out: way_out.to_owned() };
        (situation.to_owned(), row)
    })
    .collect()
}

/// The words in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What was heard, as `transient busy`, and in which words.
type Told = (String, String);

struct Cases {
    rows: BTreeMap<String, Row>,
}

impl Cases {
    /// `words`: whether the server's own words must stand in the message.
    fn judge(&mut self, situation: &str, (says, message): Told, words: bool) {
        let row = self.rows.remove(situation).unwrap_or_else(|| panic!("no row, or twice: {situation}"));
        assert_eq!(says, row.says, "{situation}: {message}");
        for snippet in quoted(&row.way_out) {
            assert!(message.contains(snippet), "{situation}: {message} lacks {snippet}");
        }
        for snippet in quoted(&row.answers).into_iter().filter(|_| words) {
            assert!(message.contains(snippet), "{situation}: {message} lacks the server's {snippet}");
        }
    }
}

async fn create_of(bench: &mut Bench) -> Told {
    match bench.make().await {
        Ok(()) => ("done".to_owned(), String::new()),
        Err(error) => (format!("{} {}", error.class.as_str(), error.reason), error.message),
    }
}

async fn delete_of(bench: &mut Bench) -> Told {
    let error = bench.unmake().await.unwrap_err();
    (format!("{} {}", error.class.as_str(), error.reason), error.message)
}

async fn get_of(bench: &Bench) -> Told {
    match bench.get().await {
        Ok(instance) => {
            let state = match instance.state {
                State::Provisioning => "provisioning",
                State::Running => "running",
                State::Stopped => "stopped",
                State::Deleting => "deleting",
            };
            (format!("{state} {}", instance.reason), instance.message)
        }
        Err(error) => (format!("{} {}", error.class.as_str(), error.reason), error.message),
    }
}

async fn check_of(bench: &Bench) -> Told {
    let health = bench.host.check("pve1").await.unwrap().answer.unwrap();
    let ready = if health.ready { "ready" } else { "not ready" };
    (format!("{ready} {}", health.reason), health.message)
}

/// At a cluster that was prepared so.
async fn fresh(prepare: impl FnOnce(&Pve)) -> Bench {
    configured(config(), prepare).await
}

async fn configured(config: serde_json::Value, prepare: impl FnOnce(&Pve)) -> Bench {
    let bench = Bench::new(config).await;
    prepare(&bench.pve);
    bench
}

/// With a machine that runs, or that was changed since.
async fn made(change: impl FnOnce(&Pve, u32)) -> Bench {
    let mut bench = Bench::new(config()).await;
    bench.make().await.unwrap();
    bench.booted().await;
    change(&bench.pve, bench.vmid());
    bench
}

#[test]
fn every_row_of_the_reasons_table_is_so() {
    let mut cases = Cases { rows: table() };
    assert!(cases.rows.len() >= 25);
    block(async {
        creates(&mut cases).await;
        templates_and_storages(&mut cases).await;
        clones(&mut cases).await;
        states(&mut cases).await;
        looks(&mut cases).await;
        checks(&mut cases).await;
    });
    assert!(cases.rows.is_empty(), "not provoked: {:?}", cases.rows.keys());
}

#[test]
fn every_quirk_names_a_test_that_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = String::new();
    let mut folders =
        ["providers/proxmox/src", "tests/sim/src/proxmox", "tests/conformance/tests/all/proxmox"]
            .map(|folder| root.join(folder))
            .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let (_, behind) = PAGE.split_once("| quirk | test |").unwrap();
    let rows: Vec<&str> = behind.lines().skip(2).take_while(|line| line.starts_with("| ")).collect();
    assert!(rows.len() >= 20);
    for row in rows {
        let cell = row.trim_matches(['|', ' ']).split(" | ").last().unwrap();
        let named = quoted(cell);
        assert!(!named.is_empty(), "{row}");
        for name in named {
            let is_promise = promise::all().iter().any(|promise| promise.id == name);
            assert!(is_promise || sources.contains(&format!("fn {name}(")), "there is no test {name}");
        }
    }
}

async fn creates(cases: &mut Cases) {
    let told = create_of(&mut fresh(|pve| pve.revoke(true)).await).await;
    cases.judge("The token is wrong, disabled or expired", told, true);
    let told = create_of(&mut fresh(|pve| pve.only_look(true)).await).await;
    cases.judge("The token may not make machines", told, true);
    let told = get_of(&made(|pve, _| pve.take_all()).await).await;
    cases.judge("The token sees no machines", told, true);
    let told = create_of(&mut configured(with("pool", json!("nope")), |_| {}).await).await;
    cases.judge("The resource pool is missing", told, true);
    let told = create_of(&mut fresh(|pve| pve.set_up("pve1", false)).await).await;
    cases.judge("A node can't be reached", told, true);
    let mut alone = config();
    alone["nodes"] = json!([{ "name": "pve1" }]);
    alone["images"] = json!({ "debian-13": { "template": 9000 } });
    let mut bench = configured(alone, |_| {}).await;
    bench.make().await.unwrap();
    bench.pve.migrate(bench.vmid(), "pve2");
    bench.pve.set_up("pve2", false);
    cases.judge("A node can't be reached by another one", get_of(&bench).await, true);
    let told = create_of(&mut fresh(|pve| pve.interpose(true)).await).await;
    cases.judge("Something in between answers", told, true);
    let mut bench = fresh(|_| {}).await;
    bench.proxy.user_data = vec![b'x'; 5 * 1024 * 1024];
    cases.judge("The user-data is too large", create_of(&mut bench).await, true);
}

async fn templates_and_storages(cases: &mut Cases) {
    let told = create_of(
        &mut fresh(|pve| {
            pve.remove(9000);
        })
        .await,
    )
    .await;
    cases.judge("The template is missing", told, true);
    let machine = |pve: &Pve| {
        pve.remove(9000);
        pve.put(9000, "pve1", &[("name", "plain"), ("scsi0", "local:9000/vm.qcow2,size=2G")]);
    };
    cases.judge("The template is a machine", create_of(&mut fresh(machine).await).await, false);
    let drive = |pve: &Pve| pve.put(9000, "pve1", &[("ide0", "local:vm-9000-cloudinit,media=cdrom")]);
    cases.judge("The template has a cloud-init drive", create_of(&mut fresh(drive).await).await, true);
    let config = with("images", json!({ "debian-13": { "template": 9000, "disk": "virtio0" } }));
    let told = create_of(&mut configured(config, |_| {}).await).await;
    cases.judge("The template has another disk", told, false);
    let told = create_of(&mut fresh(|pve| pve.fill_up(true)).await).await;
    cases.judge("The storage is full", told, false);
    let told = create_of(&mut fresh(|pve| pve.activate("pve1", "local", false)).await).await;
    cases.judge("The storage is not mounted", told, false);
    let told = create_of(&mut configured(with("storage", json!("nope")), |_| {}).await).await;
    cases.judge("The storage for disks is missing", told, false);
    let told = create_of(&mut configured(with("isoStorage", json!("nope")), |_| {}).await).await;
    cases.judge("The storage for seeds is missing", told, true);
    let told = create_of(&mut fresh(|pve| pve.set_memory("pve1", GIB / 4)).await).await;
    cases.judge("The node lacks memory", told, false);
}

async fn clones(cases: &mut Cases) {
    let failing = "clone failed: copy failed: qemu-img: error while writing at byte 7: Input/output error";
    let told = create_of(&mut fresh(|pve| pve.fail_clones(Some(failing))).await).await;
    cases.judge("A clone fails", told, true);
    let full = "clone failed: copy failed: qemu-img: No space left on device";
    let told = create_of(&mut fresh(|pve| pve.fail_clones(Some(full))).await).await;
    cases.judge("A clone finds no room", told, true);
    let mut config = with("images", json!({ "debian-13": { "template": 9000 } }));
    config["defaults"] = json!({ "zone": "pve2" });
    let told = create_of(&mut configured(config, |_| {}).await).await;
    cases.judge("A clone onto another node, without shared storage", told, true);
    let mut bench = fresh(|_| {}).await;
    let mut told = String::new();
    let mut others: Vec<_> = (2..=6).map(|number| bench.stage.proxy(number)).collect();
    for _ in 0..40 {
        for proxy in &mut others {
            if let Ok(Created::Pending(pending)) = bench.host.create_step(proxy).await.unwrap().answer
                && pending.message.contains("clones of template")
            {
                told = pending.message;
            }
        }
        bench.stage.wait(Duration::from_millis(300)).await;
    }
    bench.proxy = others.remove(0);
    cases.judge("Too many clones of one template run", ("pending".to_owned(), told), false);
    let taken = |pve: &Pve| pve.put(300, "pve2", &[("name", "somebody")]);
    let config = with("vmids", json!({ "first": 300, "last": 300 }));
    cases.judge("Every number is taken", create_of(&mut configured(config, taken).await).await, false);
}

async fn states(cases: &mut Cases) {
    let locked = |lock: &'static str| {
        move |pve: &Pve, vmid: u32| {
            pve.stop(vmid);
            pve.set_lock(vmid, Some(lock));
        }
    };
    let told = create_of(&mut made(locked("backup")).await).await;
    cases.judge("A lock that never clears", told, false);
    let hibernated = |pve: &Pve, vmid: u32| assert!(pve.hibernate(vmid));
    cases.judge("A machine is hibernated, in create", create_of(&mut made(hibernated).await).await, false);
    cases.judge("A machine is hibernated, in get", get_of(&made(hibernated).await).await, false);
    let runs_as = |inner: &'static str| move |pve: &Pve, vmid: u32| assert!(pve.run_as(vmid, inner));
    cases.judge("A machine is paused, in create", create_of(&mut made(runs_as("paused")).await).await, true);
    cases.judge("A machine has an I/O error", create_of(&mut made(runs_as("io-error")).await).await, true);
    let told = create_of(&mut fresh(|pve| pve.never_start(true)).await).await;
    cases.judge("A machine does not start", told, true);
    let held = |pve: &Pve, vmid: u32| assert!(pve.hold(vmid));
    cases.judge("A machine is being destroyed, in create", create_of(&mut made(held).await).await, false);
    let unmarked = |pve: &Pve, vmid: u32| assert!(pve.rewrite(vmid, |_| "hands off".to_owned()));
    cases.judge("The name is somebody else's", create_of(&mut made(unmarked).await).await, false);
    let protected = |pve: &Pve, vmid: u32| pve.put(vmid, "pve1", &[("protection", "1")]);
    cases.judge("A machine is protected", delete_of(&mut made(protected).await).await, true);
}

async fn looks(cases: &mut Cases) {
    let migrating = |pve: &Pve, vmid: u32| assert!(pve.set_lock(vmid, Some("migrate")));
    cases.judge("A machine is locked, in get", get_of(&made(migrating).await).await, true);
    let mut bench = fresh(|_| {}).await;
    bench.make().await.unwrap();
    cases.judge("The guest agent does not answer yet", get_of(&bench).await, false);
    let agent = |value: &'static str| move |pve: &Pve, vmid: u32| pve.put(vmid, "pve1", &[("agent", value)]);
    cases.judge("A machine has no guest agent", get_of(&made(agent("0")).await).await, false);
    cases.judge("The guest agent refuses", get_of(&made(agent("1,refuses")).await).await, false);
    let silent = |pve: &Pve, vmid: u32| assert!(pve.silence(vmid));
    cases.judge("A machine has no address", get_of(&made(silent).await).await, false);
}

async fn checks(cases: &mut Cases) {
    let bench = fresh(|pve| pve.take_privilege("Datastore.AllocateTemplate")).await;
    cases.judge("The token lacks a privilege, in check", check_of(&bench).await, false);
    let bench =
        configured(with("isoStorage", json!("disks")), |pve| pve.put_storage("pve1", "disks", "images"))
            .await;
    cases.judge("A storage takes no images, in check", check_of(&bench).await, false);
    let bench = fresh(|pve| {
        pve.remove(9000);
    })
    .await;
    cases.judge("The template is missing, in check", check_of(&bench).await, false);
    let bench = fresh(|pve| pve.revoke(true)).await;
    cases.judge("The token is wrong, in check", check_of(&bench).await, true);
}
