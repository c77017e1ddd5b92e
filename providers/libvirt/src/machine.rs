//! What stands at a machine's name, and whose it is.

use provider_sdk::{
    Context, Error, Libvirt, Mark, Target, Verdict,
    libvirt::{Domain, code},
    mark::show,
    reason,
};

use crate::{
    Ways,
    config::Config,
    id::Location,
    mark::{self, Marked},
    site::Site,
};

/// What stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Ours(Machine),
    Foreign(Mark),
}

/// A domain that was read back, and is this target's by its mark. Only [`find`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    domain: Domain,
    marked: Marked,
    /// The namespace of its mark, where that is not this component's own.
    elsewhere: Option<String>,
}

impl Machine {
    /// Its names.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Its mark and age.
    pub fn marked(&self) -> &Marked {
        &self.marked
    }

    /// Where its mark stands, if another component or an earlier operator wrote it.
    pub fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.as_deref()
    }
}

/// Looks a name up and reads its mark.
///
/// A machine of the other component is ours by its mark; one of an earlier operator only where the Proxy names it by its
/// id.
pub fn find<H: Context + Libvirt>(
    host: &H,
    ways: &Ways,
    config: &Config,
    site: &Site<'_, H>,
    at: &Location,
    target: &Target,
) -> Result<Found, Error> {
    let domain = match site.connection().lookup(&at.name) {
        Ok(domain) => domain,
        Err(failure) if failure.is(code::NO_DOMAIN) => return Ok(Found::Nothing),
        Err(failure) => return Err(site.asked(format!("look {} up", at.name)).error(&failure)),
    };
    // Our own names no earlier operator gave.
    let is_named = at.name != target.name;
    let namespaces = [ways.namespace, ways.sibling]
        .into_iter()
        .chain(config.legacy_namespaces.iter().map(String::as_str))
        .take(if is_named { usize::MAX } else { 2 });
    for (number, uri) in namespaces.enumerate() {
        let marked = match metadata(host, site, &domain, uri)? {
            Read::Marked(marked) => marked,
            Read::None => continue,
            Read::Gone => return Ok(Found::Nothing),
        };
        let ours = match host.verify(&marked.mark) {
            Verdict::ThisTarget => true,
            Verdict::Legacy => number > 1,
            Verdict::ThisInstallation | Verdict::Foreign => number > 1 && is_proxys(&marked.mark, target),
        };
        if !ours {
            return Ok(Found::Foreign(marked.mark));
        }
        let elsewhere = (number > 0).then(|| uri.to_owned());
        return Ok(Found::Ours(Machine { domain, marked, elsewhere }));
    }
    Ok(Found::Foreign(Mark::new()))
}

/// An earlier operator's element has no installation, but the UID of the Proxy that it was made for.
fn is_proxys(mark: &Mark, target: &Target) -> bool {
    let says = |key: &str| mark.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    says("installation").is_none()
        && says("managed") == Some("true")
        && !target.uid.is_empty()
        && says("uid") == Some(target.uid.as_str())
}

/// What one namespace of a domain's metadata holds.
pub enum Read {
    Marked(Marked),
    None,
    /// The domain is gone.
    Gone,
}

/// Reads the element of one namespace.
pub fn metadata<H: Context + Libvirt>(
    host: &H,
    site: &Site<'_, H>,
    domain: &Domain,
    uri: &str,
) -> Result<Read, Error> {
    let asked = || site.asked(format!("read the mark of {}", domain.name));
    match site.connection().metadata(domain, uri) {
        Ok(text) => mark::read(&text, &host.mark()).map(Read::Marked).ok_or_else(|| asked().garbled()),
        Err(failure) if failure.is(code::NO_DOMAIN_METADATA) => Ok(Read::None),
        Err(failure) if failure.is(code::NO_DOMAIN) => Ok(Read::Gone),
        Err(failure) => Err(asked().error(&failure)),
    }
}

/// Our name with another's mark, or none.
pub fn foreign(at: &Location, found: &Mark, ours: &Mark) -> Error {
    Error::permanent(
        reason::FOREIGN,
        format!(
            "domain {} at host {} bears {}, not {}; remove it, or give it back its metadata if it is this Proxy's",
            at.name,
            at.host,
            show(found),
            show(ours)
        ),
    )
}
