//! What every provider is lent, whatever its backend.

use serde_json::Value;

use crate::mark::Mark;

/// Whose a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This installation, UID and incarnation.
    ThisTarget,
    /// This installation; another UID or incarnation, or the call has no target.
    ThisInstallation,
    /// The earlier operator's.
    Legacy,
    /// Anything else, an empty mark included.
    Foreign,
}

/// What the host knows and a fresh instance can't.
pub trait Context {
    /// The config that `configure` accepted.
    fn config(&self) -> Value;
    /// The provider entry's name.
    fn entry(&self) -> String;
    /// The installation's hash as it stands in every name.
    fn installation(&self) -> String;
    /// The mark to write on this call's target, in this order.
    fn mark(&self) -> Mark;
    /// The pairs that every instance of this installation bears.
    fn installation_mark(&self) -> Mark;
    /// Whose a mark read back is.
    fn verify(&self, mark: &Mark) -> Verdict;
    /// Milliseconds until the host cuts this call off.
    fn remaining_ms(&self) -> u32;
}

/// Time.
pub trait Clock {
    /// Milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;
    /// Milliseconds from an arbitrary start, never going back.
    fn monotonic_ms(&self) -> u64;
    /// Waits, at most as long as the call may last.
    fn sleep_ms(&self, ms: u32);
}

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something is wrong.
    Error,
    /// Something is odd.
    Warn,
    /// Something happened that an administrator would tell.
    Info,
    /// Detail.
    Debug,
    /// Every step.
    Trace,
}

/// Lines in the host's log. The host logs every call of a capability by itself.
pub trait Log {
    /// One line: a fixed message, values as fields.
    fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]);
}

/// A lock that is held; dropping it frees it.
pub trait Lock {}

/// Named locks of one provider entry.
pub trait Locks {
    /// None when it was not free within `wait_ms`.
    fn acquire(&self, name: &str, wait_ms: u32) -> Option<Box<dyn Lock + '_>>;
}

impl<T: Context + ?Sized> Context for &T {
    fn config(&self) -> Value {
        (**self).config()
    }
    fn entry(&self) -> String {
        (**self).entry()
    }
    fn installation(&self) -> String {
        (**self).installation()
    }
    fn mark(&self) -> Mark {
        (**self).mark()
    }
    fn installation_mark(&self) -> Mark {
        (**self).installation_mark()
    }
    fn verify(&self, mark: &Mark) -> Verdict {
        (**self).verify(mark)
    }
    fn remaining_ms(&self) -> u32 {
        (**self).remaining_ms()
    }
}

impl<T: Clock + ?Sized> Clock for &T {
    fn now_ms(&self) -> u64 {
        (**self).now_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        (**self).monotonic_ms()
    }
    fn sleep_ms(&self, ms: u32) {
        (**self).sleep_ms(ms);
    }
}

impl<T: Log + ?Sized> Log for &T {
    fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        (**self).write(level, message, fields);
    }
}

impl<T: Locks + ?Sized> Locks for &T {
    fn acquire(&self, name: &str, wait_ms: u32) -> Option<Box<dyn Lock + '_>> {
        (**self).acquire(name, wait_ms)
    }
}
