//! Ids: `zones/ZONE/instances/NAME` as the earlier operator had them; a firewall rule's is `global/firewalls/NAME`.

use provider_sdk::{Error, Target};

use crate::config::{is_name, is_zone};

/// What an id names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    Instance(Location),
    Firewall(String),
}

/// A zone and a name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub zone: String,
    pub name: String,
}

impl Location {
    pub fn new(zone: &str, name: &str) -> Self {
        Self { zone: zone.to_owned(), name: name.to_owned() }
    }

    /// The instance's id.
    pub fn id(&self) -> String {
        format!("zones/{}/instances/{}", self.zone, self.name)
    }

    /// The instance that the target's id names; none without an id.
    pub fn of(target: &Target) -> Result<Option<Self>, Error> {
        match target.id.as_deref().map(parse).transpose()? {
            None => Ok(None),
            Some(Id::Instance(at)) => Ok(Some(at)),
            Some(Id::Firewall(_)) => Err(malformed(target.id.as_deref().unwrap_or_default())),
        }
    }
}

/// A firewall rule's id.
pub fn firewall(name: &str) -> String {
    format!("global/firewalls/{name}")
}

/// Reads an id.
pub fn parse(id: &str) -> Result<Id, Error> {
    match id.split('/').collect::<Vec<_>>().as_slice() {
        ["zones", zone, "instances", name] if is_zone(zone) && is_name(name) => {
            Ok(Id::Instance(Location::new(zone, name)))
        }
        ["global", "firewalls", name] if is_name(name) => Ok(Id::Firewall((*name).to_owned())),
        _ => Err(malformed(id)),
    }
}

fn malformed(id: &str) -> Error {
    Error::permanent(
        "malformed-id",
        format!("the id {id:?} is not zones/ZONE/instances/NAME; this provider has not made it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_as_it_was_written() {
        let at = Location::new("us-central1-a", "proxy-a");
        assert_eq!(parse(&at.id()), Ok(Id::Instance(at)));
        assert_eq!(parse(&firewall("proxy-base-x")), Ok(Id::Firewall("proxy-base-x".to_owned())));
        for bad in [
            "",
            "?",
            "zones//instances/x",
            "zones/us-central1-a/instances/",
            "zones/../instances/x",
            "a/b/c/d",
        ] {
            assert_eq!(parse(bad).unwrap_err().reason, "malformed-id", "{bad}");
        }
    }
}
