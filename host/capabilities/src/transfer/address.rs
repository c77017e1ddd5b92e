//! Which addresses lead inside: to this machine, its networks, a cloud's metadata.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: IpAddr,
    bits: u32,
}

impl FromStr for Range {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits.parse().map_err(|_| ())?)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(|_| ())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most { Err(()) } else { Ok(Self { first, bits }) }
    }
}

impl Range {
    /// Whether it begins so.
    pub fn holds(&self, address: IpAddr) -> bool {
        let alike = |first: u128, address: u128, width: u32| {
            let rest = width - self.bits;
            first.checked_shr(rest).unwrap_or(0) == address.checked_shr(rest).unwrap_or(0)
        };
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                alike(u32::from(first).into(), u32::from(address).into(), 32)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => alike(first.into(), address.into(), 128),
            _ => false,
        }
    }
}

/// What it is in the end: an IPv4 address may be wrapped in an IPv6 one.
pub fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(wrapped) = address else { return address };
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match wrapped.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => IpAddr::V4(of(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => IpAddr::V4(of(high, low)),
        _ => address,
    }
}

/// Whether anybody on the Internet may be behind it.
pub fn is_public(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || a >= 240
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        // Azure's metadata and DHCP.
        || address == Ipv4Addr::new(168, 63, 129, 16))
}

/// Only one eighth of them is given out.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    (0x2000..0x4000).contains(&first) && !(first == 0x2001 && (second == 0x0db8 || second < 0x0200))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_inside_is_told_however_it_is_wrapped() {
        for inside in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "168.63.129.16",
            "::1",
            "::",
            "fe80::1",
            "fd00:ec2::254",
            "fc00::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "2001:0:1::1",
            "fec0::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in
            ["1.1.1.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::808:808"]
        {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn a_range_holds_what_begins_alike() {
        let holds =
            |range: &str, address: &str| range.parse::<Range>().unwrap().holds(address.parse().unwrap());
        assert!(holds("10.1.0.0/16", "10.1.255.1") && !holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.1.0.1", "10.1.0.1") && !holds("10.1.0.1", "10.1.0.2"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe00::1") && holds("::/0", "::1"));
        for wrong in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "fd00::/129", "a/8"] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
