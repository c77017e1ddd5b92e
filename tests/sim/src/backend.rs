//! What a test must know of a backend, and do to it, behind a provider's back.
//!
//! One implementation for each kind of backend, simulated or real; the suite knows no other way to look.
//! What a backend can't do it says, and whoever asked goes without.

use std::{fmt, time::Duration};

use async_trait::async_trait;

/// Something that exists at a backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thing {
    /// `pod`, `domain`, `volume`.
    pub kind: String,
    /// As the provider calls it.
    pub place: String,
    /// Within kind and place.
    pub name: String,
    /// Whether it is what serves, and not something beside it.
    pub instance: bool,
    /// Whether it is being removed.
    pub deleting: bool,
    /// The mark on it, as far as one is there: names as the contract gives them, sorted.
    pub mark: Vec<(String, String)>,
    /// What it is apart from its condition: two looks differ here if somebody changed it.
    pub content: String,
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, place, name, .. } = self;
        write!(f, "{kind} {place}/{name}")?;
        if self.deleting {
            f.write_str(" (being removed)")?;
        }
        match self.mark.as_slice() {
            [] => f.write_str(", no mark"),
            mark => {
                let pairs: Vec<String> = mark.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, ", marked {}", pairs.join(" "))
            }
        }
    }
}

/// What an administrator does to one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Removes it at once, and nothing beside it.
    Remove,
    /// Removes it, and something holds the removal up until [`Action::LetGo`].
    HoldRemoval,
    /// Lets a held removal end.
    LetGo,
    /// Pauses it, so that it must not be started by anybody else.
    Pause,
    /// Ends the pause.
    Resume,
    /// Stops it, so that it can be started again.
    Stop,
    /// Ends it, so that it can't be started again.
    Finish,
    /// Takes its addresses away, running as it is.
    TakeAddresses,
    /// Puts it into a state that no provider can know.
    Bewitch,
    /// Replaces a text wherever a mark can stand.
    EditMark {
        /// What stands there.
        from: String,
        /// What is to stand there.
        to: String,
    },
    /// Removes its mark.
    Unmark,
}

/// How a backend is as a whole, until it is lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Condition {
    /// No room for more.
    Full,
    /// It lets us look and not change anything.
    RightsMissing,
    /// What is made never comes up.
    NeverStarts,
    /// Where a list left off is forgotten at once.
    CursorsExpire,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unable {
    /// There is no such thing at this backend, or no way to do it from here.
    #[error("{0}")]
    NotHere(String),
    /// It should have worked.
    #[error("the backend could not be prepared: {0}")]
    Failed(String),
}

/// See the module.
#[async_trait]
pub trait Backend: Send + Sync {
    /// All that exists there and could come from a provider, sorted. Not through the provider's own eyes.
    async fn inventory(&self) -> Result<Vec<Thing>, Unable>;

    /// An administrator does something.
    async fn act(&self, on: &Thing, action: &Action) -> Result<(), Unable>;

    /// From now on the backend is so.
    async fn impose(&self, condition: Condition) -> Result<(), Unable>;

    /// It is so no more.
    async fn lift(&self, condition: Condition) -> Result<(), Unable>;

    /// What an instance was given as user-data; none if it was given none.
    async fn user_data(&self, of: &Thing) -> Result<Option<Vec<u8>>, Unable>;

    /// Time passes there.
    async fn let_time_pass(&self, time: Duration);
}
