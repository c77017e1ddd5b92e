//! Request ids: a write that is sent again with the same one answers the same operation and does nothing twice.
//!
//! Derived, not drawn, so that whoever takes a step up sends the same; from all that makes an intent another one. How
//! long Compute Engine remembers them is not documented: whatever comes of one is looked at.

use sha2::{Digest, Sha256};

/// A UUID (its form is that of version 5) of these words.
pub fn derive(words: &[&str]) -> String {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word.len().to_be_bytes());
        hash.update(word.as_bytes());
    }
    let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-5{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_intent_has_its_own_and_keeps_it() {
        let id = derive(&["insert", "us-central1-a", "proxy-a", "0"]);
        assert_eq!(id, derive(&["insert", "us-central1-a", "proxy-a", "0"]));
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        for other in
            [["insert", "us-central1-a", "proxy-a", "1"], ["delete", "us-central1-a", "proxy-a", "0"]]
        {
            assert_ne!(derive(&other), id);
        }
        assert_ne!(derive(&["ab", "c"]), derive(&["a", "bc"]));
    }
}
