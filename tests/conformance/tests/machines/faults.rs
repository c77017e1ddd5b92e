//! What goes wrong at a host: what the provider says of it, that the way out is named, and that all is well once it is
//! mended, with nothing left behind.

use std::{
    fs,
    path::Path,
    pin::pin,
    process::Command,
    sync::LazyLock,
    time::{Duration, Instant},
};

use egress_conformance::{
    host::{Host, Patience},
    kind::{Kind, libvirt::RealLibvirt},
    proxy::Proxy,
    stage::{Stage, Subject},
};
use egress_contract::{Created, Deleted, Error, ErrorClass, State};
use egress_runtime::Module;
use egress_sim::backend::{Condition, Thing};
use serde_json::{Value, json};

use crate::{
    images::Images,
    lab::{self, Site, component, is_soak, runtime, sites},
};

const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

static KVM: LazyLock<Module> = LazyLock::new(|| component("kvm-provider"));
static KVM2: LazyLock<Module> = LazyLock::new(|| component("kvm2-provider"));

/// A component at a host, and a Proxy that it is to make.
struct Tried {
    site: Site,
    images: Images,
    _kind: RealLibvirt,
    stage: Stage,
    host: Host,
    proxy: Proxy,
}

impl Tried {
    /// With some fields of the host's grant changed.
    async fn new(module: &Module, changes: Value) -> Self {
        let ([site, _], images) = (sites(), Images::serve());
        let mut entry = lab::entry(&images, std::slice::from_ref(&site));
        let grant = &mut entry.grants["libvirt"]["hosts"][&site.name];
        grant.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let kind = lab::kind(&lab::entry(&images, std::slice::from_ref(&site)));
        let lends = lab::kind(&entry);
        // The administrator's way is not the one that is broken.
        let mut world = kind.world(1).await.unwrap();
        world.lend = lends.lend(&world.clock);
        let subject = Subject {
            entry: entry.name,
            module: module.clone(),
            config: entry.config,
            grants: entry.grants,
            limits: entry.limits,
            legacy: entry.legacy,
        };
        let stage = Stage::new(runtime(), subject, world);
        let host = stage.host("a").await.unwrap();
        Self { proxy: stage.proxy(1), site, images, _kind: kind, stage, host }
    }

