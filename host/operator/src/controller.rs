//! The loop over all Proxies: takes the one that is due, and lets it have a pass.
//!
//! Each pass is a task of its own: a guest that computes holds no other one, and one that panics ends alone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::{
    core::{
        lease::Leadership,
        reconcile::{Next, Reconciler},
        store::{Providers, ProxyKey, Store},
    },
    proxies::Change,
    queue::Queue,
    waiting::Waiting,
};

/// After a pass that broke down.
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// What a controller looks at.
pub struct Inlets {
    /// From the watches of Proxies.
    pub proxies: mpsc::Receiver<Change>,
    /// Entries whose calls go elsewhere.
    pub entries: mpsc::Receiver<String>,
    /// How many watches there are.
    pub watches: usize,
    /// Whether this process is to look after Proxies.
    pub leadership: Leadership,
}

/// The loop.
pub struct Controller<S, P> {
    reconciler: Arc<Reconciler<S, P>>,
    waiting: Arc<Waiting>,
    concurrency: usize,
    queue: Queue,
    passes: JoinSet<Next>,
    running: HashMap<Id, ProxyKey>,
    /// Whom this process has not looked at since it leads; none once it has seen all.
    unseen: Option<HashSet<ProxyKey>>,
    /// Watches that have not told all their Proxies.
    unlisted: usize,
}

impl<S: Store + 'static, P: Providers + 'static> Controller<S, P> {
    /// `waiting` is what the reconciler's store notes; `concurrency` counts passes at once.
    pub fn new(reconciler: Reconciler<S, P>, waiting: Arc<Waiting>, concurrency: u16) -> Self {
        Self {
            reconciler: Arc::new(reconciler),
            waiting,
            concurrency: concurrency.max(1).into(),
            queue: Queue::default(),
            passes: JoinSet::new(),
            running: HashMap::new(),
            unseen: None,
            unlisted: 0,
        }
    }

