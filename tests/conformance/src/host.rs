//! A host with its component, and the operator's part: what is kept of an answer, and when to ask again.
//!
//! A process that dies takes a [`Host`] with it; what it had kept stands in the [`Proxy`].

use std::{sync::Arc, time::Duration};

use egress_contract::{
    Created, Deleted, Error, ErrorClass, Health, Instance, Item, Page, Pending, Provider, Target,
};
use egress_runtime::{Limits, Revision, capability::Clock};
use egress_sim::{
    backend::Backend,
    watched::{End, Watch},
};

use crate::{
    halt::{Go, Halt, broken},
    kind::World,
    proxy::{Proxy, target_of},
};

/// Reasons by which the host says that a component broke its bounds or the contract.
const UNLAWFUL: [&str; 10] = [
    "trap",
    "contract-violation",
    "limit-memory",
    "limit-tables",
    "limit-compute",
    "limit-host-calls",
    "limit-answer",
    "limit-transfer",
    "limit-request",
    "limit-response",
];
/// Steps after which nothing will come of it any more.
const MOST_STEPS: u32 = 200;
/// Pages after which a list has no end.
const MOST_PAGES: u32 = 2_000;
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// After a permanent failure the operator tries again, since nobody tells it what was mended.
const PERMANENT_REST: Duration = Duration::from_secs(3_600);

/// How one call of a provider went.
#[derive(Clone, Debug)]
pub struct Heard<T> {
    /// What it answered.
    pub answer: Result<T, Error>,
    /// Its number in the journal.
    pub number: u64,
    /// How long it took by the clock of the stage.
    pub took: Duration,
}

/// See the module.
pub struct Host {
    watch: Watch,
    revision: Arc<Revision>,
    clock: Arc<dyn Clock>,
    backend: Arc<dyn Backend>,
    longest_rest: Duration,
}

/// How long to go on with what does not come about.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Whether a permanent failure is tried again, as the operator does after an hour.
    pub through_permanent: bool,
    /// Steps at most.
    pub steps: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { through_permanent: false, steps: MOST_STEPS }
    }
}

impl Host {
    pub(crate) fn new(watch: Watch, revision: Arc<Revision>, world: &World) -> Self {
        let (clock, backend) = (Arc::clone(&world.clock), Arc::clone(&world.backend));
        Self { watch, revision, clock, backend, longest_rest: world.longest_rest }
    }

    /// Its eyes.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// What it runs.
    pub fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    fn limits(&self) -> &Limits {
        self.revision.limits()
    }

    async fn hear<T>(
        &self,
        export: &str,
        about: String,
        limit_ms: u64,
        call: impl Future<Output = Result<T, Error>>,
        told: impl FnOnce(&T) -> String,
    ) -> Go<Heard<T>> {
        let dead = |end| match end {
            End::Died => Halt::Died,
            End::Overran => Halt::Failed("a host was cut off between two calls".to_owned()),
            End::Differs => Halt::Failed("a host answers from a recording".to_owned()),
        };
        let number = tokio::select! {
            biased;
            number = self.watch.begin(export, about) => number,
            end = self.watch.ended() => return Err(dead(end)),
        };
        let before = self.clock.monotonic_ms();
        self.watch.bound(Some(Duration::from_millis(limit_ms)));
        let answer = tokio::select! {
            biased;
            answer = call => answer,
            end = self.watch.ended() => match end {
                End::Died | End::Differs => return Err(dead(end)),
                // What the real host says of it.
                End::Overran => Err(Error::transient("limit-time", format!("{export} reached its limit on time ({limit_ms} ms)"))),
            },
        };
        self.watch.bound(None);
        self.watch.revive();
        let took = Duration::from_millis(self.clock.monotonic_ms().saturating_sub(before));
        let outcome = match &answer {
            Ok(answer) => told(answer),
            Err(error) => failed(error),
        };
        tokio::select! {
            biased;
            () = self.watch.finish(number, outcome) => {}
            end = self.watch.ended() => return Err(dead(end)),
        }
        if let Err(error) = &answer
            && UNLAWFUL.contains(&error.reason.as_str())
        {
            return broken(format!("{export} broke its bounds ({}): {}", error.reason, error.message));
        }
        Ok(Heard { answer, number, took })
    }

