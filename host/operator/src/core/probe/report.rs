//! What was found out of a Proxy, and what its status says of it.

use std::net::IpAddr;

use jiff::Timestamp;

use super::{Ask, Check, Fault, State};
use crate::{
    api::ProxyStatus,
    core::{
        conditions::{self, HEALTHY, Truth, UNIQUE},
        store::ProxyKey,
    },
};

/// Between what is wrong and why nothing is done about it.
const KEPT: &str = "; it is not replaced now: ";

/// What was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of what it does.
    pub state: State,
    /// Its address as it is seen outside.
    pub egress: Option<IpAddr>,
    /// Some that come from the same one.
    pub shared_with: Vec<ProxyKey>,
}

/// The status with what was found out in it; `kept` is why what is unhealthy is not replaced.
pub fn told(
    before: &ProxyStatus,
    check: &Check,
    report: &Report,
    kept: Option<&str>,
    at: (i64, Timestamp),
) -> ProxyStatus {
    let mut status = before.clone();
    let said = match &report.state {
        State::Unknown => None,
        State::Untold(fault) => Some((Truth::Unknown, fault.reason.as_str(), fault.message.clone())),
        State::Healthy => Some((Truth::True, "passed", passed(&check.ask).to_owned())),
        State::Unhealthy(fault) => {
            let kept = kept.map(|why| format!("{KEPT}{why}")).unwrap_or_default();
            Some((Truth::False, fault.reason.as_str(), format!("{}{kept}", fault.message)))
        }
    };
    if let Some((truth, reason, message)) = said {
        conditions::set(&mut status.conditions, HEALTHY, truth, reason, &message, at);
    }
    match report.egress {
        Some(egress) => {
            status.egress_address = Some(egress.to_string());
            let (truth, reason, message) = shared(egress, &report.shared_with);
            conditions::set(&mut status.conditions, UNIQUE, truth, reason, &message, at);
        }
        None if check.egress.is_none() => forget_egress(&mut status),
        None => {}
    }
    status
}

/// What a status says of the instance that serves; none if that is nothing.
pub fn known(status: &ProxyStatus) -> Option<(State, Option<IpAddr>)> {
    let condition = status.conditions.iter().find(|condition| condition.type_ == HEALTHY)?;
    let state = match condition.status.as_str() {
        "True" => State::Healthy,
        "False" => {
            let message = condition.message.split(KEPT).next().unwrap_or_default();
            State::Unhealthy(Fault::new(&condition.reason, message))
        }
        _ => return None,
    };
    Some((state, status.egress_address.as_deref().and_then(|egress| egress.parse().ok())))
}

/// Nobody asks any more: what was found out before is no word on it now.
pub fn forgotten(before: &ProxyStatus) -> ProxyStatus {
    let mut status = before.clone();
    status.conditions.retain(|condition| condition.type_ != HEALTHY);
    forget_egress(&mut status);
    status
}

fn forget_egress(status: &mut ProxyStatus) {
    status.egress_address = None;
    status.conditions.retain(|condition| condition.type_ != UNIQUE);
}

fn passed(ask: &Ask) -> &'static str {
    match ask {
        Ask::Connect => "its port takes connections",
        Ask::Through(_) | Ask::Nothing(_) => "requests pass through it",
    }
}

fn shared(egress: IpAddr, others: &[ProxyKey]) -> (Truth, &'static str, String) {
    if others.is_empty() {
        return (Truth::True, "unique", format!("no other Proxy is seen as {egress}"));
    }
    let names: Vec<_> = others.iter().map(ToString::to_string).collect();
    let more = if others.len() < super::outside::SOME { "" } else { " and perhaps others" };
    (Truth::False, "shared", format!("seen outside as {egress}, as {}{more} are", names.join(", ")))
}
