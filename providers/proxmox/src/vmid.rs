//! The numbers of machines.
//!
//! Proxmox VE knows a machine by a number that people hand out as well. Ours is derived from the target,
//! so that a create begun again looks first where the one before it worked; a taken number leads to
//! the next one. What stands at a number is always looked at before it is used.

/// What the API allows.
const LOWEST: u32 = 100;
const HIGHEST: u32 = 999_999_999;

/// The numbers that an entry may use, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    first: u32,
    last: u32,
}

impl Range {
    /// None where the API would refuse an end, or where there is no number between them.
    pub fn new(first: u32, last: u32) -> Option<Self> {
        (LOWEST <= first && first <= last && last <= HIGHEST).then_some(Self { first, last })
    }

    /// Of two numbers that are known to be in order.
    pub(crate) const fn between(first: u32, last: u32) -> Self {
        Self { first, last }
    }

    /// How many numbers there are: at least one.
    fn len(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Where to look for a target, each number once, beginning with the target's own.
    pub fn candidates(self, target: &str) -> impl Iterator<Item = u32> {
        let start = fnv1a(target) % self.len();
        // Below the range's length, which fits: both ends are u32.
        (0..self.len()).map(move |step| self.first + ((start + step) % self.len()) as u32)
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.first, self.last)
    }
}

/// FNV-1a: stable for ever, since a create that another version began is to be found by this one.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn every_number_of_the_range_is_tried_once_and_none_outside() {
        let range = Range::new(100, 107).unwrap();
        let mut tried: Vec<u32> = range.candidates("proxy-a").collect();
        assert_eq!(tried.first(), range.candidates("proxy-a").next().as_ref(), "the same start each time");
        tried.sort_unstable();
        assert_eq!(tried, (100..=107).collect::<Vec<_>>());
    }

    #[test]
    fn a_range_that_the_api_would_refuse_is_none() {
        assert_eq!(Range::new(99, 200), None);
        assert_eq!(Range::new(200, 199), None);
        assert_eq!(Range::new(100, 1_000_000_000), None);
        assert!(Range::new(100, 100).is_some());
    }
}
