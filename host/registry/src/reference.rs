//! What people call an image: `registry.example:5000/team/kubernetes-provider:1.2`, or with `@sha256:` and a digest.
//!
//! The registry is always named: a default would send a private name, and a login, to somebody else's.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};

/// A sha256, as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(String);

impl Hash {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(Sha256::digest(bytes))))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without `sha256:`.
    pub(crate) fn digits(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == 64 && digits.bytes().all(hexadecimal)).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One image in one registry. With a tag and a digest the digest counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Hash>,
}

/// A text that names no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no image: {why}; write registry.example/team/provider:1.0, or @sha256:... instead of the tag"
)]
pub struct InvalidReference {
    text: String,
    why: &'static str,
}

impl Reference {
    /// Host and port.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Behind the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// What may be moved to another image.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// What can't.
    pub fn digest(&self) -> Option<&Hash> {
        self.digest.as_ref()
    }

    /// With what a tag was found to mean.
    #[must_use]
    pub fn at(&self, digest: Hash) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// Under another registry, and a folder there: `inner.example/mirror` makes
    /// `inner.example/mirror/team/provider:1.0` of it.
    pub fn moved_to(&self, place: &str) -> Result<Self, InvalidReference> {
        let mut text = format!("{}/{}", place.trim_end_matches('/'), self.repository);
        if let Some(tag) = &self.tag {
            text = format!("{text}:{tag}");
        }
        if let Some(digest) = &self.digest {
            text = format!("{text}@{digest}");
        }
        text.parse()
    }

    /// What is asked for in the registry.
    pub(crate) fn wanted(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.as_str(),
            (None, Some(tag)) => tag,
            (None, None) => "",
        }
    }

    /// Whom requests go to: one registry's API has another name than people use.
    pub(crate) fn host(&self) -> &str {
        match self.registry.as_str() {
            "docker.io" => "registry-1.docker.io",
            registry => registry,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let no = |why| InvalidReference { text: text.chars().take(300).collect(), why };
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => {
                let digest =
                    Hash::read(digest).ok_or_else(|| no("a digest is sha256: and 64 of 0-9 and a-f"))?;
                (name, Some(digest))
            }
            None => (text, None),
        };
        let (registry, rest) = name.split_once('/').ok_or_else(|| no("it names no registry"))?;
        if !is_registry(registry) {
            return Err(no(
                "before the first slash stands a registry: a name with a dot, a port, or localhost",
            ));
        }
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if !repository.split('/').all(is_part) || repository.len() > 255 {
            return Err(no("a repository has a-z, 0-9, and between them . _ - and /"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(no(
                "a tag has up to 128 of A-Z, a-z, 0-9, _ . and -, and begins with neither . nor -",
            ));
        }
        if tag.is_none() && digest.is_none() {
            return Err(no("it has neither a tag nor a digest"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
            !host.is_empty() && host.bytes().all(legal) && !host.starts_with(['-', '.'])
        }
    };
    let named = host.contains('.') || port.is_some() || host == "localhost" || bracketed.is_some();
    is_host && named && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_part(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let legal = |byte: u8| plain(byte) || matches!(byte, b'.' | b'_' | b'-');
    text.bytes().all(legal)
        && text.bytes().next().is_some_and(plain)
        && text.bytes().last().is_some_and(plain)
        && !text.contains("..")
}

fn is_tag(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=128).contains(&text.len()) && text.bytes().all(legal) && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_reference_reads_back_what_it_prints() {
        for text in [
            "registry.example/a:1",
            "registry.example:5000/team/kubernetes-provider:1.2-rc_3",
            "localhost/a:latest",
            "127.0.0.1:5000/a/b/c:1",
            "[::1]:5000/a:1",
            &format!("registry.example/a@{DIGEST}"),
            &format!("registry.example/a:1@{DIGEST}"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        assert_eq!(Hash::of(b"").as_str(), DIGEST);
    }

    #[test]
    fn a_text_that_names_no_image_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "no registry"),
            ("provider:1", "no registry"),
            ("team/provider:1", "a name with a dot"),
            ("https://registry.example/a:1", "a name with a dot"),
            ("user:pass@registry.example/a:1", "a digest is"),
            ("registry.example/a", "neither a tag nor a digest"),
            ("registry.example/A:1", "a repository has"),
            ("registry.example/a/../b:1", "a repository has"),
            ("registry.example//a:1", "a repository has"),
            ("registry.example/a:-1", "a tag has"),
            ("registry.example/a:1/../2", "a tag has"),
            ("registry.example/a@sha512:00", "a digest is"),
            ("registry.example:0/a:1", "a name with a dot"),
            ("registry.example/a:1?x=1", "a tag has"),
        ] {
            let refused = text.parse::<Reference>().unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_reference_that_moves_keeps_all_behind_its_registry() {
        let reference: Reference = format!("a.example/team/p:1@{DIGEST}").parse().unwrap();
        let moved = reference.moved_to("b.example:5000/mirror/").unwrap();
        assert_eq!(moved.to_string(), format!("b.example:5000/mirror/team/p:1@{DIGEST}"));
        assert!(reference.moved_to("mirror").is_err(), "no registry");
    }
}
