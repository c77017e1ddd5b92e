//! Locks by name, made when somebody asks and forgotten when nobody does.
//!
//! They serve twice: calls about one target never overlap, and a guest may take named locks of its entry.
//! A lock is a value: dropping it frees the name, so a trap, a timeout and a caller that gives up all free
//! what was held, because each of them drops the call's store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::OwnedMutexGuard;

#[derive(Default)]
struct Entry {
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Holder and waiters: the entry goes with the last of them.
    users: usize,
}

/// A table of locks.
#[derive(Clone, Default)]
pub(crate) struct Locks {
    entries: Arc<Mutex<HashMap<String, Entry>>>,
}

/// A name that is held.
pub struct Held {
    // First the lock is freed, then the name forgotten: fields drop in this order.
    _guard: OwnedMutexGuard<()>,
    _user: User,
}

struct User {
    table: Locks,
    name: String,
}

impl Drop for User {
    fn drop(&mut self) {
        let mut entries = self.table.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(&self.name) {
            entry.users -= 1;
            if entry.users == 0 {
                entries.remove(&self.name);
            }
        }
    }
}

impl Locks {
    /// Waits for the name; whoever came first gets it first.
    pub(crate) async fn acquire(&self, name: &str) -> Held {
        let (user, lock) = self.user(name);
        let guard = lock.lock_owned().await;
        Held { _guard: guard, _user: user }
    }

    /// The name if it is free now.
    pub(crate) fn try_acquire(&self, name: &str) -> Option<Held> {
        let (user, lock) = self.user(name);
        let guard = lock.try_lock_owned().ok()?;
        Some(Held { _guard: guard, _user: user })
    }

    fn user(&self, name: &str) -> (User, Arc<tokio::sync::Mutex<()>>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.entry(name.to_owned()).or_default();
        entry.users += 1;
        (User { table: self.clone(), name: name.to_owned() }, Arc::clone(&entry.lock))
    }

    /// How many names are known now.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_name_is_held_once_and_forgotten_with_its_last_user() {
        let locks = Locks::default();
        let first = locks.acquire("a").await;
        let mut second = Box::pin(locks.acquire("a"));
        assert!(second.as_mut().now_or_never().is_none(), "held twice");
        assert!(locks.acquire("b").now_or_never().is_some(), "another name is free");
        drop(first);
        drop(second.await);
        assert_eq!(locks.len(), 0);
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let locks = Locks::default();
        let first = locks.acquire("a").await;
        {
            let mut second = Box::pin(locks.acquire("a"));
            assert!(second.as_mut().now_or_never().is_none());
        }
        drop(first);
        assert_eq!(locks.len(), 0);
        assert!(locks.acquire("a").now_or_never().is_some());
    }
}
