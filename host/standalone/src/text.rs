//! YAML, in and out.

use serde_json::Value;

/// Reads one document.
pub fn read(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())
}

/// Writes one that reads back as the same, whatever stands in it: JSON is YAML as well, and steps in where YAML's own
/// ways of writing a text would not.
pub fn write(object: &Value) -> Option<String> {
    let yaml = serde_saphyr::to_string(object).ok();
    let same = |text: &String| read(text).as_ref() == Ok(object);
    let json = || serde_json::to_string_pretty(object).ok().map(|text| text + "\n").filter(same);
    yaml.map(|text| if text.ends_with('\n') { text } else { text + "\n" }).filter(same).or_else(json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_is_written_reads_back_as_the_same() {
        for text in [
            "",
            " ",
            "no",
            "0123",
            "1e3",
            "0x10",
            "1_000",
            "~",
            "null",
            "- a",
            "a: b",
            "a #b",
            "\ttab",
            "two\nlines",
            "trailing \n \n",
            "\n\nleading",
            "---",
            "...",
            "%x",
            "@x",
            "`x",
            "!x",
            "&x",
            "*x",
            "'",
            "\"",
            "\\",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "\u{1}",
            "2026-01-01",
            "12:30:45",
            ".inf",
            "é\u{1f600}",
            "long ".repeat(60).as_str(),
        ] {
            let object = json!({ "a": text, text: [text, { "b": text }], "n": 1_000_000_007_i64, "f": 0.1 });
            assert_eq!(read(&write(&object).unwrap()).unwrap(), object, "{text:?}");
        }
    }
}
