//! Names and marks: what says whose an instance is.
//!
//! A name carries two hashes, one of the installation and one of UID and incarnation, so that what can't
//! bear a mark (a volume, a seed, a firewall rule) still shows whose it is, two namespaces never collide
//! and a replacement never meets its predecessor. The host alone makes names and marks, so every revision
//! of every provider agrees on them.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

/// A mark: ordered pairs that fit labels, tags and metadata alike.
pub type Mark = Vec<(String, String)>;

/// Marks everything that any installation of this operator made; its value is `true`.
pub const MARK_MANAGED: &str = "managed";
/// Whose installation: [`Installation::hash`].
pub const MARK_INSTALLATION: &str = "installation";
/// The Proxy's UID.
pub const MARK_UID: &str = "uid";
/// The incarnation, in decimal.
pub const MARK_INCARNATION: &str = "incarnation";
/// The Proxy's namespace, for people.
pub const MARK_NAMESPACE: &str = "namespace";
/// The Proxy's name, for people; cut to 63 characters, its dots made dashes.
pub const MARK_PROXY: &str = "proxy";

/// With this begins the name of what several Proxies share, and no instance's.
const SHARED: &str = "proxy-base-";
const LONGEST_NAME: usize = 40;
const INSTALLATION_HASH: usize = 6;
const INSTANCE_HASH: usize = 8;
/// `proxy-` + slug + `-` + hash + `-` + hash.
const LONGEST_SLUG: usize = LONGEST_NAME - 6 - 1 - INSTALLATION_HASH - 1 - INSTANCE_HASH;

/// A name that breaks its rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} must match {rule}")]
pub struct InvalidName {
    what: &'static str,
    value: String,
    rule: &'static str,
}

/// The name of a provider entry: `[a-z0-9-]{1,20}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct EntryName(String);

