//! Whom a known_hosts file trusts, with OpenSSH's meaning.
//!
//! A line is `[marker] hosts type key [comment]`, its fields apart by any run of blanks. Hosts are patterns with
//! `*`, `?` and `!`, or one hashed name. A port other than 22 belongs to the name: `[host]:port`; where such a name
//! is not known, a key that is known for the host alone is taken too. Of several keys one must fit. A revoked key
//! is refused whatever else stands there.
//!
//! Unlike OpenSSH, which skips them, a line that can't be read fails the whole file: it may be the one that
//! revokes. Lines of key types that are not spoken here can't matter.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use russh::keys::{Algorithm, HashAlg, PublicKey};
use sha1::Sha1;

/// A line that can't be read. Its text is not told: it may be a key that went into the wrong file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// As an editor counts.
    pub(super) line: usize,
    pub(super) kind: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

/// Why a key is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Distrust {
    /// The host stands in no line.
    Unknown,
    /// Only keys of other types are known.
    OtherType { line: usize },
    /// Another key is known.
    Changed { line: usize },
    /// It is revoked.
    Revoked { line: usize },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("has no key for it"),
            Self::OtherType { line } => write!(f, "has a key of another type for it (line {line})"),
            Self::Changed { line } => write!(f, "has another key for it (line {line})"),
            Self::Revoked { line } => write!(f, "revokes that key (line {line})"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    Trusted,
    Revoked,
    /// Vouches for certificates, which are not asked for.
    Authority,
}

enum Hosts {
    Patterns(Vec<(bool, String)>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

struct Entry {
    line: usize,
    marker: Marker,
    hosts: Hosts,
    key: PublicKey,
}

/// See the module.
pub(super) struct KnownHosts(Vec<Entry>);

impl KnownHosts {
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let mut entries = Vec::new();
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let entry = parse_line(text).map_err(|kind| Malformed { line, kind })?;
            entries.extend(entry.map(|(marker, hosts, key)| Entry { line, marker, hosts, key }));
        }
        Ok(Self(entries))
    }

    /// What to ask the host for: the types of its known keys. OpenSSH does the same, or a host with a new key of a
    /// better type would look like another.
    pub(super) fn algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        let mut algorithms = Vec::new();
        for entry in names(host, port).iter().flat_map(|name| self.of(name, Marker::Trusted)) {
            let of_key = match entry.key.algorithm() {
                Algorithm::Rsa { .. } => vec![
                    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
                    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
                ],
                other => vec![other],
            };
            for algorithm in of_key {
                if !algorithms.contains(&algorithm) {
                    algorithms.push(algorithm);
                }
            }
        }
        algorithms
    }

    pub(super) fn check(&self, host: &str, port: u16, key: &PublicKey) -> Result<(), Distrust> {
        let mut worst = Distrust::Unknown;
        let mut trusted = false;
        for (index, name) in names(host, port).iter().enumerate() {
            if let Some(revoked) = self.of(name, Marker::Revoked).find(|entry| is_same(&entry.key, key)) {
                return Err(Distrust::Revoked { line: revoked.line });
            }
            // The host alone counts only where its port is not known.
            if trusted || (index > 0 && worst != Distrust::Unknown) {
                continue;
            }
            for entry in self.of(name, Marker::Trusted) {
                trusted |= is_same(&entry.key, key);
                worst = match worst {
                    Distrust::Changed { line } => Distrust::Changed { line },
                    _ if entry.key.algorithm() == key.algorithm() => Distrust::Changed { line: entry.line },
                    Distrust::OtherType { line } => Distrust::OtherType { line },
                    _ => Distrust::OtherType { line: entry.line },
                };
            }
        }
        if trusted { Ok(()) } else { Err(worst) }
    }

    fn of<'a>(&'a self, name: &'a str, marker: Marker) -> impl Iterator<Item = &'a Entry> {
        self.0.iter().filter(move |entry| entry.marker == marker && entry.hosts.include(name))
    }
}

/// The comment is not part of a key.
fn is_same(known: &PublicKey, key: &PublicKey) -> bool {
    known.key_data() == key.key_data()
}

/// As the file may know it, the closer first.
fn names(host: &str, port: u16) -> Vec<String> {
    let host = host.to_ascii_lowercase();
    if port == 22 { vec![host] } else { vec![format!("[{host}]:{port}"), host] }
}

type Fields = (Marker, Hosts, PublicKey);

fn parse_line(text: &str) -> Result<Option<Fields>, &'static str> {
    let mut fields = text.split_ascii_whitespace();
    let Some(first) = fields.next().filter(|first| !first.starts_with('#')) else { return Ok(None) };
    let (marker, hosts) = match first.strip_prefix('@') {
        None => (Marker::Trusted, Some(first)),
        Some("revoked") => (Marker::Revoked, fields.next()),
        Some("cert-authority") => (Marker::Authority, fields.next()),
        Some(_) => return Err("an unknown marker"),
    };
    let hosts = parse_hosts(hosts.ok_or("no host")?)?;
    let named = fields.next().ok_or("no key type")?;
    let key = fields.next().ok_or("no key")?;
    if named.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None); // of the first version of SSH
    }
    let bytes = STANDARD.decode(key).map_err(|_| "a key that is not base64")?;
    let Ok(algorithm) = Algorithm::new(named) else { return Ok(None) };
    if matches!(algorithm, Algorithm::Other(_)) {
        return Ok(None);
    }
    let key = PublicKey::from_bytes(&bytes).map_err(|_| "a key that can't be read")?;
    if key.algorithm() != algorithm {
        return Err("a key of another type than the line says");
    }
    Ok(Some((marker, hosts, key)))
}

fn parse_hosts(field: &str) -> Result<Hosts, &'static str> {
    let Some(hashed) = field.strip_prefix('|') else {
        let pattern = |pattern: &str| match pattern.strip_prefix('!') {
            Some(pattern) => (false, pattern.to_ascii_lowercase()),
            None => (true, pattern.to_ascii_lowercase()),
        };
        return Ok(Hosts::Patterns(field.split(',').map(pattern).collect()));
    };
    let parts: Vec<&str> = hashed.split('|').collect();
    let ["1", salt, hash] = parts.as_slice() else { return Err("a hashed name of an unknown form") };
    let decode = |part: &str| STANDARD.decode(part).map_err(|_| "a hashed name that is not base64");
    Ok(Hosts::Hashed { salt: decode(salt)?, hash: decode(hash)? })
}

impl Hosts {
    fn include(&self, name: &str) -> bool {
        match self {
            Self::Hashed { salt, hash } => {
                hashed(salt, name).is_some_and(|mac| mac.verify_slice(hash).is_ok())
            }
            Self::Patterns(patterns) => {
                let fits = |(_, pattern): &&(bool, String)| matches(pattern.as_bytes(), name.as_bytes());
                let mut fitting = patterns.iter().filter(fits).peekable();
                fitting.peek().is_some() && fitting.all(|(wanted, _)| *wanted)
            }
        }
    }
}

fn hashed(salt: &[u8], name: &str) -> Option<Hmac<Sha1>> {
    let mut mac = Hmac::<Sha1>::new_from_slice(salt).ok()?;
    mac.update(name.as_bytes());
    Some(mac)
}

/// Whether a pattern with `*` and `?` fits; steps back to the last `*` alone, so that it ends soon.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while let Some(byte) = name.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((before, taken)) => {
                    star = Some((before, taken + 1));
                    (at, from) = (before + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
