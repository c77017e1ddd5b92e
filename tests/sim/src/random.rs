//! Draws that a seed fixes for ever: SplitMix64, which no release of a crate changes.

/// A source of draws.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed draws the same.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one; 0 where there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        // A bias of 2^-32 and less: nothing here is that large.
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// So many of these, in their order; all where there are no more.
    pub fn sample<T>(&mut self, mut of: Vec<T>, most: usize) -> Vec<T> {
        while of.len() > most {
            let drop = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
            of.remove(drop);
        }
        of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draws_of_a_seed_never_change() {
        let mut random = Random::seeded(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        // As the algorithm's author publishes them.
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(Random::seeded(0).below(0), 0);
    }

    #[test]
    fn a_sample_keeps_the_order() {
        let sample = Random::seeded(7).sample((0..100).collect(), 10);
        assert_eq!(sample.len(), 10);
        assert!(sample.is_sorted(), "{sample:?}");
    }
}