    /// One step of create; what it answers is kept.
    pub async fn create_step(&self, proxy: &mut Proxy) -> Go<Heard<Created>> {
        let target = proxy.target();
        let call = self.revision.create(&target, &proxy.spec, &proxy.user_data);
        let told = |created: &Created| match created {
            Created::Done(id) => format!("done, id {id}"),
            Created::Pending(step) => pending(step),
        };
        let heard = self.hear("create", about(&target), self.limits().create_ms, call, told).await?;
        match &heard.answer {
            Ok(Created::Done(id)) => {
                proxy.id = Some(id.clone());
                proxy.progress = None;
            }
            Ok(Created::Pending(step)) => keep(proxy, step),
            Err(error) => keep_failure(proxy, error),
        }
        Ok(heard)
    }

    /// One step of delete; what it answers is kept.
    pub async fn delete_step(&self, proxy: &mut Proxy) -> Go<Heard<Deleted>> {
        let heard = self.delete_target(&proxy.target()).await?;
        match &heard.answer {
            Ok(Deleted::Done) => proxy.progress = None,
            Ok(Deleted::Pending(step)) => keep(proxy, step),
            Err(error) => keep_failure(proxy, error),
        }
        Ok(heard)
    }

    async fn delete_target(&self, target: &Target) -> Go<Heard<Deleted>> {
        let told = |deleted: &Deleted| match deleted {
            Deleted::Done => "done".to_owned(),
            Deleted::Pending(step) => pending(step),
        };
        self.hear("delete", about(target), self.limits().delete_ms, self.revision.delete(target), told).await
    }

    /// What the backend shows.
    pub async fn get(&self, proxy: &Proxy) -> Go<Heard<Instance>> {
        let target = proxy.target();
        let told = |instance: &Instance| {
            let ips: Vec<&str> = instance.addresses.iter().map(|address| address.ip.as_str()).collect();
            format!("{:?} {} {}", instance.state, ips.join(" "), instance.reason).trim_end().to_owned()
        };
        self.hear("get", about(&target), self.limits().get_ms, self.revision.get(&target), told).await
    }

    /// One page.
    pub async fn list_page(&self, place: &str, cursor: Option<&str>) -> Go<Heard<Page>> {
        let told = |page: &Page| {
            let unread = if page.unread.is_empty() {
                String::new()
            } else {
                format!(", unread: {}", page.unread.join("; "))
            };
            let more = if page.next.is_some() { ", and more" } else { "" };
            format!("{} items{unread}{more}", page.items.len())
        };
        let about = format!("{place}{}", if cursor.is_some() { " (next page)" } else { "" });
        self.hear("list", about, self.limits().list_ms, self.revision.list(place, cursor), told).await
    }

    /// A place's health.
    pub async fn check(&self, place: &str) -> Go<Heard<Health>> {
        let told = |health: &Health| {
            format!(
                "{} {}: {}",
                if health.ready { "ready" } else { "not ready" },
                health.reason,
                health.message
            )
        };
        self.hear("check", place.to_owned(), self.limits().check_ms, self.revision.check(place), told).await
    }

    /// Between two steps, as long as the operator would rest.
    async fn rest(&self, time: Duration) {
        self.backend.let_time_pass(time.min(self.longest_rest)).await;
    }

    /// A moment passes, as between two steps.
    pub async fn pause(&self) {
        self.rest(FIRST_BACKOFF).await;
    }

    /// Create until it is done, or fails in a way that waiting does not mend.
    pub async fn create(&self, proxy: &mut Proxy, patience: Patience) -> Go<Result<(), Error>> {
        let mut failures = 0;
        for _ in 0..patience.steps {
            let wait = match self.create_step(proxy).await?.answer {
                Ok(Created::Done(_)) => return Ok(Ok(())),
                Ok(Created::Pending(step)) => {
                    failures = 0;
                    step.poll
                }
                Err(error) => match rest(&error, &mut failures, patience) {
                    Some(wait) => wait,
                    None => return Ok(Err(error)),
                },
            };
            self.rest(wait).await;
        }
        broken(format!("create is not done after {} calls", patience.steps))
    }

    /// Create, which must come to its end.
    pub async fn make(&self, proxy: &mut Proxy) -> Go {
        match self.create(proxy, Patience::default()).await? {
            Ok(()) => Ok(()),
            Err(error) => broken(format!("create of {} failed: {}", proxy.name(), failed(&error))),
        }
    }

    /// Delete until it is done, or fails in a way that waiting does not mend.
    pub async fn delete(&self, proxy: &mut Proxy, patience: Patience) -> Go<Result<(), Error>> {
        let mut failures = 0;
        for _ in 0..patience.steps {
            let wait = match self.delete_step(proxy).await?.answer {
                Ok(Deleted::Done) => return Ok(Ok(())),
                Ok(Deleted::Pending(step)) => {
                    failures = 0;
                    step.poll
                }
                Err(error) => match rest(&error, &mut failures, patience) {
                    Some(wait) => wait,
                    None => return Ok(Err(error)),
                },
            };
            self.rest(wait).await;
        }
        broken(format!("delete is not done after {} calls", patience.steps))
    }

