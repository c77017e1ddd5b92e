//! Entries that were removed while Proxies have instances of theirs.
//!
//! Such an entry only deletes. Who has instances is read live: from the Proxies themselves, since neither the
//! process that saw the removal nor its ProviderHealth may be there any more. It ends when nobody has any.

use std::{collections::BTreeMap, time::Duration};

use egress_contract::EntryName;
use kube::ResourceExt;
use tracing::warn;

use super::{Asked, Entries, put};
use crate::{cluster::CallError, health, kube_owners::Unread};

/// Between two looks at who still has instances of a removed entry.
const LOOK: Duration = Duration::from_secs(15);
/// How many Proxies a message names.
const SOME: usize = 5;

/// Why it is not known what is to go on.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error("the Proxies of {of} can't be read: {cause}", of = .0.of, cause = .0.cause)]
    Proxies(Unread),
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The Proxies that have an instance of an entry.
type Users = BTreeMap<String, Vec<String>>;

impl Entries {
    /// Sees to what the last process showed and this one does not know, and to what was removed. Ends never.
    pub async fn take_over(&self) {
        let (mut there, mut leadership) = (self.there.subscribe(), self.shared.leadership.clone());
        let mut removed = self.removed.subscribe();
        loop {
            removed.mark_unchanged();
            let (state, term) = (*there.borrow_and_update(), *leadership.borrow_and_update());
            let done = match state {
                Some(true) => self.see_to_removed(term.is_some()).await,
                Some(false) => self.go_on_as_before().await.map_err(Unknown::from),
                None => Ok(()),
            };
            if let Err(error) = &done {
                warn!(%error, "what is not in the providers ConfigMap stays as it is for now");
            }
            tokio::select! {
                // The senders are `self`.
                _ = there.changed() => {}
                _ = removed.changed() => {}
                Ok(()) = leadership.changed() => {}
                () = tokio::time::sleep(LOOK), if done.is_err() || self.anyone_leaves() => {}
            }
        }
    }

    async fn go_on_as_before(&self) -> Result<(), CallError> {
        for left in health::left_behind(&self.shared.cluster).await? {
            // One that can't be an entry's is nobody's.
            if let Ok(entry) = left.name_any().parse() {
                self.go_on(&entry);
            }
        }
        Ok(())
    }

    async fn see_to_removed(&self, leads: bool) -> Result<(), Unknown> {
        let users = self.users().await?;
        self.leave(&users);
        for left in health::left_behind(&self.shared.cluster).await? {
            let entry: Option<EntryName> = left.name_any().parse().ok();
            if leads && !entry.is_some_and(|entry| self.knows(&entry)) {
                health::retire(&self.shared.cluster, &left).await?;
            }
        }
        Ok(())
    }

    async fn users(&self) -> Result<Users, Unknown> {
        let mut users = Users::new();
        for (_, owner) in self.shared.owners.all().await.map_err(Unknown::Proxies)? {
            if let Some(entry) = owner.entry {
                users.entry(entry).or_default().push(owner.key.to_string());
            }
        }
        Ok(users)
    }

    /// What is used goes on, what is not used any more ends.
    fn leave(&self, users: &Users) {
        let mut known = self.write();
        for (name, entry) in known.iter().filter(|(_, entry)| entry.is_leaving()) {
            match users.get(name) {
                Some(users) => entry.show_leaving(&self.shared.config_map, users),
                None => entry.ask(Asked::Removed),
            }
        }
        for (name, users) in users {
            // Of another installation's making, or by hand.
            let Ok(entry) = name.parse::<EntryName>() else { continue };
            if known.get(name).is_none_or(super::Known::is_removed) {
                let before = known.remove(name);
                let started = self.start(&entry, Asked::Leaving, before);
                started.show_leaving(&self.shared.config_map, users);
                known.insert(name.clone(), started);
            }
        }
    }

    fn anyone_leaves(&self) -> bool {
        self.read().values().any(super::Known::is_leaving)
    }
}

impl super::Known {
    pub(super) fn is_leaving(&self) -> bool {
        *self.asked.borrow() == Asked::Leaving
    }

    fn show_leaving(&self, config_map: &str, users: &[String]) {
        let some = users.iter().take(SOME).cloned().collect::<Vec<_>>().join(", ");
        let more = users.len().saturating_sub(SOME);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "ConfigMap {config_map} has this entry no longer; it makes nothing new, and stays for the instances of {} \
             Proxies: {some}{more}",
            users.len()
        );
        self.show_left(Some(message));
    }

    pub(super) fn show_left(&self, message: Option<String>) {
        self.view.send_if_modified(|view| {
            let changed = view.left != message;
            view.left = message;
            changed
        });
    }

    /// From one state to another.
    pub(super) fn ask(&self, asked: Asked) {
        put(&self.asked, asked);
    }
}
