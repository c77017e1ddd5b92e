//! What an entry lets people know: its view, Events, and whom it wakes.

use std::sync::Arc;

use egress_runtime::{Module, Revision};
use tracing::warn;

use super::EntryLoop;
use crate::{
    api::{ActiveRevision, Hold, RefusalStatus},
    config::Settings,
    core::store::Notice,
    view::{self, View, about},
};

impl EntryLoop {
    pub(super) async fn activated(
        &mut self,
        revision: Arc<Revision>,
        source: String,
        settings: Settings,
        module: Module,
    ) {
        let entry = self.slot.entry().to_string();
        let id = revision.id().to_string();
        let known = self.outlets.view.borrow().active.as_ref().is_some_and(|(about, _)| about.revision == id);
        if known {
            self.outlets.view.send_if_modified(|view| moved(view, source));
            return;
        }
        let about = about(&revision, source);
        let since = self.before.take().filter(|before| before.revision == id).and_then(|before| before.since);
        let about = ActiveRevision { since: since.or(about.since), ..about };
        let compared = view::shadow(&revision);
        let less = compared.as_ref().filter(|compared| !compared.differences.is_empty());
        let less = less.map(|shadow| {
            format!("; it sees less than revision {}: {}", shadow.against, shadow.differences.join("; "))
        });
        let notice = Notice {
            warning: less.is_some(),
            reason: "Activated".to_owned(),
            message: format!(
                "{} {} from {} is active as revision {id}{}",
                about.name,
                about.version,
                about.source,
                less.unwrap_or_default()
            ),
        };
        self.outlets.view.send_modify(|view| {
            // What the last process found of the same one still holds.
            if compared.is_some() || view.shadow.as_ref().is_some_and(|shadow| shadow.revision != id) {
                view.shadow = compared;
            }
            view.active = Some((about.clone(), revision));
        });
        self.unkept = Some((about, settings, module));
        self.see_to_places().await;
        // Its listener is gone only when the process ends.
        let _ = self.outlets.changes.send(entry).await;
        self.tell(notice).await;
    }

    pub(super) async fn refuse(&mut self, refusal: RefusalStatus, hold: Option<&Hold>) {
        let before = self.outlets.view.borrow().refusal.clone();
        if before.as_ref().is_some_and(|before| view::same(before, &refusal)) {
            return;
        }
        let goes_on = match (&self.outlets.view.borrow().active, hold) {
            (Some((active, _)), _) => format!("revision {} goes on", active.revision),
            (None, Some(hold)) => format!("the hold on revision {} stays", hold.revision),
            (None, None) => "nothing is active".to_owned(),
        };
        // One that the slot saw has a digest, and was logged by the runtime.
        if refusal.digest.is_none() {
            warn!(
                entry = %self.slot.entry(), stage = refusal.stage, reason = refusal.reason,
                message = refusal.message, faults = ?refusal.faults, "a candidate is refused"
            );
        }
        let untold = refusal.faults.iter().filter(|fault| !refusal.message.contains(fault.as_str()));
        let faults: String = untold.map(|fault| format!("; {fault}")).collect();
        let notice = Notice {
            warning: true,
            reason: "Refused".to_owned(),
            message: format!(
                "{} ({}): {}; {goes_on}{faults}",
                refusal.stage, refusal.reason, refusal.message
            ),
        };
        self.outlets.view.send_modify(|view| view.refusal = Some(refusal));
        self.tell(notice).await;
    }

    pub(super) async fn hold_is_over(&mut self, hold: Hold, offered: &str) {
        let message = format!(
            "the hold on revision {} is over: the source offers revision {offered}, no longer {}",
            hold.revision,
            hold.instead_of.as_deref().unwrap_or_default()
        );
        self.tell(Notice { warning: false, reason: "HoldOver".to_owned(), message }).await;
        let _ = self.outlets.holds_over.send(hold).await;
    }

    pub(super) async fn tell(&self, notice: Notice) {
        let _ = self.outlets.notices.send(notice).await;
    }
}

/// The same revision may come from somewhere else now.
fn moved(view: &mut View, source: String) -> bool {
    match &mut view.active {
        Some((about, _)) if about.source != source => {
            about.source = source;
            true
        }
        Some(_) | None => false,
    }
}
