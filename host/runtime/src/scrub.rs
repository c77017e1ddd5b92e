//! No line of user-data leaves a create call.
//!
//! User-data holds keys and passwords; a provider passes it on and has no reason to say any of it. Should
//! one quote it all the same (an API's error that repeats the request, a panic with a debug print), the
//! host strikes it out of whatever leaves the call: answers, errors, log lines. Lines are found verbatim,
//! as JSON strings, and in base64 at each of the three ways that base64 can fall on them.
//!
//! Who writes a recording of host calls strikes out of it by the same rules.

use std::{borrow::Cow, collections::HashSet, sync::OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::{
    Engine as _,
    alphabet::{STANDARD, URL_SAFE},
    engine::{GeneralPurpose, general_purpose::NO_PAD},
};
use serde_json::Value;

/// Shorter lines say nothing (`---`, `users:`) and stand everywhere.
const SHORTEST: usize = 12;
/// What stands in their place.
const STRUCK: &str = "[user-data]";
/// The first bytes of a pattern, by which most texts are cleared without a search.
const PREFIX: usize = 8;

const ALPHABETS: [GeneralPurpose; 2] =
    [GeneralPurpose::new(&STANDARD, NO_PAD), GeneralPurpose::new(&URL_SAFE, NO_PAD)];

/// Knows one call's user-data, or another secret, and strikes it out.
pub struct Scrubber {
    patterns: Vec<Vec<u8>>,
    prefixes: HashSet<[u8; PREFIX]>,
    /// Costs more to build than most creates take, and is hardly ever needed.
    search: OnceLock<Option<AhoCorasick>>,
}

impl Scrubber {
    /// None when there is nothing to strike out.
    pub fn new(user_data: &[u8]) -> Option<Self> {
        let mut patterns = HashSet::new();
        for line in user_data.split(|byte| matches!(byte, b'\n' | b'\r')) {
            // Whoever quotes a line may indent it otherwise.
            let line = line.trim_ascii();
            if line.len() >= SHORTEST {
                forms(line, &mut patterns);
            }
        }
        let prefix = |pattern: &Vec<u8>| pattern.first_chunk::<PREFIX>().copied();
        let prefixes: HashSet<_> = patterns.iter().filter_map(prefix).collect();
        (!prefixes.is_empty()).then(|| Self {
            patterns: patterns.into_iter().collect(),
            prefixes,
            search: OnceLock::new(),
        })
    }

    /// The text without user-data.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text
            .as_bytes()
            .windows(PREFIX)
            .any(|window| window.first_chunk::<PREFIX>().is_some_and(|window| self.prefixes.contains(window)))
        {
            return Cow::Borrowed(text);
        }
        match self.search.get_or_init(|| self.build()) {
            Some(search) if search.is_match(text) => {
                let mut clean = Vec::with_capacity(text.len());
                search.replace_all_with_bytes(text.as_bytes(), &mut clean, |_, _, clean| {
                    clean.extend_from_slice(STRUCK.as_bytes());
                    true
                });
                // A pattern may begin or end within a character of the text only if user-data is no UTF-8.
                Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
            }
            Some(_) => Cow::Borrowed(text),
            // What can't be searched isn't let out.
            None => Cow::Owned(STRUCK.to_owned()),
        }
    }

    /// The value without user-data, keys included.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.json(value)),
            Value::Object(object) => {
                let clean = std::mem::take(object).into_iter().map(|(mut key, mut value)| {
                    self.string(&mut key);
                    self.json(&mut value);
                    (key, value)
                });
                *object = clean.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// In place.
    pub fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    fn build(&self) -> Option<AhoCorasick> {
        AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::NoncontiguousNFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(&self.patterns)
            .ok()
    }
}

/// Every way in which a line may be written down.
fn forms(line: &[u8], patterns: &mut HashSet<Vec<u8>>) {
    patterns.insert(line.to_vec());
    // A JSON string in a JSON string, too: an API's error quotes a request that holds an annotation.
    let mut escaped = String::from_utf8_lossy(line).into_owned();
    for _ in 0..2 {
        escaped = json_escaped(&escaped);
        patterns.insert(escaped.clone().into_bytes());
    }
    for engine in &ALPHABETS {
        for offset in 0..3_usize {
            patterns.insert(base64_inside(engine, line, offset));
        }
    }
}

fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// What is certain to stand in any base64 of bytes that hold `line` at `offset` modulo 3: the characters
/// that depend on `line` alone.
fn base64_inside(engine: &GeneralPurpose, line: &[u8], offset: usize) -> Vec<u8> {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(line);
    let encoded = engine.encode(&bytes);
    // Each character holds six bits; `first` is the first one without a bit of what stands before.
    let first = (offset * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    encoded.as_bytes().get(first..last).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "password: \"hunter2\" \\ and ümlauts ???>>>";

    fn scrubber() -> Scrubber {
        let user_data = format!("#cloud-config\n---\n  {SECRET}\r\nshort\n");
        Scrubber::new(user_data.as_bytes()).unwrap()
    }

    fn struck(text: &str) -> bool {
        let clean = scrubber().text(text).into_owned();
        !clean.contains("hunter2") && clean.contains(STRUCK)
    }

    #[test]
    fn a_line_is_struck_out_verbatim_and_as_json() {
        assert!(struck(SECRET));
        assert!(struck(&format!("created with >{SECRET}< inside")));
        let json = serde_json::json!({ "data": SECRET }).to_string();
        assert!(struck(&json), "{json}");
        assert!(struck(&serde_json::json!({ "annotation": json }).to_string()));
    }

    #[test]
    fn a_line_is_struck_out_of_base64_wherever_it_falls() {
        for engine in &ALPHABETS {
            for before in ["", "x", "xy", "xyz"] {
                for after in ["", "1", "12", "123"] {
                    let text = engine.encode(format!("{before}{SECRET}{after}"));
                    let clean = scrubber().text(&text).into_owned();
                    assert!(clean.contains(STRUCK), "{before}|{after}: {clean}");
                    // What is left decodes to too little to be the line.
                    assert!(clean.len() - STRUCK.len() <= 12, "{before}|{after}: {clean}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_user_data_stays_as_it_is() {
        let scrubber = scrubber();
        for text in ["", "short", "---", "a line that is in no user-data at all", "password: \"hunter3\""] {
            assert_eq!(scrubber.text(text), text);
        }
        assert!(Scrubber::new(b"short\n---\n").is_none());
        assert!(Scrubber::new(b"").is_none());
    }

    #[test]
    fn json_is_struck_out_in_keys_and_in_depth() {
        let mut value = serde_json::json!({ "a": [{ SECRET: 1 }, SECRET, 2, null, true] });
        scrubber().json(&mut value);
        assert_eq!(value, serde_json::json!({ "a": [{ STRUCK: 1 }, STRUCK, 2, null, true] }));
    }

    #[test]
    fn user_data_that_is_no_text_is_struck_out_all_the_same() {
        let scrubber = Scrubber::new(b"\xff\xfe binary user-data \xff\n").unwrap();
        let text = ALPHABETS[0].encode(b"\xff\xfe binary user-data \xff");
        assert_eq!(scrubber.text(&text), STRUCK);
    }
}
