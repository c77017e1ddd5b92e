//! Networks in CIDR notation, checked before Squid sees them.

use std::{fmt, net::IpAddr};

/// A network, written as it must be: no bits set behind the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// From `10.0.0.0/8`, or a single address. The error says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(format!("must be a network like 10.0.0.0/8 or fd00::/8, but is {text:?}"));
        };
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.map(str::parse::<u8>) {
            None => longest,
            Some(Ok(prefix)) if prefix <= longest => prefix,
            Some(_) => return Err(format!("must have a prefix from 0 to {longest}, but is {text:?}")),
        };
        let network = Self { address: cut(address, prefix), prefix };
        if network.address == address {
            Ok(network)
        } else {
            Err(format!("has bits set behind its prefix: is {network} meant instead of {text}?"))
        }
    }

    /// Whether it is every address there is.
    pub fn is_everyone(&self) -> bool {
        self.prefix == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn cut(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_single_addresses_are_networks_of_one() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("fd00::/8", "fd00::/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(Network::parse(text).unwrap().to_string(), written);
        }
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_would_be() {
        for (text, hint) in [
            ("everyone", "10.0.0.0/8"),
            ("10.0.0.0/33", "0 to 32"),
            ("::/129", "0 to 128"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.0.0.0/0", "0.0.0.0/0"),
            ("10.0.0.0/-1", "0 to 32"),
            ("10.0.0.0/8 all", "0 to 32"),
        ] {
            let fault = Network::parse(text).unwrap_err();
            assert!(fault.contains(hint), "{text}: {fault}");
        }
    }
}