impl EntryName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EntryName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        if (1..=20).contains(&name.len()) && name.bytes().all(is_name_byte) {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidName { what: "entry name", value: name.to_owned(), rule: "[a-z0-9-]{1,20}" })
        }
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of an instance at its backend: at most 40 characters of `[a-z0-9-]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceName(String);

impl InstanceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that a provider read back from its backend, checked for its form only.
    pub fn read_back(name: &str) -> Result<Self, InvalidName> {
        if name.starts_with("proxy-") && name.len() <= 63 && name.bytes().all(is_name_byte) {
            Ok(Self(name.to_owned()))
        } else {
            Err(InvalidName { what: "instance name", value: name.to_owned(), rule: "proxy-[a-z0-9-]{1,57}" })
        }
    }

    /// Whether it is that of something that several instances share, and no Proxy owns.
    pub fn is_shared(&self) -> bool {
        self.0.starts_with(SHARED)
    }
}

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// This installation of the operator: a random identity, minted once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    id: String,
    hash: String,
}

impl Installation {
    /// From the identity as it is stored.
    pub fn new(id: impl Into<String>) -> Self {
        let id = id.into();
        let hash = short_hash(&[id.as_bytes()], INSTALLATION_HASH);
        Self { id, hash }
    }

    /// Known only by its hash, which stands in every name and mark: for tools, whom its identity is not told.
    pub fn known_by(hash: &str) -> Result<Self, InvalidName> {
        let legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
        if hash.len() == INSTALLATION_HASH && hash.bytes().all(legal) {
            Ok(Self { id: String::new(), hash: hash.to_owned() })
        } else {
            let (what, value) = ("an installation's hash", hash.to_owned());
            Err(InvalidName { what, value, rule: "[a-z2-7]{6}" })
        }
    }

    /// The identity as it is stored; empty if it is known only by its hash.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Six characters of `[a-z0-9]` that stand in every name and mark.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Whether a name, read back at a backend, bears this installation's hash where one stands: in an
    /// instance's name (`proxy-<slug>-<hash>-<instance>`) or in that of something shared
    /// (`proxy-base-<hash>-<entry>-<key>`).
    pub fn made(&self, name: &InstanceName) -> bool {
        match name.0.strip_prefix(SHARED) {
            Some(rest) => rest.split_once('-').is_some_and(|(hash, _)| hash == self.hash),
            None => {
                let (before, instance) = name.0.rsplit_once('-').unwrap_or_default();
                let (_, hash) = before.rsplit_once('-').unwrap_or_default();
                instance.len() == INSTANCE_HASH && hash == self.hash
            }
        }
    }

    /// The instance's name for one incarnation of a Proxy.
    pub fn instance_name(&self, proxy: &str, uid: &str, incarnation: u32) -> InstanceName {
        let instance = short_hash(&[uid.as_bytes(), &incarnation.to_be_bytes()], INSTANCE_HASH);
        InstanceName(format!("proxy-{}-{}-{instance}", slug(proxy), self.hash))
    }

    /// The mark of one incarnation of a Proxy.
    pub fn mark(&self, uid: &str, incarnation: u32, namespace: &str, proxy: &str) -> Mark {
        let mut mark = self.installation_mark();
        mark.extend([
            (MARK_UID.to_owned(), uid.to_owned()),
            (MARK_INCARNATION.to_owned(), incarnation.to_string()),
            (MARK_NAMESPACE.to_owned(), label_value(namespace)),
            (MARK_PROXY.to_owned(), label_value(proxy)),
        ]);
        mark
    }

    /// The pairs that everything of this installation bears.
    pub fn installation_mark(&self) -> Mark {
        vec![(MARK_MANAGED.to_owned(), "true".to_owned()), (MARK_INSTALLATION.to_owned(), self.hash.clone())]
    }
}

fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')
}

/// The Proxy's name as far as it fits, for people: it proves nothing. A Proxy called `base-..` must not look
/// like something shared.
fn slug(proxy: &str) -> String {
    let letters = proxy.bytes().map(|b| if is_name_byte(b) { char::from(b) } else { '-' });
    let slug: String = letters.skip_while(|letter| *letter == '-').take(LONGEST_SLUG).collect();
    match slug.trim_end_matches('-') {
        "" => "x".to_owned(),
        base if base == "base" || base.starts_with("base-") => {
            format!("x{base}").chars().take(LONGEST_SLUG).collect()
        }
        trimmed => trimmed.to_owned(),
    }
}

/// Cut and mapped to what the narrowest of the backends' labels may hold: Compute Engine's know no dots and
/// no capitals, Kubernetes' begin and end in a letter or digit.
fn label_value(text: &str) -> String {
    let byte = |b: u8| if is_name_byte(b) { char::from(b) } else { '-' };
    let cut: String = text.bytes().take(63).map(|b| byte(b.to_ascii_lowercase())).collect();
    cut.trim_matches('-').to_owned()
}

fn short_hash(parts: &[&[u8]], length: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut hasher = Sha256::new();
    for part in parts {
        // With its length before it, so that ("ab","c") and ("a","bc") differ.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let letter = |byte: u8| ALPHABET.get(usize::from(byte % 32)).copied().map_or('a', char::from);
    hasher.finalize().iter().take(length).copied().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6f1d9c1e-7a7b-4f6e-9b52-0d4f6f1c2a33";

    #[test]
    fn a_name_fits_every_backend() {
        let installation = Installation::new("installation");
        for proxy in ["a", "squid.example", &"x".repeat(253), "---", "trailing-................."] {
            let name = installation.instance_name(proxy, UID, 1).to_string();
            assert!(name.len() <= LONGEST_NAME, "{name}");
            assert!(name.starts_with("proxy-") && name.bytes().all(is_name_byte), "{name}");
            assert_eq!(InstanceName::read_back(&name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn namespaces_incarnations_and_installations_never_share_a_name() {
        let one = Installation::new("one");
        let first = one.instance_name("web", UID, 1);
        assert_ne!(first, one.instance_name("web", UID, 2));
        assert_ne!(first, one.instance_name("web", "another", 1));
        assert_ne!(first, Installation::new("two").instance_name("web", UID, 1));
        assert_eq!(first, Installation::new("one").instance_name("web", UID, 1));
    }

    #[test]
    fn an_installation_known_by_its_hash_gives_the_same_names_and_marks() {
        let (whole, known) =
            (Installation::new("one"), Installation::known_by(Installation::new("one").hash()).unwrap());
        assert_eq!(whole.instance_name("web", UID, 2), known.instance_name("web", UID, 2));
        assert_eq!(whole.mark(UID, 2, "ns", "web"), known.mark(UID, 2, "ns", "web"));
        for bad in ["", "abcde", "abcdefg", "ABCDEF", "abc1ef"] {
            assert!(Installation::known_by(bad).unwrap_err().to_string().contains("[a-z2-7]{6}"), "{bad}");
        }
    }

    #[test]
    fn a_mark_fits_labels() {
        let long = format!("{}.{}", "x".repeat(62), "y".repeat(100));
        for (key, value) in Installation::new("one").mark(UID, 7, "ns", &long) {
            assert!(key.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{key}");
            assert!(value.len() <= 63 && !value.ends_with('-'), "{value}");
            assert!(value.bytes().all(is_name_byte), "{value}");
        }
    }

    #[test]
    fn an_entry_name_that_breaks_the_rule_is_refused_with_the_rule() {
        assert!("kubernetes-2".parse::<EntryName>().is_ok());
        for bad in ["", "Upper", "under_score", &"x".repeat(21)] {
            let error = bad.parse::<EntryName>().unwrap_err().to_string();
            assert!(error.contains("[a-z0-9-]{1,20}"), "{error}");
        }
    }
}
