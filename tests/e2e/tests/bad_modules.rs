//! Whatever somebody puts where a provider should be: the revision before goes on, people are told what and
//! why, and a good one is taken up afterwards.

use std::time::{Duration, SystemTime};

use egress_operator::api::{ActiveRevision, RefusalStatus};
use k8s_openapi::{api::events::v1::Event, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use crate::harness::{
    Budget, Lab, Site, Wanted, another_build, eventually, kubernetes_provider, misbehaving,
    misbehaving_from_the_start, slow_to_compile, with_text,
};

/// What a component may unpack to.
const MOST: usize = 64 << 20;

/// What is put there, and how it is refused.
struct Bad {
    what: &'static str,
    raw: Vec<u8>,
    /// Of the entry; the site's own where none.
    config: Option<Value>,
    stage: &'static str,
    reason: &'static str,
}

fn packed(component: &[u8]) -> Vec<u8> {
    zstd::encode_all(component, 3).unwrap()
}

fn all() -> Vec<Bad> {
    let good = kubernetes_provider();
    let raw = |what, raw, stage, reason| Bad { what, raw, config: None, stage, reason };
    let early = |what, early, reason| {
        let raw = packed(&misbehaving_from_the_start(early));
        Bad { what, raw, config: Some(json!({})), stage: "configure", reason }
    };
    let config = |what, config, stage, reason| Bad {
        what,
        raw: packed(&misbehaving()),
        config: Some(config),
        stage,
        reason,
    };
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() * 3 / 4].to_vec();
    let faults = json!({ "faults": ["namespaces[1]", "squid.allowedClients[0]"] });
    vec![
        raw("empty", Vec::new(), "fetch", "Empty"),
        raw("a broken zstd stream", cut(packed(&good)), "fetch", "BrokenStream"),
        raw("more than the limit", packed(&vec![0; MOST + 1]), "fetch", "TooLarge"),
        raw("not Wasm", b"apiVersion: v1\n".to_vec(), "parse", "NotWasm"),
        raw("a core module", b"\0asm\x01\0\0\0".to_vec(), "parse", "NotAComponent"),
        raw("truncated", packed(&cut(good.clone())), "parse", "Invalid"),
        raw(
            "another contract line",
            packed(&with_text(&good, "@0.1.0", "@0.2.0")),
            "parse",
            "ContractVersion",
        ),
        raw("a missing export", packed(&with_text(&good, "describe", "describf")), "parse", "ExportMissing"),
        raw("slow to compile", packed(&slow_to_compile(&good)), "compile", "CompileMemory"),
        early("a loop at the start", "start:loop", "LimitCompute"),
        early("a trap at the start", "start:trap", "Trapped"),
        early("hunger at the start", "start:eat", "LimitMemory"),
        config("a refused config", faults, "configure", "ConfigRefused"),
        config("a loop", json!({ "do": "loop", "in": "configure" }), "configure", "LimitCompute"),
        config("a trap", json!({ "do": "trap", "in": "configure" }), "configure", "Trapped"),
        config("hunger", json!({ "do": "eat", "in": "configure" }), "configure", "LimitMemory"),
        config("a trap in check", json!({ "do": "trap", "in": "check" }), "check", "Trapped"),
    ]
}

/// Enough for what is honest, on a machine that does other things too.
const COMPILE_TIME: [&str; 2] = ["--compile-time", "60s"];

/// The refusal of an entry, once it is this one.
async fn refusal(site: &Site, entry: &str, bad: &Bad) -> RefusalStatus {
    let what = format!("{} is refused", bad.what);
    let refusal = site.health(entry, &what, |status| {
        let refusal = status.refusal.as_ref()?;
        (refusal.stage == bad.stage && refusal.reason == bad.reason).then(|| refusal.clone())
    });
    refusal.await
}

async fn active(site: &Site, entry: &str) -> ActiveRevision {
    site.health(entry, "something is active", |status| status.active.clone()).await
}

