//! The contract as a table: each promise with a sentence for people, where it stands, whom it binds, and how it
//! is tried.

use std::pin::Pin;

use crate::{
    halt::Go,
    scenario::{
        check, create, cuts, delete, describe, foreign, get, list, places, secrets, time, together, trouble,
    },
    suite::Suite,
    trial::Trial,
};

/// Tries a promise.
pub(crate) type Scenario = for<'t, 's> fn(&'t mut Trial<'s>) -> Pin<Box<dyn Future<Output = Go> + 't>>;

/// What a promise is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// What a component says of itself.
    Description,
    /// Create.
    Create,
    /// Get, and what looking does.
    Get,
    /// Delete.
    Delete,
    /// List, and collecting.
    List,
    /// Check.
    Check,
    /// What is not ours.
    Foreign,
    /// What goes wrong once.
    Trouble,
    /// The host dies.
    Interruption,
    /// Another revision takes over.
    HandOver,
    /// Two hosts at once.
    Together,
    /// Several places.
    Places,
    /// What must not come out.
    Secrets,
    /// Time.
    Time,
}

impl Group {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Description => "description",
            Self::Create => "create",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
            Self::Check => "check",
            Self::Foreign => "foreign",
            Self::Trouble => "trouble",
            Self::Interruption => "interruption",
            Self::HandOver => "hand-over",
            Self::Together => "two at once",
            Self::Places => "places",
            Self::Secrets => "secrets",
            Self::Time => "time",
        }
    }
}

/// See the module.
pub struct Promise {
    /// For `--only`, and for programs.
    pub id: &'static str,
    /// What it is about.
    pub group: Group,
    /// What is promised, for people.
    pub says: &'static str,
    /// Where it stands in the contract or the design.
    pub stands: &'static str,
    /// The profile that it binds: axis and value. None for every provider.
    pub binds: Option<(&'static str, &'static str)>,
    pub(crate) scenario: Scenario,
}

impl Promise {
    /// Why it says nothing about this component, if it does not.
    pub(crate) fn silent_about(&self, suite: &Suite) -> Option<String> {
        let (axis, value) = self.binds?;
        let said =
            suite.description().profile.get(axis).and_then(serde_json::Value::as_str).unwrap_or("nothing");
        (said != value).then(|| format!("the profile says {axis} {said}, and the promise is about {value}"))
    }
}

macro_rules! promises {
    ($($group:ident { $($id:literal $([$axis:literal = $value:literal])? : $scenario:path, $says:literal, $stands:literal;)+ })+) => {
        /// The table, in its order.
        static ALL: &[Promise] = &[$($(
            Promise {
                id: $id,
                group: Group::$group,
                says: $says,
                stands: $stands,
                binds: promises!(@ $($axis, $value)?),
                scenario: |trial| Box::pin($scenario(trial)),
            },
        )+)+];
    };
    (@) => { None };
    (@ $axis:literal, $value:literal) => { Some(($axis, $value)) };
}

