//! What people are told: a Notice for each transition, none for a pass that changes nothing.
//!
//! Derived from the status before and after a write that went through, so a repeated pass, a restart or a
//! second host tells nothing twice.

use egress_contract::ErrorClass;

use crate::{
    api::{ABANDON_ANNOTATION, Failure, Phase, ProxyStatus},
    core::{
        conditions::{HEALTHY, UNIQUE, bounded},
        store::{Notice, ProxyRecord},
    },
};

/// Transient failures in a row that are worth a word.
const WORTH_A_WORD: u32 = 3;

/// A reason that somebody must act on, though it is transient.
pub const USER_DATA_MISSING: &str = "user-data-missing";

/// What a change of the status means to people.
pub fn notices(record: &ProxyRecord, after: &ProxyStatus) -> Vec<Notice> {
    let before = &record.status;
    let entered = |phase| before.phase != Some(phase) && after.phase == Some(phase);
    let message = after.message.as_deref().unwrap_or_default();
    let mut notices = Vec::new();
    let marked = |status: &ProxyStatus| status.instance.as_ref().is_some_and(|i| i.deleting);
    if marked(after) && !marked(before) {
        notices.push(normal(if record.deleting { "Deleting" } else { "Replacing" }, message));
    }
    if entered(Phase::Running) {
        notices.push(normal("Running", message));
    }
    if entered(Phase::Stopped) {
        notices.push(warning("Stopped", message));
    }
    if entered(Phase::Waiting) {
        notices.push(warning("ProviderMissing", message));
    }
    notices.extend(of_health(before, after));
    notices.extend(after.failure.as_ref().and_then(|failure| of_failure(before.failure.as_ref(), failure)));
    notices
}

/// What probes found.
fn of_health(before: &ProxyStatus, after: &ProxyStatus) -> Vec<Notice> {
    let turned = |kind: &str, to: &str| {
        let of = |status: &ProxyStatus| status.conditions.iter().find(|c| c.type_ == kind).cloned();
        let was = of(before).map(|condition| condition.status);
        of(after).filter(|now| now.status == to && was.as_deref() != Some(to)).map(|now| (was, now.message))
    };
    let mut notices = Vec::new();
    if let Some((_, message)) = turned(HEALTHY, "False") {
        notices.push(warning("Unhealthy", &message));
    }
    if let Some((Some(_), message)) = turned(HEALTHY, "True") {
        notices.push(normal("Healthy", &message));
    }
    if let (Some(was), Some(is)) = (&before.egress_address, &after.egress_address)
        && was != is
    {
        let message = format!("seen outside as {is}; it was {was} before");
        notices.push(warning("EgressAddressChanged", &message));
    }
    if let Some((_, message)) = turned(UNIQUE, "False") {
        notices.push(warning("EgressAddressShared", &message));
    }
    notices
}

/// Whoever deletes the kind has not asked for the end of what runs.
pub fn kind_going() -> Notice {
    warning(
        "KindGoing",
        "the CRD of Proxies is being deleted, and this Proxy with it; its instance stays. Take the finalizer \
         egressproxies.dev/instance off to let the Proxy go, and install the CRD anew; the collector then asks \
         whether instances without a Proxy may go. (To remove instances, delete their Proxies before the CRD.)",
    )
}

/// The last word on a Proxy.
pub fn deleted() -> Notice {
    normal("Deleted", "nothing is left of it")
}

/// Somebody let it go without its instance.
pub fn abandoned(record: &ProxyRecord) -> Notice {
    let left = record.status.instance.as_ref().map_or_else(String::new, |instance| {
        let id = instance.id.as_ref().map_or_else(|| "no id yet".to_owned(), |id| format!("id {id}"));
        format!("{} ({id}) of entry {}", instance.name, instance.provider)
    });
    let left = format!(
        "{left} is left where it is, as the annotation {ABANDON_ANNOTATION} asked; remove it yourself"
    );
    warning("Abandoned", &left)
}

fn of_failure(before: Option<&Failure>, failure: &Failure) -> Option<Notice> {
    let is = |class: ErrorClass| failure.class == class.as_str();
    let same_class = before.is_some_and(|b| b.class == failure.class);
    let same =
        same_class && before.is_some_and(|b| b.reason == failure.reason && b.message == failure.message);
    let told = format!("{}: {}", failure.reason, failure.message);
    if is(ErrorClass::Permanent) {
        return (!same).then(|| warning("Failed", &told));
    }
    if is(ErrorClass::QuotaExceeded) {
        return (!same_class).then(|| warning("QuotaExceeded", &told));
    }
    if failure.reason == USER_DATA_MISSING {
        return (!same).then(|| warning("UserDataMissing", &told));
    }
    let counted_on = before.is_some_and(|b| b.count != failure.count);
    (failure.count == WORTH_A_WORD && counted_on).then(|| warning("Retrying", &told))
}

fn normal(reason: &str, message: &str) -> Notice {
    Notice { warning: false, reason: reason.to_owned(), message: bounded(message) }
}

fn warning(reason: &str, message: &str) -> Notice {
    Notice { warning: true, ..normal(reason, message) }
}
