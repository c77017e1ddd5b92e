//! How an entry's Proxies are probed, as people write it, and what it comes to for one Proxy.

use std::{net::IpAddr, time::Duration};

use egress_contract::Fault;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::Fault as Why;
use crate::api::{HealthCheck, ProbeType};

/// Probes of one entry at once, at most.
pub const MOST_AT_ONCE: u32 = 1000;

const NO_URL: &str =
    "spec.healthCheck.type is HTTP, but its entry gives no health.url; add one, or ask for TCP";

/// `health` of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct HealthConfig {
    /// What is asked for through each proxy. Without one, probes ask whether the port takes connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Answers with the address that the request came from, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_address_url: Option<String>,
    /// Between two questions for that address.
    pub egress_address_seconds: u32,
    /// Between two probes of one Proxy, give or take a tenth.
    pub period_seconds: u32,
    /// How long a probe may take.
    pub timeout_seconds: u32,
    /// Failures in a row that make a Proxy unhealthy.
    pub failure_threshold: u32,
    /// Probes that pass in a row and make it healthy again.
    pub success_threshold: u32,
    /// Probes at once.
    pub at_once: u32,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self {
            url: None,
            egress_address_url: None,
            egress_address_seconds: 300,
            period_seconds: 30,
            timeout_seconds: 5,
            failure_threshold: 3,
            success_threshold: 2,
            at_once: 64,
        }
    }
}

impl HealthConfig {
    /// Everything that is wrong with it.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut add = |path: &str, message: String| faults.push(Fault { path: path.to_owned(), message });
        for (path, url) in [("url", &self.url), ("egressAddressUrl", &self.egress_address_url)] {
            if let Some(Err(why)) = url.as_deref().map(read_url) {
                add(path, why);
            }
        }
        for (path, value, most) in [
            ("egressAddressSeconds", self.egress_address_seconds, 86_400),
            ("periodSeconds", self.period_seconds, 3600),
            ("timeoutSeconds", self.timeout_seconds, 60),
            ("failureThreshold", self.failure_threshold, 100),
            ("successThreshold", self.success_threshold, 100),
            ("atOnce", self.at_once, MOST_AT_ONCE),
        ] {
            if !(1..=most).contains(&value) {
                add(path, format!("must be from 1 to {most}"));
            }
        }
        if self.timeout_seconds > self.period_seconds {
            add("timeoutSeconds", format!("must be at most periodSeconds, which is {}", self.period_seconds));
        }
        faults
    }
}

fn read_url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("is no URL: {error}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if !authority.as_str().contains('@') => Ok(uri),
        (Some("http" | "https"), Some(_)) => Err("must hold no user or password".to_owned()),
        _ => Err("must begin with http:// or https:// and a host".to_owned()),
    }
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Whether the port takes connections.
    Connect,
    /// For a URL, through the proxy.
    Through(Uri),
    /// Nothing, and this is why.
    Nothing(Why),
}

/// How one Proxy is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What for.
    pub ask: Ask,
    /// For the address seen outside.
    pub egress: Option<Uri>,
    /// Between two questions for that.
    pub egress_period: Duration,
    /// Between two probes.
    pub period: Duration,
    /// For one of them.
    pub timeout: Duration,
    /// In a row, until it counts as unhealthy.
    pub failures: u32,
    /// In a row, until it counts as healthy again.
    pub successes: u32,
    /// Of its entry, at once.
    pub at_once: u32,
}

impl Check {
    /// At such an address: one at which only this machine, or a cloud's own services, can be meant is not asked, whatever a
    /// provider says of it.
    pub fn at(self, ip: IpAddr) -> Self {
        let refused = match ip.to_canonical() {
            IpAddr::V4(ip) => {
                ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || ip.is_multicast()
            }
            IpAddr::V6(ip) => {
                ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified() || ip.is_multicast()
            }
        };
        if !refused {
            return self;
        }
        let message = format!("{ip} is a loopback, link-local or multicast address, which is not probed");
        Self { ask: Ask::Nothing(Why::new("address-refused", message)), egress: None, ..self }
    }