/// Events about an entry of one reason, each as its note and how often it was told.
async fn told(site: &Site, entry: &str, reason: &str) -> Vec<(String, i32)> {
    let events: Api<Event> = Api::all(site.lab.client.clone());
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let about = |event: &Event| event.regarding.as_ref().and_then(|about| about.name.clone());
    all.into_iter()
        .filter(|event| about(event).as_deref() == Some(entry) && event.reason.as_deref() == Some(reason))
        .map(|event| (event.note.unwrap_or_default(), event.series.map_or(1, |series| series.count)))
        .collect()
}

/// Since a moment that the operator wrote down, by the clock that both share.
fn since(moment: Option<&Time>) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let then = moment.expect("a time").0.as_millisecond();
    now.saturating_sub(Duration::from_millis(u64::try_from(then).unwrap()))
}

/// What goes on meanwhile.
struct Revisions<'a> {
    /// Of the entry that the bad ones are put into.
    before: &'a str,
    /// The other entry, as its name and its text.
    other: (&'a str, &'a Value),
    others: &'a str,
}

/// Each is refused, and told so often by then: once a round.
async fn refuse_all(site: &Site, revisions: &Revisions<'_>, rounds: usize) {
    let (other, kept) = revisions.other;
    for bad in all() {
        let entry = match &bad.config {
            None => site.kubernetes_entry(),
            Some(config) => {
                let mut entry = site.misbehaving_entry(config.clone());
                entry["limits"] = json!({ "computeMs": 500, "memoryBytes": 16 << 20 });
                entry
            }
        };
        // The entry first: the module before is refused with any entry, but this one might be taken up with
        // the entry before.
        site.put_entries([(site.entry.as_str(), &entry), (other, kept)]).await;
        site.put_raw_module(&bad.raw).await;
        let refused = refusal(site, &site.entry, &bad).await;
        // The end of the stage is stored by the second.
        println!("{}: told {:?} after its stage", bad.what, since(refused.at.as_ref()));
        assert!(!refused.message.is_empty(), "{}", bad.what);
        if bad.reason == "ConfigRefused" {
            let faults = refused.faults.join("\n");
            assert!(
                faults.contains("namespaces[1]") && faults.contains("squid.allowedClients[0]"),
                "{faults}"
            );
        }
        assert_eq!(active(site, &site.entry).await.revision, revisions.before, "{}", bad.what);
        assert_eq!(active(site, other).await.revision, revisions.others, "{}", bad.what);
        let events = told(site, &site.entry, "Refused").await;
        let of_this = events.iter().filter(|(note, _)| note.contains(&refused.message));
        let count: i32 = of_this.map(|(_, count)| count).sum();
        assert_eq!(usize::try_from(count).unwrap(), rounds, "{}: {events:#?}", bad.what);
        println!("{}: {}: {}", bad.what, refused.reason, refused.message);
    }
    // The last one is bad with its own config only; what comes next must not find it.
    let raw = b"\x1f\x8bcut".to_vec();
    site.put_raw_module(&raw).await;
    let bad = Bad { what: "a cut gzip stream", raw, config: None, stage: "fetch", reason: "BrokenStream" };
    refusal(site, &site.entry, &bad).await;
}

#[tokio::test]
async fn each_leaves_the_revision_before_and_the_other_entries_alone() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "bad", 1).await;
    let other = format!("{}-other", site.entry);
    let good = kubernetes_provider();
    site.put_module(&good).await;
    // The other entry has the module out of a ConfigMap of its own, and keeps it.
    site.put_module_as("other", &another_build(&good, "other")).await;
    let mut kept = site.kubernetes_entry();
    kept["module"]["configMap"]["name"] = json!("other");
    let good_entry = site.kubernetes_entry();
    site.put_entries([(site.entry.as_str(), &good_entry), (&other, &kept)]).await;
    let mut epo = site.start(&COMPILE_TIME).await;
    let before = active(&site, &site.entry).await.revision;
    let others = active(&site, &other).await.revision;
    site.create(0, "before", Wanted::default()).await;
    site.ready(0, "before").await;

    let revisions = Revisions { before: &before, other: (&other, &kept), others: &others };
    // The first round fills what a process keeps: threads, stacks, the allocator's arenas.
    refuse_all(&site, &revisions, 1).await;
    let first = epo.resident_kib();
    for round in 2..=(Budget { usual: 2, soak: 6 }.get()) {
        refuse_all(&site, &revisions, round).await;
        eventually("the memory is back", async || {
            let now = epo.resident_kib();
            println!("round {round}: {now} KiB, {first} KiB after the first one");
            if now <= first * 11 / 10 { Ok(()) } else { Err(format!("{now} KiB, {first} KiB before")) }
        })
        .await;
    }

    // The old revision still makes, finds and removes.
    site.put_entries([(site.entry.as_str(), &good_entry), (&other, &kept)]).await;
    site.create(0, "between", Wanted { entry: Some(other.clone()), ..Wanted::default() }).await;
    site.ready(0, "between").await;
    let next = another_build(&good, "next");
    site.put_module(&next).await;
    assert_ne!(site.active(&next).await, before);
    site.create(0, "after", Wanted::default()).await;
    for name in ["before", "between", "after"] {
        site.ready(0, name).await;
        site.delete(0, name).await;
    }
    epo.assert_running();
}