    /// Delete, which must come to its end.
    pub async fn unmake(&self, proxy: &mut Proxy) -> Go {
        match self.delete(proxy, Patience::default()).await? {
            Ok(()) => Ok(()),
            Err(error) => broken(format!("delete of {} failed: {}", proxy.name(), failed(&error))),
        }
    }

    /// Every page of a place, as far as it can be read.
    pub async fn list_place(&self, place: &str) -> Go<Result<Listed, Error>> {
        let mut listed = Listed::default();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let page = match self.list_page(place, cursor.as_deref()).await?.answer {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            listed.items.extend(page.items);
            listed.unread.extend(page.unread);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(Ok(listed)),
            }
        }
        broken(format!("the list of {place} has no end: {MOST_PAGES} pages"))
    }

    /// Every page of every place, which must all be read.
    pub async fn list(&self) -> Go<Vec<Item>> {
        let mut items = Vec::new();
        for place in self.revision.places() {
            match self.list_place(place).await? {
                Ok(Listed { unread, .. }) if !unread.is_empty() => {
                    return broken(format!("a part of {place} was not read: {}", unread.join("; ")));
                }
                Ok(listed) => items.extend(listed.items),
                Err(error) => return broken(format!("list of {place} failed: {}", failed(&error))),
            }
        }
        Ok(items)
    }

    /// What the collector does about something that no Proxy owns.
    pub async fn collect(&self, item: &Item) -> Go {
        let Some(target) = target_of(item) else {
            return broken(format!("an item's name {:?} is none of ours", item.name));
        };
        let mut proxy = Proxy {
            id: target.id.clone(),
            progress: None,
            ..Proxy::new(crate::proxy::OURS, &target.namespace, &target.proxy, 0)
        };
        let mut failures = 0;
        for _ in 0..MOST_STEPS {
            let now = Target { id: proxy.id.clone(), progress: proxy.progress.clone(), ..target.clone() };
            let wait = match self.delete_target(&now).await?.answer {
                Ok(Deleted::Done) => return Ok(()),
                Ok(Deleted::Pending(step)) => {
                    keep(&mut proxy, &step);
                    step.poll
                }
                Err(error) => match rest(&error, &mut failures, Patience::default()) {
                    Some(wait) => wait,
                    None => return broken(format!("collecting {} failed: {}", item.name, failed(&error))),
                },
            };
            self.rest(wait).await;
        }
        broken(format!("collecting {} is not done after {MOST_STEPS} calls", item.name))
    }

    /// Collects whatever is listed.
    pub async fn collect_all(&self) -> Go {
        for item in self.list().await? {
            self.collect(&item).await?;
        }
        Ok(())
    }
}

/// What was read of a place.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// What was found.
    pub items: Vec<Item>,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// A failure in one line.
pub fn failed(error: &Error) -> String {
    format!("{} {}: {}", error.class.as_str(), error.reason, error.message)
}

fn pending(step: &Pending) -> String {
    format!("pending {} ms: {}", step.poll.as_millis(), step.message)
}

fn about(target: &Target) -> String {
    let mut about = target.name.to_string();
    for (what, value) in [("id", &target.id), ("progress", &target.progress)] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            about = format!("{about} {what}={value}");
        }
    }
    about
}

fn keep(proxy: &mut Proxy, step: &Pending) {
    if let Some(id) = &step.id {
        proxy.id = Some(id.clone());
    }
    proxy.progress = Some(step.progress.clone());
}

fn keep_failure(proxy: &mut Proxy, error: &Error) {
    if let Some(progress) = &error.progress {
        proxy.progress = Some(progress.to_string()).filter(|progress| !progress.is_empty());
    }
}

/// When the operator asks again; none when it leaves it at that.
fn rest(error: &Error, failures: &mut u32, patience: Patience) -> Option<Duration> {
    *failures += 1;
    match error.class {
        ErrorClass::Permanent if !patience.through_permanent => None,
        ErrorClass::Permanent => Some(PERMANENT_REST),
        ErrorClass::Transient | ErrorClass::NotFound | ErrorClass::QuotaExceeded => {
            let backoff = FIRST_BACKOFF * 2_u32.saturating_pow((*failures - 1).min(16));
            Some(error.retry_after.unwrap_or(backoff.min(LONGEST_BACKOFF)))
        }
    }
}
