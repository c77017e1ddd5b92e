//! What is to become of one thing that a backend shows, and why, in words for people.

use std::{fmt, time::Duration};

use egress_contract::{Installation, InstanceName, Item, MARK_INSTALLATION, MARK_NAMESPACE, MARK_UID, Mark};
use jiff::Timestamp;

use super::census::Census;
use crate::core::store::ProxyKey;

/// Whether anybody owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A Proxy does.
    Owned(ProxyKey),
    /// Another installation's, or nobody's that is known here: never touched.
    Foreign,
    /// Its Proxy may live in a namespace that is not watched here.
    Unwatched,
    /// Its Proxy is there, and can't be read.
    Unreadable(ProxyKey),
    /// Nobody does.
    Ownerless {
        /// It stood there before this cluster had the kind Proxy: its Proxy may live elsewhere.
        before_kind: bool,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owned(key) => write!(f, "belongs to Proxy {key}"),
            Self::Foreign => f.write_str("is not this installation's"),
            Self::Unwatched => {
                f.write_str("its Proxy may live in a namespace that this operator does not watch")
            }
            Self::Unreadable(key) => write!(f, "belongs to Proxy {key}, whose status can't be read"),
            Self::Ownerless { .. } => f.write_str("nobody owns it"),
        }
    }
}

/// Judges by who it says it is and by who is there. An age that is not known is taken from `seen`, when it
/// was first seen.
pub fn judge(item: &Item, seen: Timestamp, census: &Census, installation: &Installation) -> Verdict {
    if !is_ours(item, installation) {
        return Verdict::Foreign;
    }
    if let Some(owner) = census.owner_of(&item.name, &item.id) {
        return Verdict::Owned(owner.clone());
    }
    if let Some(owner) = value(&item.mark, MARK_UID).and_then(|uid| census.unreadable(uid)) {
        return Verdict::Unreadable(owner.clone());
    }
    let watched = match value(&item.mark, MARK_NAMESPACE) {
        Some(namespace) => census.reads(namespace),
        // What is shared has no Proxy anywhere: its provider lists it when nothing uses it.
        None => census.is_whole() || InstanceName::read_back(&item.name).is_ok_and(|name| name.is_shared()),
    };
    if !watched {
        return Verdict::Unwatched;
    }
    Verdict::Ownerless { before_kind: made(item).unwrap_or(seen) < census.since() }
}

/// When it was made, if the backend knows.
pub fn made(item: &Item) -> Option<Timestamp> {
    let ms = i64::try_from(item.created_ms?).ok()?;
    Timestamp::from_millisecond(ms).ok()
}

/// A mark says whose it is; what can't bear one has the name alone.
fn is_ours(item: &Item, installation: &Installation) -> bool {
    match value(&item.mark, MARK_INSTALLATION) {
        Some(hash) => hash == installation.hash(),
        None => InstanceName::read_back(&item.name).is_ok_and(|name| installation.made(&name)),
    }
}

/// A pair that stands there twice says nothing.
pub fn value<'m>(mark: &'m Mark, key: &str) -> Option<&'m str> {
    let mut values = mark.iter().filter(|(name, _)| name == key);
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

/// What becomes of something that nobody owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The next sweep decides.
    SeenOnce,
    /// It is too young.
    Grace(Duration),
    /// Too many at once: people are asked.
    Asked,
    /// The entry wants to be told only.
    DryRun,
    /// Its entry was removed, and only tells.
    EntryRemoved,
    /// It is being removed; the provider's word.
    Going(String),
    /// It is gone.
    Removed,
    /// It could not be removed: the next sweep tries again.
    Failed(String),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeenOnce => f.write_str("seen for the first time; the next sweep decides"),
            Self::Grace(left) => write!(f, "in its grace for {} s more", left.as_secs()),
            Self::Asked => f.write_str("waits for your word"),
            Self::DryRun => f.write_str("stays, since the entry has collect.dryRun"),
            Self::EntryRemoved => f.write_str(
                "stays, since its entry was removed: put the entry back to have it collected, or remove it at the \
                 backend",
            ),
            Self::Going(message) if message.is_empty() => f.write_str("is being removed"),
            Self::Going(message) => write!(f, "is being removed: {message}"),
            Self::Removed => f.write_str("removed"),
            Self::Failed(message) => write!(f, "could not be removed: {message}"),
        }
    }
}
