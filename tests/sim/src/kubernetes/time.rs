//! Times as the API writes them: whole seconds.

use jiff::{SignedDuration, Timestamp};

/// `2026-01-01T00:00:00Z`.
pub(super) fn stamp(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    Timestamp::UNIX_EPOCH
        .checked_add(SignedDuration::from_secs(seconds))
        .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// In milliseconds since 1970.
pub(super) fn parse(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_whole_seconds() {
        assert_eq!(stamp(1_767_225_600_999), "2026-01-01T00:00:00Z");
        assert_eq!(parse("2026-01-01T00:00:00Z"), Some(1_767_225_600_000));
        assert_eq!(stamp(0), "1970-01-01T00:00:00Z");
    }
}
