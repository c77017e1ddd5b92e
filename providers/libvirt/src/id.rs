//! Where an instance stands, and its id: `hosts/<host>/domains/<name>`; a base image's is
//! `hosts/<host>/images/<name>`.

use provider_sdk::{Error, Target, reason};

use crate::config::Config;

/// What an id names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Id {
    Machine(Location),
    Image(Location),
}

/// A host and a name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub host: String,
    pub name: String,
}

impl Location {
    pub fn new(host: &str, name: &str) -> Self {
        Self { host: host.to_owned(), name: name.to_owned() }
    }

    /// The machine's id.
    pub fn id(&self) -> String {
        format!("hosts/{}/domains/{}", self.host, self.name)
    }

    /// The base image's id.
    pub fn image_id(&self) -> String {
        format!("hosts/{}/images/{}", self.host, self.name)
    }

    /// The machine that the target's id names; none without an id.
    ///
    /// Its name is the target's, or that of a machine of the earlier operator: its mark then says so.
    pub fn of(target: &Target, config: &Config) -> Result<Option<Self>, Error> {
        let Some(id) = &target.id else { return Ok(None) };
        match parse(id)? {
            Id::Machine(at) => {
                config.host(&at.host, id)?;
                Ok(Some(at))
            }
            Id::Image(_) => Err(malformed(id)),
        }
    }
}

/// Reads an id.
pub fn parse(id: &str) -> Result<Id, Error> {
    match id.split('/').collect::<Vec<_>>().as_slice() {
        ["hosts", host, kind, name] if !host.is_empty() && !name.is_empty() => match *kind {
            "domains" => Ok(Id::Machine(Location::new(host, name))),
            "images" => Ok(Id::Image(Location::new(host, name))),
            _ => Err(malformed(id)),
        },
        _ => Err(malformed(id)),
    }
}

fn malformed(id: &str) -> Error {
    Error::permanent(
        "malformed-id",
        format!("the id {id:?} is not hosts/HOST/domains/NAME; this provider has not made it"),
    )
}

/// A host that is in no config any more.
pub fn host_is_gone(id: &str, host: &str, known: &str) -> Error {
    Error::permanent(
        reason::CONFIG,
        format!(
            "the instance {id} stands at host {host}, and the entry's config has only {known}; put the host back \
             until its machines are gone"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_as_it_was_written() {
        let at = Location::new("hv1", "proxy-a");
        assert_eq!(parse(&at.id()), Ok(Id::Machine(at.clone())));
        assert_eq!(parse(&at.image_id()), Ok(Id::Image(at)));
    }

    #[test]
    fn what_is_no_id_is_permanent() {
        for bad in [
            "",
            "?",
            "a/b/c",
            "hosts//domains/x",
            "hosts/h/domains/",
            "hosts/h/pools/x",
            "hosts/h/domains/x/y",
        ] {
            assert_eq!(parse(bad).unwrap_err().reason, "malformed-id", "{bad}");
        }
    }
}
