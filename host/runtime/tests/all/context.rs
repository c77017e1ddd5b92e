//! What the host tells a guest about itself, its target, and marks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use egress_contract::{Installation, Mark, Provider, Target};
use egress_runtime::{Candidate, Lent, Limits, capability::Clock};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    support::{INSTALLATION, candidate_at, slot, spec, target, target_of},
};

fn legacy() -> Vec<Mark> {
    vec![vec![
        ("managed-by".to_owned(), "egress-proxies-operator".to_owned()),
        ("environment".to_owned(), "prod".to_owned()),
    ]]
}

/// What the guest sees in `get` of this target.
async fn seen(target: &Target, mark: &Mark) -> Value {
    let candidate = Candidate {
        legacy: legacy(),
        ..candidate_at(Arc::new(Cluster::default()), json!({ "verify": mark }))
    };
    let revision = slot().load(candidate).await.unwrap();
    revision.create(target, &spec(), b"").await.unwrap();
    revision.get(target).await.unwrap().details
}

async fn verdict(target: &Target, mark: &Mark) -> String {
    seen(target, mark).await["verdict"].as_str().unwrap().to_owned()
}

fn mark_of(installation: &str, target: &Target, incarnation: u32) -> Mark {
    Installation::new(installation).mark(&target.uid, incarnation, &target.namespace, &target.proxy)
}

#[tokio::test]
async fn only_installation_uid_and_incarnation_together_are_this_target() {
    let target = target();
    let ours = mark_of(INSTALLATION, &target, 1);
    assert_eq!(verdict(&target, &ours).await, "Verdict::ThisTarget");
    let shuffled: Mark = ours.iter().rev().cloned().chain([("noise".to_owned(), "x".to_owned())]).collect();
    assert_eq!(verdict(&target, &shuffled).await, "Verdict::ThisTarget");
    for other in [mark_of(INSTALLATION, &target, 2), mark_of(INSTALLATION, &target_of("other"), 1)] {
        assert_eq!(verdict(&target, &other).await, "Verdict::ThisInstallation");
    }
    assert_eq!(verdict(&target, &mark_of("another", &target, 1)).await, "Verdict::Foreign");
    assert_eq!(verdict(&target, &Mark::new()).await, "Verdict::Foreign");
}

#[tokio::test]
async fn a_mark_that_contradicts_itself_is_foreign() {
    let target = target();
    let mut mark = mark_of(INSTALLATION, &target, 1);
    mark.push(("installation".to_owned(), "others".to_owned()));
    assert_eq!(verdict(&target, &mark).await, "Verdict::Foreign");
    let mut mark = mark_of(INSTALLATION, &target, 1);
    mark.push(("uid".to_owned(), "another".to_owned()));
    assert_eq!(verdict(&target, &mark).await, "Verdict::ThisInstallation");
}

#[tokio::test]
async fn an_earlier_operators_mark_counts_only_whole() {
    let [whole] = <[Mark; 1]>::try_from(legacy()).unwrap();
    assert_eq!(verdict(&target(), &whole).await, "Verdict::Legacy");
    let half: Mark = whole.into_iter().take(1).collect();
    assert_eq!(verdict(&target(), &half).await, "Verdict::Foreign");
}

#[tokio::test]
async fn what_bore_no_mark_is_no_target_and_has_none_to_write() {
    let target = Target { uid: String::new(), incarnation: 0, ..target() };
    let seen = seen(&target, &mark_of(INSTALLATION, &target, 0)).await;
    assert_eq!(seen["verdict"], "Verdict::ThisInstallation");
    assert_eq!(seen["mark"], json!([]));
}

#[tokio::test]
async fn a_guest_knows_entry_installation_and_the_mark_to_write() {
    let seen = seen(&target(), &Mark::new()).await;
    let installation = Installation::new(INSTALLATION);
    assert_eq!(seen["entry"], "test");
    assert_eq!(seen["installation"], installation.hash());
    assert_eq!(seen["installationMark"], json!(installation.installation_mark()));
    assert_eq!(seen["mark"], json!(mark_of(INSTALLATION, &target(), 1)));
}

/// Time that passes only while somebody sleeps.
#[derive(Default)]
struct Virtual(AtomicU64);

#[async_trait::async_trait]
impl Clock for Virtual {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    async fn sleep(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn time_can_be_lent() {
    let config = json!({ "do": "sleep", "in": "get", "n": 20_000 });
    let candidate = candidate_at(Arc::new(Cluster::default()), config);
    let clock: Arc<dyn Clock> = Arc::new(Virtual::default());
    let candidate = Candidate {
        lent: Lent { clock: Some(clock.clone()), ..candidate.lent },
        limits: Limits { get_ms: 30_000, ..Limits::default() },
        ..candidate
    };
    let revision = slot().load(candidate).await.unwrap();
    revision.create(&target(), &spec(), b"").await.unwrap();
    let instance = revision.get(&target()).await.unwrap();
    assert_eq!(instance.details["remainingMs"], 10_000);
    assert_eq!(clock.now_ms(), 20_000);
}