#[tokio::test]
async fn at_the_first_load_there_is_no_revision_and_the_other_entries_start() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "badstart", 1).await;
    let entries: Vec<String> =
        ["good", "raw", "yaml", "nogrant"].map(|name| format!("{}-{name}", site.entry)).into();
    let [good, raw, yaml, nogrant] = entries.as_slice() else { unreachable!() };
    site.put_module(&kubernetes_provider()).await;
    site.put_module_as("raw", b"no component").await;
    let good_entry = site.kubernetes_entry();
    let mut raw_entry = site.kubernetes_entry();
    raw_entry["module"]["configMap"]["name"] = json!("raw");
    let mut nogrant_entry = site.kubernetes_entry();
    nogrant_entry.as_object_mut().unwrap().remove("grants");
    let unreadable = json!({ "modul": {}, "limits": { "memoryByte": 1 } });
    site.put_entries([
        (good.as_str(), &good_entry),
        (raw.as_str(), &raw_entry),
        (yaml.as_str(), &unreadable),
        (nogrant.as_str(), &nogrant_entry),
    ])
    .await;
    let _epo = site.start(&[]).await;
    active(&site, good).await;
    for (entry, stage, reason) in
        [(raw, "parse", "NotWasm"), (yaml, "entry", "EntryInvalid"), (nogrant, "link", "ImportNotGranted")]
    {
        let bad = Bad { what: "a bad start", raw: Vec::new(), config: None, stage, reason };
        let refused = refusal(&site, entry, &bad).await;
        println!("{entry}: {}", refused.message);
        assert!(site.health(entry, "nothing is active", |status| Some(status.active.is_none())).await);
    }
    site.create(0, "web", Wanted { entry: Some(good.clone()), ..Wanted::default() }).await;
    site.ready(0, "web").await;
    // And what was bad is mended without a restart.
    site.put_module_as("raw", &another_build(&kubernetes_provider(), "mended")).await;
    active(&site, raw).await;
    site.delete(0, "web").await;
}

#[tokio::test]
async fn a_start_does_not_depend_on_its_sources() {
    let lab = Lab::new().await;
    let site = Site::new(&lab, "kept", 1).await;
    site.put_module(&kubernetes_provider()).await;
    site.put_entry(&site.kubernetes_entry()).await;
    let epo = site.start(&[]).await;
    let before = site.active(&kubernetes_provider()).await;
    site.create(0, "web", Wanted::default()).await;
    site.ready(0, "web").await;
    // Kept, before it is needed.
    eventually("the revision is kept", async || {
        let maps = site.system.api::<k8s_openapi::api::core::v1::ConfigMap>();
        let kept = maps.get_opt(&format!("egress-revision-{}-{before}", site.entry)).await.unwrap();
        kept.map(drop).ok_or("not yet")
    })
    .await;
    epo.terminate().await;
    site.put_raw_module(b"no component").await;
    let _epo = site.start(&[]).await;
    let bad = Bad { what: "no component", raw: Vec::new(), config: None, stage: "parse", reason: "NotWasm" };
    refusal(&site, &site.entry, &bad).await;
    assert_eq!(active(&site, &site.entry).await.revision, before);
    site.create(0, "more", Wanted::default()).await;
    site.ready(0, "more").await;
    site.delete(0, "more").await;
    site.delete(0, "web").await;
}