    /// Until the token is cancelled, and then until the passes in flight have ended; or until nobody tells
    /// anything any more. Without the lead it keeps a list of who is due, and no more. `listed` is called for each watch that has told all its Proxies.
    pub async fn run(mut self, mut inlets: Inlets, stop: CancellationToken, listed: impl Fn()) {
        let mut term = None;
        self.unlisted = inlets.watches;
        loop {
            let leads = *inlets.leadership.borrow_and_update();
            if leads != term && leads.is_some() {
                // What is remembered of them is from before somebody else had them.
                self.reconciler.begin_anew();
                self.queue.hurry(Instant::now());
                self.unseen = Some(self.queue.keys());
                self.seen_all();
            }
            term = leads;
            if term.is_some() {
                self.begin_passes();
            }
            let room = term.is_some() && self.passes.len() < self.concurrency;
            let next = if room { self.queue.next() } else { None };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = self.passes.join_next_with_id() => self.ended(ended),
                changed = inlets.leadership.changed() => if changed.is_err() { break },
                entry = inlets.entries.recv() => match entry {
                    Some(entry) => self.wake(&entry),
                    None => break,
                },
                change = inlets.proxies.recv() => match change {
                    Some(Change::Due(key)) => {
                        self.unseen.iter_mut().filter(|_| self.unlisted > 0).for_each(|unseen| {
                            unseen.insert(key.clone());
                        });
                        self.queue.ask(key, Instant::now());
                    }
                    Some(Change::Gone(key)) => self.forget(&key),
                    Some(Change::Listed) => {
                        self.unlisted = self.unlisted.saturating_sub(1);
                        self.seen_all();
                        listed();
                    }
                    None => break,
                },
                () = until(next) => {}
            }
        }
        while self.passes.join_next().await.is_some() {}
    }

    fn begin_passes(&mut self) {
        let now = Instant::now();
        while self.passes.len() < self.concurrency {
            let Some(key) = self.queue.take(now) else { return };
            let (reconciler, of) = (Arc::clone(&self.reconciler), key.clone());
            let pass = self.passes.spawn(async move { reconciler.reconcile(&of).await });
            self.running.insert(pass.id(), key);
        }
    }

    fn ended(&mut self, ended: Result<(Id, Next), JoinError>) {
        let (id, next) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let proxy = self.running.get(&error.id()).map(ToString::to_string);
                error!(proxy, %error, "a pass broke down; this is a fault of the operator");
                (error.id(), Next::Requeue(AFTER_PANIC))
            }
        };
        let Some(key) = self.running.remove(&id) else { return };
        let now = Instant::now();
        let next = match next {
            Next::Requeue(after) => now.checked_add(after),
            Next::Wait => None,
        };
        self.seen(&key);
        self.queue.ended(key, next, now);
        for key in self.reconciler.take_turns() {
            self.queue.ask(key, now);
        }
    }

    fn seen(&mut self, key: &ProxyKey) {
        if self.unseen.as_mut().is_some_and(|unseen| unseen.remove(key)) {
            self.seen_all();
        }
    }

    /// Once everybody was looked at, it is known who is being replaced.
    fn seen_all(&mut self) {
        if self.unlisted == 0 && self.unseen.as_ref().is_some_and(HashSet::is_empty) {
            self.unseen = None;
            self.reconciler.seen_all();
        }
    }

    fn wake(&mut self, entry: &str) {
        let now = Instant::now();
        for key in self.waiting.for_entry(entry) {
            self.queue.ask(key, now);
        }
        // A pass that looked at the entry before this may note its wait only after it.
        self.queue.ask_running();
    }

    fn forget(&mut self, key: &ProxyKey) {
        self.seen(key);
        self.queue.forget(key);
        self.waiting.forget(key);
        self.reconciler.forget(key);
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use egress_contract::Installation;
    use tokio::{
        sync::{Semaphore, watch},
        task::JoinHandle,
    };

    use super::*;
    use crate::{
        api::ProxyStatus,
        core::{
            backoff::{Dice, Pace},
            clock::SystemClock,
            probe::Fleet,
            reconcile::Setup,
            store::{ActiveProvider, Inactive, Notice, ProxyRecord, StoreError, UserDataError},
        },
    };

    /// A store whose reads wait at a gate, and find nothing.
    struct Gate {
        open: Semaphore,
        reads: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Store for Gate {
        async fn get(&self, key: &ProxyKey) -> Result<Option<ProxyRecord>, StoreError> {
            self.reads.lock().unwrap().push(key.name.clone());
            assert_ne!(key.name, "bad", "as a fault of the operator would");
            self.open.acquire().await.unwrap().forget();
            Ok(None)
        }

        async fn write_status(&self, _: &ProxyRecord, _: ProxyStatus) -> Result<ProxyRecord, StoreError> {
            unreachable!()
        }

        async fn set_finalizer(&self, _: &ProxyRecord, _: bool) -> Result<Option<ProxyRecord>, StoreError> {
            unreachable!()
        }

        async fn user_data(&self, _: &ProxyRecord) -> Result<Vec<u8>, UserDataError> {
            unreachable!()
        }

        async fn is_kind_going(&self, _: &ProxyRecord) -> Result<bool, StoreError> {
            unreachable!()
        }

        async fn notify(&self, _: &ProxyRecord, _: Notice) {}
    }

    struct NoProviders;

    impl Providers for NoProviders {
        fn active(&self, _: &str) -> Result<ActiveProvider, Inactive> {
            Err(Inactive::Starting)
        }
    }

    struct Running {
        gate: Arc<Gate>,
        proxies: mpsc::Sender<Change>,
        _entries: mpsc::Sender<String>,
        leads: watch::Sender<Option<u32>>,
        stop: CancellationToken,
        task: JoinHandle<()>,
    }

    impl Running {
        fn new(concurrency: u16) -> Self {
            let gate = Arc::new(Gate { open: Semaphore::new(0), reads: Mutex::default() });
            let setup = Setup {
                installation: Installation::new("installation"),
                pace: Pace::default(),
                clock: Arc::new(SystemClock),
                dice: Dice::seeded(1),
                fleet: Arc::new(Fleet::new(Dice::seeded(2))),
            };
            let reconciler = Reconciler::new(Arc::clone(&gate), NoProviders, setup);
            let controller = Controller::new(reconciler, Arc::default(), concurrency);
            let (proxies, told) = mpsc::channel(16);
            let (entries, changed) = mpsc::channel(16);
            let stop = CancellationToken::new();
            let leads = watch::Sender::new(Some(1));
            let inlets =
                Inlets { proxies: told, entries: changed, watches: 1, leadership: leads.subscribe() };
            let task = tokio::spawn(controller.run(inlets, stop.clone(), || ()));
            Self { gate, proxies, _entries: entries, leads, stop, task }
        }

        async fn due(&self, name: &str) {
            let key = ProxyKey { namespace: "a".to_owned(), name: name.to_owned() };
            self.proxies.send(Change::Due(key)).await.unwrap();
        }

        /// What was read once everything that can happen has happened.
        async fn reads(&self) -> Vec<String> {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            self.gate.reads.lock().unwrap().clone()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_passes_run_at_once_than_allowed() {
        let running = Running::new(2);
        for name in ["one", "two", "three"] {
            running.due(name).await;
        }
        assert_eq!(running.reads().await, ["one", "two"]);
        running.gate.open.add_permits(1);
        assert_eq!(running.reads().await, ["one", "two", "three"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_begins_nothing_new_and_lets_what_is_in_flight_end() {
        let running = Running::new(2);
        running.due("one").await;
        assert_eq!(running.reads().await, ["one"]);
        running.stop.cancel();
        running.due("two").await;
        assert_eq!(running.reads().await, ["one"]);
        assert!(!running.task.is_finished(), "a pass is in flight");
        running.gate.open.add_permits(1);
        running.task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_lead_no_pass_begins_and_with_it_all_that_were_told_of_are_due() {
        let running = Running::new(8);
        running.leads.send_replace(None);
        running.due("one").await;
        running.due("two").await;
        assert_eq!(running.reads().await, [""; 0]);
        running.leads.send_replace(Some(2));
        assert_eq!(running.reads().await, ["one", "two"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_breaks_down_harms_no_other_and_comes_again_later() {
        let running = Running::new(1);
        running.due("bad").await;
        running.due("good").await;
        assert_eq!(running.reads().await, ["bad", "good"]);
        running.gate.open.add_permits(1);
        tokio::time::sleep(AFTER_PANIC).await;
        assert_eq!(running.reads().await, ["bad", "good", "bad"]);
    }
}
