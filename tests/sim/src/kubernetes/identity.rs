//! Identities that a seed decides: UIDs, container ids, generated names.

use std::fmt::Write;

use crate::random::Random;

/// Hexadecimal digits.
pub(super) fn hex(random: &mut Random, digits: usize) -> String {
    let mut text = String::new();
    while text.len() < digits {
        // Writing to a String can't fail.
        let _ = write!(text, "{:016x}", random.draw());
    }
    text.truncate(digits);
    text
}

/// A version 4 UUID.
pub(super) fn uuid(random: &mut Random) -> String {
    let (high, low) = (random.draw(), random.draw());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// What is put behind a generated name: no vowels, so no words.
pub(super) fn suffix(random: &mut Random) -> String {
    const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    let mut letter = || {
        let at = usize::try_from(random.below(27)).unwrap_or(0);
        LETTERS.chars().nth(at).unwrap_or('x')
    };
    (0..5).map(|_| letter()).collect()
}
