//! Secrets that are known by how they look, in whatever text they stand.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::redactor::STRUCK;

/// A signed token is never shorter.
const SHORTEST_TOKEN: usize = 40;
/// What follows `Bearer` and is shorter is a word of a sentence.
const SHORTEST_BEARER: usize = 16;

/// The text without private keys, signed tokens, credentials of HTTP, and passwords in addresses.
pub fn strike_looks(text: &str) -> Cow<'_, str> {
    if text.contains("PRIVATE KEY-----") {
        return Cow::Owned(STRUCK.to_owned());
    }
    let mut clean = Cow::Borrowed(text);
    for strike in [strike_tokens, strike_schemes, strike_passwords] {
        if let Some(struck) = strike(&clean) {
            clean = Cow::Owned(struck);
        }
    }
    clean
}

fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '~' | '+' | '/' | '=')
}

/// Replaces what `end` finds behind each `mark`: `end` gets the rest of the text from there, and says how much of
/// it goes. None where nothing went.
fn replace(text: &str, mark: &str, keep_mark: bool, end: impl Fn(&str) -> usize) -> Option<String> {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let from = if keep_mark { at + mark.len() } else { at };
        let (before, behind) = rest.split_at_checked(from)?;
        let length = end(behind);
        clean.push_str(before);
        if length == 0 {
            // Past the mark, which else would be found again.
            let skipped = if keep_mark { 0 } else { mark.len() };
            let (passed, left) = behind.split_at_checked(skipped)?;
            clean.push_str(passed);
            rest = left;
        } else {
            clean.push_str(STRUCK);
            rest = behind.get(length..)?;
        }
    }
    (!clean.is_empty() && clean.contains(STRUCK)).then(|| clean + rest)
}

/// `eyJhbGciOi..` with its three parts.
fn strike_tokens(text: &str) -> Option<String> {
    replace(text, "eyJ", false, |behind| {
        let legal = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let length = behind.find(|letter| !legal(letter)).unwrap_or(behind.len());
        let token = behind.get(..length).unwrap_or_default();
        if length >= SHORTEST_TOKEN && token.matches('.').count() >= 2 { length } else { 0 }
    })
}

/// `Bearer ..`, `Basic ..`
fn strike_schemes(text: &str) -> Option<String> {
    let mut clean = None;
    for scheme in ["Bearer ", "bearer ", "Basic ", "basic "] {
        let is_basic = scheme.eq_ignore_ascii_case("basic ");
        let now: &str = clean.as_deref().unwrap_or(text);
        let struck = replace(now, scheme, true, |behind| {
            let length = behind.find(|letter| !is_token(letter)).unwrap_or(behind.len());
            let word = behind.get(..length).unwrap_or_default();
            let decoded = STANDARD.decode(word).unwrap_or_default();
            let secret = if is_basic { decoded.contains(&b':') } else { length >= SHORTEST_BEARER };
            if secret { length } else { 0 }
        });
        clean = struck.or(clean);
    }
    clean
}

/// `https://user:password@host`
fn strike_passwords(text: &str) -> Option<String> {
    replace(text, "://", true, |behind| {
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '/' | '"' | '\'' | '?' | '#');
        let authority = behind.split(ends).next().unwrap_or_default();
        match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => user.len(),
            _ => 0,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl-_";

    #[test]
    fn secrets_are_known_by_their_looks_and_the_text_around_them_stays() {
        for (text, clean) in [
            (
                format!("Authorization: Bearer {TOKEN}, twice: {TOKEN}"),
                "Authorization: Bearer [redacted], twice: [redacted]",
            ),
            ("Bearer 0123456789abcdef0 was refused".to_owned(), "Bearer [redacted] was refused"),
            ("Basic YWRtaW46aHVudGVyMg== was refused".to_owned(), "Basic [redacted] was refused"),
            ("at https://admin:hunter2@host:6443/api".to_owned(), "at https://[redacted]@host:6443/api"),
            ("-----BEGIN EC PRIVATE KEY-----\nMHc".to_owned(), "[redacted]"),
        ] {
            assert_eq!(strike_looks(&text), clean);
        }
    }

    #[test]
    fn what_only_begins_like_a_secret_stays() {
        for text in [
            "Basic authentication is off, Bearer tokens too",
            "https://host/a@b",
            "https://user@host",
            "eyJ.eyJ. and so on",
            "eyJeyJ",
            "",
        ] {
            assert!(matches!(strike_looks(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
