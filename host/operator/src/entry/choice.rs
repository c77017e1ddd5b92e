//! What runs: what the source offers, or what a hold keeps.

use crate::api::Hold;

/// What the source's offer and a hold make of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Offered,
    Held(String),
    /// The source offers something new: the hold is over.
    Over,
}

pub(super) fn choose(offered: &str, hold: Option<&Hold>) -> Choice {
    match hold {
        None => Choice::Offered,
        Some(hold) if hold.instead_of.as_ref().is_none_or(|instead_of| instead_of == offered) => {
            Choice::Held(hold.revision.clone())
        }
        Some(_) => Choice::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> Hold {
        Hold { revision: "old".to_owned(), instead_of: Some("bad".to_owned()), reason: None }
    }

    #[test]
    fn a_hold_lasts_until_the_source_offers_something_new() {
        assert_eq!(choose("bad", None), Choice::Offered);
        assert_eq!(choose("bad", Some(&hold())), Choice::Held("old".to_owned()));
        assert_eq!(choose("mended", Some(&hold())), Choice::Over);
        assert_eq!(choose("old", Some(&hold())), Choice::Over);
    }

    #[test]
    fn a_hold_by_hand_lasts_whatever_the_source_offers() {
        let hold = Hold { instead_of: None, ..hold() };
        for offered in ["bad", "mended", "old"] {
            assert_eq!(choose(offered, Some(&hold)), Choice::Held("old".to_owned()));
        }
    }
}