    /// Creates until something goes wrong.
    async fn create_fails(&mut self) -> Error {
        let began = Instant::now();
        loop {
            match self.host.create_step(&mut self.proxy).await.unwrap().answer {
                Err(error) => return error,
                Ok(Created::Pending(_)) => assert!(began.elapsed() < PATIENCE, "it waits for ever"),
                Ok(Created::Done(id)) => panic!("{id} was made"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Creates until the answer says this.
    async fn create_says(&mut self, said: &str) {
        let began = Instant::now();
        loop {
            match self.host.create_step(&mut self.proxy).await.unwrap().answer {
                Ok(Created::Pending(step)) if step.message.contains(said) => return,
                Ok(Created::Pending(_)) => assert!(began.elapsed() < PATIENCE, "it waits for ever"),
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn make(&mut self) {
        self.host.make(&mut self.proxy).await.unwrap();
    }

    /// It is gone, and nothing is left, whoever looks.
    async fn ends_well(&mut self) {
        self.host.unmake(&mut self.proxy).await.unwrap();
        assert_eq!(self.stage.inventory().await.unwrap(), Vec::<Thing>::new());
        self.host.collect_all().await.unwrap();
        let left = self.site.run("virsh list --all --name; ls /var/lib/libvirt/images");
        assert_eq!(left.trim(), "", "images too are gone once they are collected");
    }

    async fn mended(&mut self) {
        let patience = Patience { through_permanent: true, ..Patience::default() };
        self.host.create(&mut self.proxy, patience).await.unwrap().unwrap();
        self.ends_well().await;
    }

    fn name(&self) -> String {
        self.proxy.name().as_str().to_owned()
    }
}

/// Class and reason are these, and the message names the host, the cause and the way out.
fn says(site: &Site, error: &Error, class: ErrorClass, reason: &str, words: &[&str]) {
    println!("  {} {}: {}", error.class.as_str(), error.reason, error.message);
    assert_eq!((error.class, error.reason.as_str()), (class, reason), "{}", error.message);
    for word in words.iter().chain([&site.name.as_str()]) {
        assert!(error.message.contains(word), "{word} is not in: {}", error.message);
    }
}

/// What keeps everybody out, or lets nobody do anything.
struct Trouble {
    what: &'static str,
    /// Of the host's grant; a folder is there for files.
    grant: fn(&Site, &Path) -> Value,
    begin: fn(&Site, &Path),
    mend: fn(&Site, &Path),
    class: ErrorClass,
    reason: &'static str,
    words: &'static [&'static str],
    health: &'static str,
}

fn as_it_is(_: &Site, _: &Path) -> Value {
    json!({})
}

fn other_key(_: &Site, folder: &Path) -> Value {
    let key = folder.join("id");
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.unwrap().success());
    json!({ "key": { "file": key } })
}

fn known_hosts(_: &Site, folder: &Path) -> Value {
    json!({ "knownHosts": { "file": folder.join("known_hosts") } })
}

const FORWARDING: &str = "AllowStreamLocalForwarding";
const AUTHORIZED: &str = "lab/authorized_keys";

const TROUBLES: [Trouble; 8] = [
    Trouble {
        what: "sshd is down",
        grant: as_it_is,
        begin: |site, _| site.service("sshd stop"),
        mend: |site, _| site.service("sshd start"),
        class: ErrorClass::Transient,
        reason: "unreachable",
        words: &["connect", "no connection"],
        health: "unreachable",
    },
    Trouble {
        what: "libvirtd is down",
        grant: as_it_is,
        begin: |site, _| drop(site.run("/lab/service libvirtd stop; rm -f /run/libvirt/libvirt-sock")),
        mend: |site, _| site.service("libvirtd start"),
        class: ErrorClass::Transient,
        reason: "forbidden",
        words: &["libvirt-sock", "see that libvirtd runs"],
        health: "forbidden",
    },
    Trouble {
        what: "the key is not authorised",
        grant: other_key,
        begin: |_, _| {},
        mend: |site, folder| {
            let all = fs::read_to_string(site.file(AUTHORIZED)).unwrap();
            let public = fs::read_to_string(folder.join("id.pub")).unwrap();
            fs::write(site.file(AUTHORIZED), format!("{all}{public}")).unwrap();
        },
        class: ErrorClass::Permanent,
        reason: "unauthorized",
        words: &["user lab", "authorized_keys"],
        health: "unauthorized",
    },
    Trouble {
        what: "the host has another key",
        grant: known_hosts,
        begin: |site, folder| {
            let known = fs::read_to_string(site.file("known_hosts")).unwrap();
            let name = known.split(' ').next().unwrap();
            let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
            fs::write(folder.join("known_hosts"), format!("{name} {other}\n")).unwrap();
        },
        mend: |site, folder| {
            fs::copy(site.file("known_hosts"), folder.join("known_hosts")).unwrap();
        },
        class: ErrorClass::Permanent,
        reason: "unauthorized",
        words: &["has another key", "put its new key into known_hosts"],
        health: "unauthorized",
    },
    Trouble {
        what: "the user is outside the group",
        grant: |_, _| json!({ "user": "labno" }),
        begin: |_, _| {},
        mend: |site, _| drop(site.run("usermod --append --groups libvirt labno")),
        class: ErrorClass::Transient,
        reason: "forbidden",
        words: &["libvirt-sock", "group libvirt"],
        health: "forbidden",
    },
    Trouble {
        what: "sshd forwards no sockets",
        grant: as_it_is,
        begin: |site, _| site.sshd_config(&format!("{FORWARDING} yes"), &format!("{FORWARDING} no")),
        mend: |site, _| site.sshd_config(&format!("{FORWARDING} no"), &format!("{FORWARDING} yes")),
        class: ErrorClass::Transient,
        reason: "forbidden",
        words: &[FORWARDING],
        health: "forbidden",
    },
    Trouble {
        what: "the pool is inactive",
        grant: as_it_is,
        begin: |site, _| drop(site.run("virsh --quiet pool-destroy default")),
        mend: |site, _| drop(site.run("virsh --quiet pool-start default")),
        class: ErrorClass::Permanent,
        reason: "pool-not-active",
        words: &["default", "virsh pool-start"],
        health: "pool-not-active",
    },
    Trouble {
        what: "the pool is another",
        grant: as_it_is,
        begin: |site, _| {
            let moved = "virsh pool-dumpxml default >/tmp/pool && virsh --quiet pool-destroy default && \
                         virsh --quiet pool-undefine default";
            site.run(moved);
        },
        mend: |site, _| {
            let back = "virsh --quiet pool-define /tmp/pool && virsh --quiet pool-start default && \
                        virsh --quiet pool-autostart default";
            site.run(back);
        },
        class: ErrorClass::Permanent,
        reason: "pool-not-found",
        words: &["default", "define and start the pool"],
        health: "pool-not-found",
    },
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn whatever_keeps_everybody_out_is_told_with_its_way_out_and_got_over() {
    for (number, trouble) in TROUBLES.into_iter().enumerate() {
        // In the short form by turns.
        let modules =
            [&*KVM2, &*KVM].into_iter().enumerate().filter(|(which, _)| is_soak() || number % 2 == *which);
        for (_, module) in modules {
            println!("{}:", trouble.what);
            let folder = tempfile::tempdir().unwrap();
            let [site, _] = sites();
            let authorized = fs::read(site.file(AUTHORIZED)).unwrap();
            let mut tried = Tried::new(module, (trouble.grant)(&site, folder.path())).await;
            (trouble.begin)(&site, folder.path());
            let error = tried.create_fails().await;
            let health = tried.host.check(&site.name).await.unwrap().answer.unwrap();
            let unread = tried.host.list_place(&site.name).await.unwrap();
            (trouble.mend)(&site, folder.path());
            says(&site, &error, trouble.class, trouble.reason, trouble.words);
            assert_eq!((health.ready, health.reason.as_str()), (false, trouble.health), "{}", health.message);
            assert!(
                unread.as_ref().map_or(true, |listed| !listed.unread.is_empty()),
                "unread is not empty: {unread:?}"
            );
            tried.mended().await;
            fs::write(site.file(AUTHORIZED), authorized).unwrap();
            site.run("gpasswd --delete labno libvirt >/dev/null 2>&1 || true");
        }
    }
}

impl Tried {
    /// Steps until the host is about to make this call, and its libvirtd dies under it.
    async fn create_dies_in(&mut self, call: &str) -> Error {
        let (watch, plan) = (self.host.watch().clone(), self.stage.plan().clone());
        let (journal, site) = (self.stage.journal().clone(), self.site.clone());
        loop {
            plan.stop_always(true);
            let mut step = pin!(self.host.create_step(&mut self.proxy));
            let reached = loop {
                let number = tokio::select! {
                    biased;
                    heard = &mut step => break Err(heard.unwrap().answer),
                    number = watch.stopped() => number,
                };
                let is_it = journal.lines().iter().any(|line| line.number == number && line.call == call);
                if is_it {
                    break Ok(());
                }
                watch.let_on();
            };
            plan.stop_always(false);
            match reached {
                Ok(()) => {
                    site.service("libvirtd freeze");
                    watch.let_on();
                    // It is on its way, and nobody answers.
                    let answered = tokio::time::timeout(Duration::from_millis(500), &mut step).await;
                    assert!(answered.is_err(), "{call} was answered by a frozen daemon");
                    site.service("libvirtd stop");
                    let answer = step.await.unwrap().answer;
                    site.service("libvirtd start");
                    return answer.err().unwrap();
                }
                Err(Ok(Created::Pending(step))) => self.stage.wait(step.poll).await,
                Err(other) => panic!("it ended before {call}: {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn a_daemon_that_dies_in_the_middle_of_a_call_costs_the_step_and_no_more() {
    for call in ["libvirt.volume-create", "libvirt.volume-upload", "libvirt.define", "libvirt.start"] {
        println!("{call}:");
        let mut tried = Tried::new(&KVM2, json!({})).await;
        let error = tried.create_dies_in(call).await;
        says(&tried.site, &error, ErrorClass::Transient, "unreachable", &["has ended"]);
        tried.make().await;
        tried.ends_well().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn a_daemon_that_dies_under_an_image_costs_the_transfer_and_no_more() {
    let mut tried = Tried::new(&KVM2, json!({})).await;
    tried.images.slow(true);
    tried.create_says("downloading tiny").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    tried.site.service("libvirtd stop");
    let error = tried.create_fails().await;
    tried.site.service("libvirtd start");
    tried.images.slow(false);
    says(&tried.site, &error, ErrorClass::Transient, &error.reason, &[]);
    tried.make().await;
    assert_eq!(tried.images.sent(), 2, "the image is fetched anew");
    tried.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn a_frozen_host_costs_each_call_its_time_and_the_machine_nothing() {
    let timeouts = json!({ "timeouts": { "connectMs": 1000, "callMs": 1000 } });
    let mut tried = Tried::new(&KVM2, timeouts).await;
    tried.make().await;
    let site = tried.site.clone();
    for what in ["libvirtd freeze", "sshd freeze"] {
        site.service(what);
    }
    let get = tried.host.get(&tried.proxy).await.unwrap();
    let health = tried.host.check(&site.name).await.unwrap();
    let delete = tried.host.delete_step(&mut tried.proxy).await.unwrap();
    for what in ["sshd thaw", "libvirtd thaw"] {
        site.service(what);
    }
    for took in [get.took, health.took, delete.took] {
        assert!(took < Duration::from_secs(15), "it held its caller for {took:?}");
    }
    says(&site, &get.answer.unwrap_err(), ErrorClass::Transient, "timeout", &["1000 ms"]);
    says(&site, &delete.answer.unwrap_err(), ErrorClass::Transient, "timeout", &["1000 ms"]);
    let health = health.answer.unwrap();
    println!("  check: {} {}", health.reason, health.message);
    assert!(!health.ready && ["timeout", "unreachable"].contains(&health.reason.as_str()), "{health:?}");
    let shown = tried.host.get(&tried.proxy).await.unwrap().answer.unwrap();
    assert!(matches!(shown.state, State::Provisioning | State::Running), "{shown:?}");
    tried.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn a_full_pool_is_told_apart_before_and_in_the_middle_of_an_image() {
    let mut tried = Tried::new(&KVM2, json!({})).await;
    let site = tried.site.clone();
    let backend = tried.stage.world().backend.clone();
    backend.impose(Condition::Full).await.unwrap();
    let error = tried.create_fails().await;
    backend.lift(Condition::Full).await.unwrap();
    says(&site, &error, ErrorClass::QuotaExceeded, "quota", &["default", "make room"]);

    // One of known length has its room from the beginning, and what comes next finds none; another gets it as it comes.
    for lengthless in [false, true] {
        tried.images.lengthless(lengthless);
        tried.images.slow(true);
        tried.create_says("downloading tiny").await;
        let filler = "/var/lib/libvirt/images/filler";
        site.run(&format!("cat /dev/zero >{filler} 2>/dev/null || true"));
        let error = tried.create_fails().await;
        site.run(&format!("rm {filler} && virsh --quiet pool-refresh default"));
        tried.images.slow(false);
        says(&site, &error, ErrorClass::QuotaExceeded, "quota", &["make room"]);
        tried.host.collect_all().await.unwrap();
        tried.proxy.progress = None;
    }
    tried.mended().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn a_domain_that_somebody_redefined_is_nobodys_until_it_has_its_mark_back() {
    let mut tried = Tried::new(&KVM2, json!({})).await;
    tried.make().await;
    let (site, name) = (tried.site.clone(), tried.name());
    // A running one has the definition that it was started with until it ends.
    site.run(&format!("virsh dumpxml --inactive {name} >/tmp/before && virsh --quiet destroy {name}"));
    site.run(
        "sed '/<metadata>/,/<.metadata>/d' /tmp/before >/tmp/without && virsh --quiet define /tmp/without",
    );
    let before = tried.stage.inventory().await.unwrap();
    for error in [
        tried.host.create_step(&mut tried.proxy).await.unwrap().answer.err(),
        tried.host.get(&tried.proxy).await.unwrap().answer.err(),
        tried.host.delete_step(&mut tried.proxy).await.unwrap().answer.err(),
    ] {
        says(&site, &error.unwrap(), ErrorClass::Permanent, "foreign", &[&name, "give it back its metadata"]);
    }
    assert_eq!(tried.stage.inventory().await.unwrap(), before, "nothing is touched");
    // Something else of it may be another: it is the same machine.
    site.run("sed 's/<.metadata>/&<title>by hand<\\/title>/' /tmp/before >/tmp/titled && virsh --quiet define /tmp/titled");
    tried.make().await;
    tried.ends_well().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs real libvirt hosts: make libvirt"]
async fn volumes_that_somebody_deleted_are_made_again_before_the_next_start() {
    for volume in [".qcow2", "-seed.iso"] {
        let mut tried = Tried::new(&KVM2, json!({})).await;
        tried.make().await;
        let (site, name) = (tried.site.clone(), tried.name());
        site.run(&format!("virsh --quiet destroy {name} && virsh --quiet vol-delete {name}{volume} default"));
        tried.create_says("its volumes are looked after").await;
        tried.make().await;
        let found = site.run("ls /var/lib/libvirt/images");
        assert!(found.contains(&format!("{name}{volume}")), "{found}");
        let deleted = tried.host.delete_step(&mut tried.proxy).await.unwrap().answer;
        assert_eq!(deleted.unwrap(), Deleted::Done);
        tried.ends_well().await;
    }
}
