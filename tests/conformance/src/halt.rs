//! Why a scenario ended before its end.

use egress_sim::backend::Unable;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The promise is broken: what was seen instead.
    Broken(String),
    /// It says nothing here, or can't be tried here: why.
    Skipped(String),
    /// The suite could not do its part.
    Failed(String),
    /// The host died, as the plan wanted.
    Died,
}

impl From<Unable> for Halt {
    fn from(unable: Unable) -> Self {
        match unable {
            Unable::NotHere(why) => Self::Skipped(why),
            Unable::Failed(why) => Self::Failed(why),
        }
    }
}

/// How a part of a scenario ends.
pub type Go<T = ()> = Result<T, Halt>;

/// What must hold, or the promise is broken.
pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Go {
    if holds { Ok(()) } else { Err(Halt::Broken(otherwise())) }
}

/// Ends the scenario: the promise is broken.
pub fn broken<T>(why: impl Into<String>) -> Go<T> {
    Err(Halt::Broken(why.into()))
}

/// Ends the scenario: it says nothing here.
pub fn skip<T>(why: impl Into<String>) -> Go<T> {
    Err(Halt::Skipped(why.into()))
}
