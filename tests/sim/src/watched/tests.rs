//! The wrapper around a capability that counts how often it was asked.

use std::sync::atomic::AtomicU32;

use egress_runtime::capability::{KubernetesFailure, KubernetesFailureKind};
use serde_json::json;

use super::*;
use crate::{
    clock::{START_MS, VirtualClock},
    fault::Point,
    redactor::Redactor,
};

struct Host {
    watch: Watch,
    plan: Plan,
    clock: VirtualClock,
    effects: AtomicU32,
}

impl Host {
    fn new() -> Self {
        let (plan, clock) = (Plan::default(), VirtualClock::default());
        let watch = Watch::new("a", Journal::default(), plan.clone(), Arc::new(clock.clone()));
        Self { watch, plan, clock, effects: AtomicU32::new(0) }
    }

    fn with(self, beside: Beside) -> Self {
        let watch = Watch::with("a", Journal::default(), Arc::new(self.clock.clone()), beside);
        Self { watch, ..self }
    }

    async fn call(&self) -> Result<Value, KubernetesFailure> {
        self.call_that(Effect::Read).await
    }

    async fn call_that(&self, effect: Effect) -> Result<Value, KubernetesFailure> {
        let call = Call {
            capability: "kubernetes",
            function: "get",
            place: "home",
            about: "v1/pods a/b".to_owned(),
            effect,
        };
        let effect = async {
            self.effects.fetch_add(1, Ordering::SeqCst);
            Ok(json!({ "is": "there" }))
        };
        self.watch.call(call, || json!({ "cluster": "home" }), effect).await
    }

    fn effects(&self) -> u32 {
        self.effects.load(Ordering::SeqCst)
    }

    fn at(&self, number: u64, when: When, fault: Fault) {
        self.plan.at(Point { number, when }, fault);
    }
}

#[tokio::test]
async fn a_fault_stands_on_its_side_of_the_effect() {
    for fault in Fault::failures() {
        for when in When::BOTH {
            let host = Host::new();
            host.at(1, when, fault.clone());
            let answer = host.call().await;
            assert_eq!(host.effects(), u32::from(when == When::After), "{fault:?} {when:?}");
            assert!(answer.is_err() || fault == Fault::Garbage, "{fault:?}: {answer:?}");
            assert_eq!(host.call().await.unwrap(), json!({ "is": "there" }));
            let journal = host.watch.journal().to_string();
            assert!(journal.contains(&format!("!! {} {} -> ", fault.as_str(), when.as_str())), "{journal}");
        }
    }
}

#[tokio::test]
async fn a_dead_host_never_hears_an_answer_again() {
    for when in When::BOTH {
        let host = Host::new();
        host.at(1, when, Fault::Death);
        for _ in 0..2 {
            let end = tokio::select! {
                biased;
                answer = host.call() => panic!("{answer:?}"),
                end = host.watch.ended() => end,
            };
            assert_eq!(end, End::Died);
            host.watch.revive();
        }
        assert_eq!(host.effects(), u32::from(when == When::After), "the second call never began");
    }
}

#[tokio::test]
async fn a_host_stops_where_it_is_told_and_goes_on_when_it_is_let() {
    let host = Host::new();
    host.plan.stop_before(2);
    host.call().await.unwrap();
    let mut call = Box::pin(host.call());
    tokio::select! {
        biased;
        answer = &mut call => panic!("{answer:?}"),
        number = host.watch.stopped() => assert_eq!(number, 2),
    }
    assert_eq!(host.effects(), 1);
    host.watch.let_on();
    call.await.unwrap();
    assert_eq!(host.effects(), 2);
}

#[tokio::test]
async fn a_call_beyond_its_time_is_cut_off_and_the_host_goes_on() {
    let host = Host::new();
    host.watch.bound(Some(Duration::from_secs(60)));
    host.at(1, When::Before, Fault::Slow(Duration::from_secs(61)));
    let end = tokio::select! {
        biased;
        answer = host.call() => panic!("{answer:?}"),
        end = host.watch.ended() => end,
    };
    assert_eq!((end, host.clock.elapsed()), (End::Overran, Duration::from_secs(61)));
    host.watch.revive();
    host.watch.bound(None);
    host.call().await.unwrap();
}

#[tokio::test]
async fn a_recording_keeps_what_the_guest_was_told() {
    let host = Host::new();
    let recorder = Recorder::new(Redactor::default());
    let beside = Beside { recorder: Some(recorder.clone()), ..Beside::default() };
    let host = host.with(beside);
    host.call().await.unwrap();
    let [exchange] = &recorder.exchanges()[..] else { panic!("{:?}", recorder.exchanges()) };
    assert_eq!(exchange.answer, Answer::Answer(json!({ "is": "there" })));
    assert_eq!((exchange.capability.as_str(), exchange.function.as_str()), ("kubernetes", "get"));
}

#[tokio::test]
async fn a_host_that_may_only_read_sends_no_write_even_unseen() {
    let host = Host::new().with(Beside { read_only: true, ..Beside::default() });
    host.call().await.unwrap();
    for silent in [false, true] {
        host.watch.silence(silent);
        let denied = host.call_that(Effect::Write).await.unwrap_err();
        assert_eq!(denied.kind, KubernetesFailureKind::Denied, "{denied:?}");
        assert!(!denied.sent);
    }
    assert_eq!(host.effects(), 1);
    let journal = host.watch.journal().to_string();
    assert!(journal.contains("write home v1/pods a/b !! read-only -> denied"), "{journal}");
}

#[tokio::test]
async fn what_the_clock_showed_is_recorded_and_shown_again() {
    let host = Host::new();
    host.clock.advance(Duration::from_secs(5));
    let recorder = Recorder::default();
    let host = host.with(Beside { recorder: Some(recorder.clone()), ..Beside::default() });
    let clock = |watch: &Watch| Watched::<dyn Clock>::new(watch.clone(), Arc::new(host.clock.clone()));
    let read = async |clock: Watched<dyn Clock>, host: &Host| {
        let before = (clock.now_ms(), clock.monotonic_ms());
        host.call().await.unwrap();
        clock.sleep(Duration::from_millis(40)).await;
        (before, clock.now_ms(), clock.monotonic_ms())
    };
    let recorded = read(clock(&host.watch), &host).await;
    assert_eq!((recorded.0.1, recorded.2), (0, 40), "from the beginning of the recording");

    let player = Player::new(Redactor::default(), START_MS);
    player.begin(0, recorder.take());
    let again = Host::new().with(Beside { player: Some(player), ..Beside::default() });
    again.clock.advance(Duration::from_secs(500));
    let clock = Watched::<dyn Clock>::new(again.watch.clone(), Arc::new(again.clock.clone()));
    assert_eq!(read(clock, &again).await, recorded);
    assert_eq!(again.effects(), 0, "nobody was asked");
}

#[test]
fn answers_and_failures_come_back_from_a_recording() {
    for fault in Fault::failures() {
        let failure = KubernetesFailure::of(&fault, When::Before, "home").unwrap();
        assert_eq!(KubernetesFailure::from_json(&failure.to_json()).unwrap(), failure);
    }
}