promises! {
    Description {
        "profile-is-known": describe::profile_is_known,
            "describe declares one known value for each axis of the profile, and no other axis.",
            "contract, Profile";
        "profile-is-true": describe::profile_is_true,
            "What the profile declares of names and of what stands beside an instance is what the backend shows.",
            "contract, Profile";
        "config-faults-are-all-told": describe::every_fault_is_named,
            "configure names every fault of a config with its path, not only the first.",
            "contract, Exports, configure";
    }
    Create {
        "create-is-repeatable": create::is_repeatable,
            "create of what is made, with or without what was kept of it, answers the same id and makes nothing.",
            "contract, Exports, create: idempotent";
        "create-marks-first": create::marks_at_once,
            "The mark comes with the instance, in the very call that makes it; what can bear none bears the name.",
            "contract, A Proxy's life: the mark comes with the instance";
        "create-keeps-its-id": create::id_stays,
            "The id that create tells first is the id that stays.",
            "wit, created: the instance's id as soon as it is known";
        "create-done-means-running": create::done_means_it_runs,
            "create is done once the instance runs, and not before.",
            "design 3, create: done once the instance runs";
        "create-honours-placement": create::placement_is_honoured_or_refused,
            "A placement that can't be honoured is refused by its field's name, before the backend is asked.",
            "contract, Exports, create: refused before any backend call";
        "create-honours-user-data": create::user_data_is_honoured_or_refused,
            "User-data goes through byte for byte, or is refused before the backend is asked.",
            "contract, Exports, create: byte for byte";
        "create-waits-for-removal": create::waits_for_what_is_being_removed,
            "An instance that is being removed makes create transient, deleting; afterwards it is made.",
            "contract, Exports, create: one being deleted";
        "create-tells-the-finished": create::says_finished,
            "An instance that can't be started again makes create permanent, finished.",
            "contract, Exports, create: one that can't be started again";
        "create-makes-the-vanished-again": create::makes_again_what_vanishes,
            "What vanishes while it is made is made again, and is never told as not-found.",
            "contract, Exports, create: never not-found; look, then act";
    }
    Get {
        "get-shows-it-running": get::shows_it_running,
            "What create has done is running, with an address, within what the profile's readiness allows.",
            "contract, Exports, get; Profile, readiness";
        "get-tells-mark-and-age": get::tells_mark_and_age,
            "get reads back the mark as it was written, in its order, and when the instance was made.",
            "wit, instance: mark, created-ms";
        "get-gone-is-not-found": get::gone_is_not_found,
            "What is gone, whoever removed it, is not-found.",
            "contract, Exports, get: not-found";
        "get-running-has-address": get::runs_only_with_an_address,
            "An instance without an address is provisioning, not running.",
            "contract, Exports, get: running only with an address";
        "get-unknown-is-stopped": get::unknown_is_stopped,
            "A state that nobody knows is stopped.",
            "contract, Exports, get: an unknown state too";
        "get-ended-is-stopped": get::ended_is_stopped,
            "An instance that ended is stopped.",
            "wit, state: stands still, for whatever reason";
        "get-removal-is-deleting": get::being_removed_is_deleting,
            "An instance that is being removed is deleting, however it looks otherwise.",
            "wit, state: being removed";
        "looking-changes-nothing": get::changes_nothing,
            "get, list and check write nothing, whatever they find.",
            "contract, Imports: read and write; Exports, check: changes nothing";
    }
    Delete {
        "delete-is-repeatable": delete::is_repeatable,
            "delete of what is gone, or never was, is done.",
            "contract, Exports, delete: idempotent";
        "delete-done-means-nothing-left": delete::done_means_nothing_is_left,
            "delete is done when nothing is left, secondary resources and what is on its way out included.",
            "contract, A Proxy's life, 5: nothing is left";
        "delete-needs-no-id": delete::finds_it_without_an_id,
            "Without an id, delete finds what create made.",
            "contract, Exports, delete: without an id it looks at every place";
        "malformed-id-is-permanent": delete::malformed_id_is_permanent,
            "An id that the provider can't have made is a permanent failure, and never done or not-found.",
            "specification, entry 21: malformed ID";
        "strange-progress-is-ignored": delete::strange_progress_is_ignored,
            "Progress that can't be read is as good as none.",
            "contract, A Proxy's life: what can't be read is ignored";
    }
    List {
        "list-shows-all": list::shows_all_it_owns,
            "list shows every instance of this installation once, with id, mark and age, however small a page is.",
            "contract, Exports, list";
        "list-shows-leftovers": list::shows_leftovers,
            "What an instance left behind is listed as what it is, and can be collected.",
            "contract, Exports, list: instances and leftovers";
        "list-can-be-collected": list::shows_what_can_be_collected,
            "What is listed can be deleted by the item's name, id and mark alone.",
            "contract, A Proxy's life, 6";
        "list-unread-is-not-empty": list::unread_is_not_empty,
            "What could not be read is named, or the list fails: it is never taken for empty.",
            "contract, Exports, list: never taken for empty";
        "list-knows-its-cursors": list::strange_cursors_are_not_the_end,
            "A cursor that expired, or that another revision wrote, is never the silent end of a list.",
            "wit, list: where to go on";
        "unknown-place-is-refused": list::unknown_place_is_refused,
            "A place that is not in the config is neither listed as empty nor ready.",
            "contract, Exports, list and check";
    }
    Check {
        "check-sound-is-ready": check::a_sound_place_is_ready,
            "A place that could serve a create is ready, reachable.",
            "contract, Exports, check; Reasons of a health";
        "check-broken-is-not-ready": check::a_broken_place_is_not_ready,
            "A place that can't be reached or answers nonsense is not ready, with the contract's reason for it.",
            "contract, Reasons of a health";
        "check-missing-rights": check::missing_rights_are_not_ready,
            "A place that lets us look and not make is not ready.",
            "contract, Exports, check: whether the place could serve a create";
    }
    Foreign {
        "foreign-is-not-adopted": foreign::is_never_adopted,
            "Our name without our mark, or with that of another installation, UID or incarnation, or with a mangled \
             one, makes create permanent, foreign, and nothing is touched.",
            "contract, Exports, create: adopts only this-target";
        "foreign-is-not-shown": foreign::is_never_shown_as_ours,
            "Of the same, get is permanent, foreign.",
            "contract, Exports, get: another's mark on our name";
        "foreign-is-not-removed": foreign::is_never_removed,
            "Of the same, be it the whole instance or one part of it, delete touches nothing and is permanent, foreign.",
            "contract, Exports, delete: verifies name, mark and UID";
        "foreign-is-named": foreign::is_named,
            "The error names the instance, our mark and the one that stands there.",
            "contract, Exports, create: naming both";
        "foreign-is-not-listed": foreign::is_never_listed,
            "list shows nothing of another installation, and nothing that is not marked as ours.",
            "contract, Exports, list: what this installation owns";
    }
    Trouble {
        "trouble-is-transient": trouble::is_transient,
            "What is not understood is transient: a refused, lost, late, cut, garbled or rate-limited answer.",
            "contract, Failures: what is not understood is transient";
        "trouble-is-not-absence": trouble::is_never_gone,
            "Nothing that goes wrong on the way makes an instance not-found.",
            "contract, Exports, get: only when the backend says that it is gone";
        "trouble-is-named": trouble::is_named,
            "A failure's message names the instance or the place, and what happened.",
            "contract, Failures: the message names the thing, the cause and the way out";
        "hints-are-passed-on": trouble::hints_are_passed_on,
            "When the backend says when to come back, the failure says so too.",
            "wit, error: retry-ms";
        "trouble-in-create-is-overcome": trouble::a_create_is_done_in_the_end,
            "Whatever goes wrong once at any call of create, before or after its effect: one instance in the end.",
            "design 6, 1";
        "trouble-in-delete-is-overcome": trouble::a_delete_is_done_in_the_end,
            "Whatever goes wrong once at any call of delete, before or after its effect: nothing is left in the end.",
            "design 6, 1";
        "quota-is-told-apart" ["quota" = "detected"]: trouble::want_of_room_is_told_apart,
            "Want of room is quota-exceeded, and create goes on when there is room.",
            "contract, Failures; Profile, quota";
        "missing-right-is-permanent": trouble::a_missing_right_is_permanent,
            "A right that is missing makes create permanent, forbidden, and it goes on once the right is there.",
            "contract, Reasons of a failure: forbidden";
    }
    Interruption {
        "cut-create-is-taken-up": cuts::create_is_taken_up,
            "The host dies at any point of create: nothing is lost, and a fresh one ends with exactly one instance.",
            "design 6, 1";
        "cut-create-can-be-deleted": cuts::create_can_be_deleted,
            "The host dies at any point of create, and delete by what was kept leaves nothing.",
            "contract, A Proxy's life: say it before you use it";
        "cut-create-can-be-collected": cuts::create_can_be_collected,
            "The host dies at any point of create, its Proxy goes, and the collector finds and removes what is there.",
            "design 6, 1: no leftover that the collector cannot see";
        "cut-delete-is-taken-up": cuts::delete_is_taken_up,
            "The host dies at any point of delete: what is left is listed, and a fresh one leaves nothing.",
            "design 6, 1";
        "cut-replacement-is-taken-up": cuts::replacement_is_taken_up,
            "The host dies at any point of a replacement: the new incarnation alone is there in the end.",
            "contract, Names and marks: a replacement never meets its predecessor";
        "cut-collecting-is-taken-up": cuts::collecting_is_taken_up,
            "The host dies at any point of list and collect: what has an owner stays, and nothing else.",
            "design 6, 1";
    }
    HandOver {
        "handed-over-create-is-taken-up": cuts::create_is_handed_over,
            "At any point of create another revision takes over, or takes it back: exactly one instance.",
            "design 6, 5";
        "handed-over-create-can-be-deleted": cuts::create_is_handed_over_to_delete,
            "At any point of create another revision deletes instead: nothing is left.",
            "design 6, 5: create by one, delete by the other";
        "handed-over-delete-is-taken-up": cuts::delete_is_handed_over,
            "At any point of delete another revision takes over, or takes it back: nothing is left.",
            "design 6, 5";
    }
    Together {
        "two-creates-make-one": together::two_creates,
            "Two hosts that create one target, switching at any call, make one instance.",
            "design 6, 1";
        "two-deletes-leave-nothing": together::two_deletes,
            "Two hosts that delete one target, switching at any call, leave nothing.",
            "design 6, 1";
        "create-beside-delete-is-found": together::create_beside_delete,
            "A create beside a delete, switching at any call, leaves at most one instance, and the collector finds all.",
            "design 6, 1";
    }
    Places {
        "dead-place-costs-itself": places::a_dead_place_costs_only_itself,
            "A place that is dead, slow or answers nonsense costs the other places nothing.",
            "design 3: a dead place costs only itself";
        "unread-place-is-not-empty": places::an_unread_place_is_not_empty,
            "Without an id, delete is not done while a place can't be read.",
            "contract, Exports, delete: one that can't be read is transient";
    }
    Secrets {
        "user-data-stays-inside": secrets::user_data_stays_inside,
            "No line of user-data stands in an answer, an error, a log, a span, a name or a mark.",
            "design 6, 3";
        "credentials-stay-inside": secrets::credentials_stay_inside,
            "Nothing of others' secrets at the backend stands in an answer, an error, a log, a span, a name or a mark.",
            "design 6, 3";
    }
    Time {
        "steps-are-short": time::steps_are_short,
            "Where the backend answers at once, no call waits: what the backend does by itself is pending.",
            "contract, A Proxy's life, 3: each call is one short step";
        "dead-place-is-not-asked-again": time::a_dead_place_is_not_asked_again,
            "A place that does not answer holds a call for one deadline or two: it is not asked again and again.",
            "contract, Exports, check: fast; Imports: the next step looks";
        "slowness-is-got-on-with": time::slowness_is_got_on_with,
            "A backend so slow that the host cuts calls off is got on with all the same.",
            "contract, A Proxy's life: safe to be cut off anywhere";
        "waiting-is-patient": time::waiting_is_patient,
            "Who waits for what does not come asks with patience.",
            "wit, pending: when to call again";
    }
}

/// Every promise there is.
pub fn all() -> &'static [Promise] {
    ALL
}
