//! The addresses that the guest's agent tells.

use std::net::IpAddr;

use serde_json::Value;

/// Those that can be reached from elsewhere, IPv4 first, else in the agent's order.
///
/// None where the answer is none: the agent's own refusal comes as success with an object in the list's
/// place. An empty list is a machine that has no address yet.
pub fn addresses(data: &Value) -> Option<Vec<IpAddr>> {
    let interfaces = data.get("result")?.as_array()?;
    let listed = interfaces.iter().filter_map(|interface| interface.get("ip-addresses")?.as_array());
    let read = |entry: &Value| entry.get("ip-address")?.as_str()?.parse().ok();
    let mut found: Vec<IpAddr> = listed.flatten().filter_map(read).filter(|ip| reachable(*ip)).collect();
    // Stable: within one family the agent's order stays.
    found.sort_by_key(IpAddr::is_ipv6);
    Some(found)
}

/// Not the machine's alone, nor its link's.
fn reachable(ip: IpAddr) -> bool {
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(link_local || ip.is_loopback() || ip.is_unspecified() || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_the_machine_or_its_link_can_reach_is_left_out_and_ipv4_is_first() {
        let data = json!({ "result": [
            { "name": "lo", "ip-addresses": [{ "ip-address": "127.0.0.1" }, { "ip-address": "::1" }] },
            { "name": "eth1" },
            { "name": "eth0", "ip-addresses": [
                { "ip-address": "fe80::1" },
                { "ip-address": "2001:db8::7" },
                { "ip-address": "169.254.3.4" },
                { "ip-address": "192.0.2.7" },
            ] },
        ] });
        let found: Vec<String> = addresses(&data).unwrap().iter().map(IpAddr::to_string).collect();
        assert_eq!(found, ["192.0.2.7", "2001:db8::7"]);
    }

    #[test]
    fn an_agents_refusal_inside_a_success_is_no_empty_list() {
        let refused = json!({ "result": { "error": { "class": "CommandNotFound", "desc": "disabled" } } });
        assert_eq!(addresses(&refused), None);
        assert_eq!(addresses(&json!({ "result": [] })), Some(Vec::new()));
    }
}