    /// None where neither the entry nor the Proxy asks for one.
    pub fn of(config: Option<&HealthConfig>, spec: Option<&HealthCheck>) -> Option<Self> {
        if config.is_none() && spec.is_none() {
            return None;
        }
        let config = config.cloned().unwrap_or_default();
        let spec = spec.cloned().unwrap_or_default();
        let uri = |text: &Option<String>| text.as_deref().and_then(|text| read_url(text).ok());
        let url = uri(&config.url);
        let ask = match (spec.kind, url) {
            (Some(ProbeType::Tcp), _) | (None, None) => Ask::Connect,
            (Some(ProbeType::Http) | None, Some(url)) => Ask::Through(url),
            (Some(ProbeType::Http), None) => Ask::Nothing(Why::new("no-probe-url", NO_URL)),
        };
        let seconds = |own: Option<u32>, entry: u32| Duration::from_secs(own.unwrap_or(entry).max(1).into());
        let period = seconds(spec.period_seconds, config.period_seconds);
        Some(Self {
            ask,
            egress: uri(&config.egress_address_url),
            egress_period: seconds(None, config.egress_address_seconds),
            period,
            // One of the two may come from elsewhere.
            timeout: seconds(spec.timeout_seconds, config.timeout_seconds).min(period),
            failures: spec.failure_threshold.unwrap_or(config.failure_threshold).max(1),
            successes: spec.success_threshold.unwrap_or(config.success_threshold).max(1),
            at_once: config.at_once.clamp(1, MOST_AT_ONCE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_it_is_told() {
        let bad = HealthConfig {
            url: Some("ftp://example.com/".to_owned()),
            egress_address_url: Some("http://a:b@example.com/".to_owned()),
            egress_address_seconds: 0,
            period_seconds: 4,
            timeout_seconds: 5,
            failure_threshold: 0,
            success_threshold: 101,
            at_once: 1001,
        };
        let paths: Vec<_> = bad.faults().into_iter().map(|fault| fault.path).collect();
        assert_eq!(
            paths,
            [
                "url",
                "egressAddressUrl",
                "egressAddressSeconds",
                "failureThreshold",
                "successThreshold",
                "atOnce",
                "timeoutSeconds"
            ]
        );
        assert_eq!(HealthConfig::default().faults(), []);
    }

    #[test]
    fn an_address_of_this_machine_or_of_a_clouds_services_is_not_asked() {
        let check = || Check::of(Some(&HealthConfig::default()), None).unwrap();
        for refused in ["127.0.0.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "::ffff:169.254.169.254"]
        {
            assert!(matches!(check().at(refused.parse().unwrap()).ask, Ask::Nothing(_)), "{refused}");
        }
        for asked in ["10.0.0.1", "192.0.2.1", "2001:db8::1", "fd00::1"] {
            assert_eq!(check().at(asked.parse().unwrap()), check(), "{asked}");
        }
    }

    #[test]
    fn a_spec_overrides_its_entry_but_for_the_url() {
        let entry = HealthConfig { url: Some("http://probe.test/".to_owned()), ..HealthConfig::default() };
        let ask = |config: Option<&HealthConfig>, kind| {
            let spec = HealthCheck { kind, period_seconds: Some(2), ..HealthCheck::default() };
            let check = Check::of(config, Some(&spec)).unwrap();
            assert_eq!((check.period, check.timeout), (Duration::from_secs(2), Duration::from_secs(2)));
            check.ask
        };
        let url = Ask::Through(Uri::from_static("http://probe.test/"));
        assert_eq!(ask(Some(&entry), None), url);
        assert_eq!(ask(Some(&entry), Some(ProbeType::Http)), url);
        assert_eq!(ask(Some(&entry), Some(ProbeType::Tcp)), Ask::Connect);
        assert_eq!(ask(None, None), Ask::Connect);
        assert!(
            matches!(ask(None, Some(ProbeType::Http)), Ask::Nothing(why) if why.reason == "no-probe-url")
        );
        assert_eq!(Check::of(None, None), None);
        assert_eq!(Check::of(Some(&HealthConfig::default()), None).unwrap().ask, Ask::Connect);
    }
}
